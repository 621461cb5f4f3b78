"""`tablewright`: the command line, thin: it reads arguments, calls the core, and prints."""

import logging
import sys
from pathlib import Path
from typing import Annotated

import typer

from tablewright.cli.rendering import describe_event, status_table, troubles
from tablewright.embedded.apply import TableDone, apply_folder
from tablewright.embedded.folder import InvalidFolderError, read_folder
from tablewright.embedded.state import EmbeddedState

FINE, NOT_AS_DECLARED, BAD_INPUT = 0, 1, 2

app = typer.Typer(
    name="tablewright",
    help="Declares Apache Iceberg tables, and keeps them healthy.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
)


@app.command()
def apply(
    path: Annotated[Path, typer.Option("--filename", "-f", help="A YAML file, or a folder of them.")],
    state: Annotated[
        Path | None,
        typer.Option(help="Where the embedded catalog, warehouse and history are kept (default: FOLDER/.tablewright)."),
    ] = None,
) -> None:
    """Bring every declared table to its declaration, and run the maintenance that is due.

    Without a TableCatalog in the folder, tables are kept in SQLite and a local warehouse; Spark runs in local mode.

    Exit codes: 0 all tables are as declared, 1 some are not, 2 the declarations cannot be used (nothing was changed).

    Example: tablewright apply -f examples/quickstart
    """
    try:
        declarations = read_folder(path)
    except InvalidFolderError as error:
        for problem in error.problems:
            typer.echo(f"error: {problem}", err=True)
        raise typer.Exit(BAD_INPUT) from None
    folder = state or (path if path.is_dir() else path.parent) / ".tablewright"
    done = []
    for event in apply_folder(declarations, EmbeddedState(folder)):
        if isinstance(event, TableDone):
            done.append(event.table)
        else:
            typer.echo(describe_event(event), err=True)
    typer.echo(status_table(done))
    trouble = troubles(done)
    for line in trouble:
        typer.echo(line, err=True)
    raise typer.Exit(NOT_AS_DECLARED if trouble else FINE)


@app.command()
def operator(
    job_image: Annotated[str, typer.Option(envvar="TABLEWRIGHT_JOB_IMAGE", help="The image that jobs run in.")],
    namespace: Annotated[
        list[str] | None, typer.Option("--namespace", "-n", help="Watch only these namespaces (default: all).")
    ] = None,
    kubeconfig: Annotated[str | None, typer.Option(help="A kubeconfig file (default: the pod's own access).")] = None,
    concurrency: Annotated[int, typer.Option(min=1, max=64, help="Tables worked on at the same time.")] = 4,
    liveness: Annotated[
        str | None, typer.Option(help="Where to answer probes, as http://0.0.0.0:8080/healthz.")
    ] = None,
) -> None:
    """Run the operator in a cluster, until it is told to stop."""
    from tablewright.act.jobs import JobSettings
    from tablewright.runtime.operator import OperatorSettings, run_operator

    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s", stream=sys.stderr, force=True
    )
    run_operator(
        OperatorSettings(
            jobs=JobSettings(image=job_image),
            namespaces=namespace or (),
            kubeconfig=kubeconfig,
            concurrency=concurrency,
            liveness_endpoint=liveness,
        )
    )


def main() -> None:
    app()
