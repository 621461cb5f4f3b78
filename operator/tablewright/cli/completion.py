"""What the shell's Tab offers: names of tables, runs, catalogs and namespaces.

Whoever presses Tab waits for it and reads nothing but names. So each answer loads only what it needs, waits a few
seconds for a server and no longer, and is empty where anything fails. What took a server to find is remembered for a
minute: Tab is pressed again and again.
"""

import contextlib
import hashlib
import json
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata

    from tablewright.cli.catalogs import AddressOptions

_SECONDS = 5.0
_SECONDS_VARIABLE = "TABLEWRIGHT_COMPLETION_SECONDS"
_FRESH_SECONDS = 60.0
_KINDS = {
    "table": "ManagedTable",
    "run": "MaintenanceRun",
    "catalog": "TableCatalog",
    "policy": "TablePolicy",
}

Completion = Callable[[typer.Context, str], list[str]]


class _TooLate(BaseException):  # no library takes it for an error of its own
    pass


def _quiet(find: Callable[[dict[str, Any]], Iterable[str]]) -> Completion:
    """`find` gets what was typed before, by the names of the command's parameters."""

    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        try:
            with Path(os.devnull).open("w") as nothing, contextlib.redirect_stderr(nothing):
                return sorted({name for name in find(_typed(ctx)) if name.startswith(incomplete)})
        except (Exception, _TooLate):
            return []

    return complete


def _typed(ctx: typer.Context) -> dict[str, Any]:
    """Where the word is an option's value, the parser has ended at that option and left the arguments over."""
    typed, left = dict(ctx.params), list(ctx.args)
    for parameter in ctx.command.params:
        if parameter.param_type_name == "argument" and typed.get(str(parameter.name)) is None and left:
            typed[str(parameter.name)] = left.pop(0)
    return typed


@contextlib.contextmanager
def _limited() -> Iterator[None]:
    def stop(*_: object) -> None:
        raise _TooLate

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, _seconds())
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _seconds() -> float:
    return max(0.1, float(os.environ.get(_SECONDS_VARIABLE) or _SECONDS))


@_quiet
def tables(typed: dict[str, Any]) -> Iterable[str]:
    """Of a folder its objects' names, otherwise the tables of the catalog."""
    if typed.get("folders"):
        return _names(_declared(typed, "ManagedTable"))
    return _remembered("tables", typed, lambda: [".".join(each) for each in _of_catalog(typed)])


@_quiet
def catalogs(typed: dict[str, Any]) -> Iterable[str]:  # noqa: ARG001
    """Those of PyIceberg's configuration."""
    from pyiceberg.utils.config import Config

    return Config().get_known_catalogs()


@_quiet
def declared_catalogs(typed: dict[str, Any]) -> Iterable[str]:
    return _names(_declared(typed, "TableCatalog"))


@_quiet
def catalog_namespaces(typed: dict[str, Any]) -> Iterable[str]:
    return _remembered("namespaces", typed, lambda: {".".join(each[:-1]) for each in _of_catalog(typed)})


@_quiet
def tables_and_namespaces(typed: dict[str, Any]) -> Iterable[str]:
    found = _remembered("tables", typed, lambda: [".".join(each) for each in _of_catalog(typed)])
    return {*found, *(name.rpartition(".")[0] for name in found)}


@_quiet
def objects(typed: dict[str, Any]) -> Iterable[str]:
    """The objects of the kind that was typed, in a folder or in the cluster."""
    return _names(_objects(typed, _kind(str(typed.get("kind") or "table"))))


@_quiet
def namespaces(typed: dict[str, Any]) -> Iterable[str]:
    """Those that have objects of ours."""
    found = _objects(typed, _kind(str(typed.get("kind") or "table")))
    return {str(obj["metadata"].get("namespace", "default")) for obj in found}


@_quiet
def runs(typed: dict[str, Any]) -> Iterable[str]:
    """Those that the table's commits name."""
    from tableformat.commits.runs import RUN_NAME, summary_of

    def find() -> Iterable[str]:
        snapshots = _metadata(typed).snapshots
        return [name for snapshot in snapshots if (name := summary_of(snapshot).get(RUN_NAME))]

    return _remembered("runs", typed, find)


@_quiet
def refs(typed: dict[str, Any]) -> Iterable[str]:
    return _remembered("refs", typed, lambda: list(_metadata(typed).refs))


def _metadata(typed: dict[str, Any]) -> "TableMetadata":
    from tablewright.cli.catalogs import address

    with _limited():
        return address(str(typed["table"]), _options(typed)).load().metadata


