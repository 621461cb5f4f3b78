"""`tablewright`: the command line, thin: it reads arguments, calls the core, and prints."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tablewright.cli.rendering import describe_event, status_table, troubles
from tablewright.embedded.apply import TableDone, apply_folder
from tablewright.embedded.folder import InvalidFolderError, read_folder
from tablewright.embedded.state import EmbeddedState

FINE, NOT_AS_DECLARED, BAD_INPUT = 0, 1, 2


class LogFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


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
    namespaces: Annotated[
        list[str] | None,
        typer.Option("--namespace", "--namespaces", "-n", help="Watch only these, given once each or as a,b (all)."),
    ] = None,
    kubeconfig: Annotated[str | None, typer.Option(help="A kubeconfig file (default: the pod's own access).")] = None,
    concurrency: Annotated[int, typer.Option(min=1, max=64, help="Tables worked on at the same time.")] = 4,
    host: Annotated[str, typer.Option(help="Where /healthz, /readyz and /metrics are answered.")] = "0.0.0.0",  # noqa: S104
    port: Annotated[int, typer.Option(min=0, max=65535, help="Their port; 0 takes a free one, and logs it.")] = 8080,
    leader_election: Annotated[
        bool, typer.Option(help="Hold a Lease, so that one of several replicas acts; off for a single replica.")
    ] = True,
    lease_namespace: Annotated[
        str | None, typer.Option(help="Where the Lease is (default: the pod's namespace, or the first one watched).")
    ] = None,
    lease_name: Annotated[str, typer.Option(help="The Lease's name.")] = "tablewright",
    lease_seconds: Annotated[
        float, typer.Option(min=1, max=600, help="After how long without a renewal a standby takes over.")
    ] = 15.0,
    identity: Annotated[
        str | None,
        typer.Option(
            envvar="TABLEWRIGHT_IDENTITY",
            help="This replica's name in the Lease, such as its pod's; no two that run at once may share one.",
        ),
    ] = None,
    stop_seconds: Annotated[
        float, typer.Option(min=0, max=3600, help="How long passes may take to end after SIGTERM.")
    ] = 20.0,
    table_metrics: Annotated[
        int, typer.Option(min=0, help="Of how many tables /metrics tells the figures, each by itself; 0 of none.")
    ] = 1000,
    log_format: Annotated[LogFormat, typer.Option(help="Lines to read, or lines to search.")] = LogFormat.TEXT,
) -> None:
    """Run the operator in a cluster, until it is told to stop."""
    from tablewright.act.jobs import JobSettings
    from tablewright.runtime.leadership import Election, default_identity, default_lease_namespace
    from tablewright.runtime.lease import LeaseSettings
    from tablewright.runtime.logs import set_up_logs
    from tablewright.runtime.operator import OperatorSettings, run_operator

    set_up_logs(as_json=log_format is LogFormat.JSON)
    watched = [name for given in namespaces or () for name in given.split(",") if name]
    election = Election(
        namespace=lease_namespace or default_lease_namespace(watched),
        name=lease_name,
        identity=identity or default_identity(),
        lease=LeaseSettings.of_duration(lease_seconds),
    )
    run_operator(
        OperatorSettings(
            jobs=JobSettings(image=job_image),
            namespaces=watched,
            kubeconfig=kubeconfig,
            concurrency=concurrency,
            host=host,
            port=port,
            election=election if leader_election else None,
            stop_seconds=stop_seconds,
            most_tables_in_metrics=table_metrics,
        )
    )


def main() -> None:
    app()
