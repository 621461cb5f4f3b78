"""`tablewright get` and `tablewright describe`: tables, runs, catalogs and policies, as kubectl would show them."""

from typing import Annotated, Any

import typer

from tablewright.cli import completion, options
from tablewright.cli.output import ListFormat

_KINDS = ("tables", "runs", "catalogs", "policies")


def _completed(incomplete: str) -> list[str]:
    return [word for word in _KINDS if word.startswith(incomplete)]


Kind = Annotated[
    str, typer.Argument(metavar="KIND", help="tables, runs, catalogs or policies.", autocompletion=_completed)
]


def get(
    kind: Kind,
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Only this one.", autocompletion=completion.objects)
    ] = None,
    folders: options.Folders = None,
    state: options.State = None,
    namespace: options.Namespace = None,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
    selector: Annotated[
        str | None,
        typer.Option("--selector", "-l", metavar="SELECTOR", help="Only objects with these labels, as team=sales."),
    ] = None,
    every_namespace: Annotated[
        bool, typer.Option("--all-namespaces", "-A", help="Objects of all namespaces, which is the default.")
    ] = False,
    output: options.Names = ListFormat.TABLE,
) -> None:
    """List tables, runs, catalogs or policies: of a folder with -f, otherwise of the cluster.

    Examples: tablewright get tables -f demo; tablewright get runs -n sales -o wide; tablewright get tables -l
    team=sales -o name
    """
    from datetime import UTC, datetime

    from tablewright.api.objects import GROUP
    from tablewright.cli.exits import InputError
    from tablewright.cli.output import echo, show, tell
    from tablewright.cli.printing import columns_of, row_of

    if every_namespace and namespace is not None:
        raise InputError("give --namespace or --all-namespaces, not both")
    if name is not None and selector is not None:
        raise InputError("give a name or --selector, not both")
    known, objects = _found(kind, name, folders, state, namespace, kubeconfig, context, selector)
    if output is ListFormat.NAME:
        for obj in objects:
            echo(f"{known.lower()}.{GROUP}/{obj['metadata']['name']}")
        return
    if not objects and output in (ListFormat.TABLE, ListFormat.WIDE):
        tell(f"no {kind} found")
        return
    several = namespace is None
    now = datetime.now(UTC)
    rows = [row_of(known, obj, with_namespace=several, now=now) for obj in objects]
    alone = name is not None and len(objects) == 1
    document: Any = objects[0] if alone else {"apiVersion": "v1", "kind": "List", "items": objects}
    show(output.as_output, columns_of(known, with_namespace=several), rows, document)


def describe(
    kind: Kind,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Which one.", autocompletion=completion.objects)],
    folders: options.Folders = None,
    state: options.State = None,
    namespace: options.Namespace = None,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
) -> None:
    """Tell everything about one table, run, catalog or policy.

    Example: tablewright describe table payments -f demo
    """
    from tablewright.cli.output import echo
    from tablewright.cli.printing import described

    _, objects = _found(kind, name, folders, state, namespace, kubeconfig, context)
    echo("\n\n".join(described(obj) for obj in objects))


def _found(
    word: str,
    name: str | None,
    folders: Any,
    state: Any,
    namespace: str | None,
    kubeconfig: Any,
    context: str | None,
    selector: str | None = None,
) -> tuple[str, list[dict[str, Any]]]:
    from tablewright.api.admission.problems import did_you_mean
    from tablewright.cli.exits import InputError
    from tablewright.cli.places import state_folder
    from tablewright.cli.sources import ClusterSource, FolderSource, Source, kind_named

    kind = kind_named(word)
    source: Source = (
        ClusterSource(kubeconfig, context) if not folders else FolderSource(folders, state_folder(folders, state))
    )
    objects = source.objects(kind, namespace, selector)
    if name is None:
        return kind, objects
    wanted = [obj for obj in objects if name in (obj["metadata"]["name"], _full_name(obj))]
    if not wanted:
        raise InputError(f"there is no {kind} {name!r}: {did_you_mean(name, [o['metadata']['name'] for o in objects])}")
    return kind, wanted


def _full_name(obj: dict[str, Any]) -> str:
    return f"{obj['metadata'].get('namespace')}/{obj['metadata']['name']}"