def _of_catalog(typed: dict[str, Any]) -> list[tuple[str, ...]]:
    from tablewright.cli.catalogs import catalogs as opened

    with _limited():
        return [identifier for catalog in opened(_options(typed)) for identifier in catalog.identifiers()]


def _options(typed: dict[str, Any]) -> "AddressOptions":
    from tablewright.cli.catalogs import AddressOptions

    folders = list(_paths(typed))
    return AddressOptions(
        typed.get("catalog"), typed.get("catalog_uri"), typed.get("properties") or (), folders, typed.get("state")
    )


def _kind(word: str) -> str:
    from tablewright.cli.sources import kind_named

    return _KINDS.get(word.removesuffix("s")) or kind_named(word)


def _objects(typed: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    if typed.get("folders") and kind != "MaintenanceRun":
        return _declared(typed, kind)
    if typed.get("folders"):
        return _recorded_runs(typed)

    def ask() -> list[dict[str, Any]]:
        import kubernetes.client  # noqa: F401 - takes a second, which is no server's

        from tablewright.cli.sources import ClusterSource

        source = ClusterSource(typed.get("kubeconfig"), typed.get("context"), seconds=_seconds())
        keys = ("name", "namespace")
        with _limited():
            return [{"metadata": {key: obj["metadata"].get(key) for key in keys}} for obj in source.objects(kind, None)]

    found = _remembered(f"cluster {kind}", typed, ask)
    given = typed.get("namespace")
    return [obj for obj in found if given in (None, obj["metadata"]["namespace"])]


def _recorded_runs(typed: dict[str, Any]) -> list[dict[str, Any]]:
    from tablewright.cli.places import state_folder
    from tablewright.embedded.state import EmbeddedState

    state = EmbeddedState(state_folder(list(_paths(typed)), typed.get("state")))
    state.look()
    return [{"metadata": {"name": run.metadata.name, "namespace": run.metadata.namespace}} for run in state.runs()]


def _declared(typed: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    """By the files alone, as far as they can be read: a folder that is being written has problems."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    found: list[dict[str, Any]] = []
    for path in _paths(typed):
        for file in _files(path):
            with contextlib.suppress(OSError, ValueError, yaml.YAMLError):
                for document in yaml.load_all(file.read_text(), loader):
                    items = document.get("items", [document]) if isinstance(document, dict) else []
                    found += [obj for obj in items if isinstance(obj, dict) and obj.get("kind") == kind]
    given = typed.get("namespace") if kind != "TableCatalog" else None
    return [
        obj
        for obj in found
        if isinstance(obj.get("metadata"), dict) and given in (None, obj["metadata"].get("namespace", "default"))
    ]


def _files(path: Path) -> Iterator[Path]:
    """Without hidden folders: a warehouse has a million files."""
    if path.is_file():
        yield path
    for folder, inner, names in os.walk(path):
        inner[:] = [name for name in inner if not name.startswith(".")]
        yield from (Path(folder, name) for name in names if name.endswith((".yaml", ".yml")))


def _paths(typed: dict[str, Any]) -> Iterator[Path]:
    """As the shell would have them: it expands words only when the command is run."""
    for path in typed.get("folders") or ():
        if str(path) != "-":
            yield Path(os.path.expandvars(path)).expanduser()


def _names(objects: Iterable[dict[str, Any]]) -> list[str]:
    return [str(obj["metadata"]["name"]) for obj in objects if "name" in obj["metadata"]]


def _remembered(what: str, typed: dict[str, Any], find: Callable[[], Iterable[Any]]) -> list[Any]:
    """The answer of a minute ago, or a new one. What was typed may hold a secret: only a digest of it is kept."""
    places = [str(Path.cwd()), os.environ.get("KUBECONFIG", ""), os.environ.get("PYICEBERG_HOME", "")]
    words = {key: str(value) for key, value in typed.items()}
    key = hashlib.sha256(json.dumps([what, places, words], sort_keys=True).encode()).hexdigest()
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    file = Path(home, "tablewright", "completion", f"{key}.json")
    with contextlib.suppress(OSError, ValueError):
        if time.time() - file.stat().st_mtime < _FRESH_SECONDS:
            return list(json.loads(file.read_text()))
    found = list(find())
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        for old in file.parent.glob("*.json"):
            if time.time() - old.stat().st_mtime > _FRESH_SECONDS:
                old.unlink()
        scratch = file.with_suffix(f".{os.getpid()}")
        scratch.write_text(json.dumps(found))
        scratch.replace(file)
    return found
