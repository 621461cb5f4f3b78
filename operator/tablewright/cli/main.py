"""`tablewright`: the command line, thin: it reads arguments, calls the core, and prints.

Also `kubectl tablewright`, under its other name `kubectl-tablewright`.
"""

import inspect as python_inspect
import sys
import traceback
from collections.abc import Callable
from enum import StrEnum
from typing import Annotated

import typer
from typer.exceptions import TyperException

from tablewright.cli.commands import hold, run
from tablewright.cli.commands.apply import apply
from tablewright.cli.commands.export import export
from tablewright.cli.commands.get import describe, get
from tablewright.cli.commands.history import diff, history
from tablewright.cli.commands.inspect import inspect
from tablewright.cli.commands.listing import list_tables
from tablewright.cli.commands.plan import plan
from tablewright.cli.commands.register import register
from tablewright.cli.commands.report import report
from tablewright.cli.commands.validate import validate
from tablewright.cli.exits import EXIT_CODES_HELP, ExitCode, exit_code_of, told
from tablewright.cli.once import OnceEach


class LogFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


app = typer.Typer(
    name="tablewright",
    help="Declares Apache Iceberg tables, and keeps them healthy.",
    epilog=EXIT_CODES_HELP,
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_FOLDERS, _TABLES = "Declared tables, in a folder or a cluster", "Any Iceberg table, declared or not"


def _help(command: Callable[..., None]) -> str:
    """The docstring with each paragraph as one line: the terminal's width breaks lines, not the source's."""
    paragraphs = python_inspect.cleandoc(command.__doc__ or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


for _command, _panel in (
    (validate, _FOLDERS),
    (plan, _FOLDERS),
    (apply, _FOLDERS),
    (get, _FOLDERS),
    (describe, _FOLDERS),
    (inspect, _TABLES),
    (report, _TABLES),
    (history, _TABLES),
    (diff, _TABLES),
    (run.rollback, _TABLES),
    (run.cherry_pick, _TABLES),
    (export, _TABLES),
    (register, _TABLES),
):
    app.command(cls=OnceEach, rich_help_panel=_panel, help=_help(_command))(_command)
app.command("list", cls=OnceEach, rich_help_panel=_TABLES, help=_help(list_tables))(list_tables)
app.add_typer(run.app, name="run", rich_help_panel=_TABLES)
app.add_typer(hold.app, name="hold", rich_help_panel=_TABLES)


@app.callback()
def everywhere(
    version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=lambda wanted: _show_version(wanted), help="Show the version, and end."
        ),
    ] = False,
) -> None:
    pass


def _show_version(wanted: bool) -> None:
    from importlib.metadata import version

    if wanted:
        sys.stdout.write(f"tablewright {version('tablewright')}\n")
        raise typer.Exit


@app.command(cls=OnceEach, rich_help_panel="In a cluster")
def operator(
    job_image: Annotated[str, typer.Option(envvar="TABLEWRIGHT_JOB_IMAGE", help="The image that jobs run in.")],
    namespaces: Annotated[
        list[str] | None,
        typer.Option("--namespace", "--namespaces", "-n", help="Watch only these, given once each or as a,b (all)."),
    ] = None,
    kubeconfig: Annotated[str | None, typer.Option(help="A kubeconfig file (default: the pod's own access).")] = None,
    concurrency: Annotated[int, typer.Option(min=1, max=64, help="Objects worked on at the same time.")] = 4,
    max_concurrent_runs: Annotated[
        int, typer.Option(min=1, max=1000, help="Runs under way at the same time, of all tables.")
    ] = 20,
    poll_seconds: Annotated[
        float, typer.Option(min=1, max=86_400, help="How often tables are looked at whose catalog tells of no commits.")
    ] = 60.0,
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
        int,
        typer.Option(min=0, help="Of how many tables /metrics tells figures and troubles, each by itself; 0 of none."),
    ] = 1000,
    log_format: Annotated[
        LogFormat, typer.Option(help="Lines to read, or lines to search; of jobs, too.")
    ] = LogFormat.TEXT,
    tables_role: Annotated[
        str, typer.Option(help="ClusterRole that a RoleBinding grants the operator in each namespace with tables.")
    ] = "tablewright-tables",
    jobs_role: Annotated[
        str | None,
        typer.Option(help="ClusterRole that the operator binds the jobs' accounts to; without it, it creates none."),
    ] = None,
) -> None:
    """Run the operator in a cluster, until it is told to stop."""
    from tablewright.act.jobs import JobSettings
    from tablewright.runtime.leadership import Election, default_identity, default_lease_namespace
    from tablewright.runtime.lease import LeaseSettings
    from tablewright.runtime.logs import set_up_logs
    from tablewright.runtime.operator import OperatorSettings, run_operator

    as_json = log_format is LogFormat.JSON
    set_up_logs(as_json=as_json)
    watched = [name for given in namespaces or () for name in given.split(",") if name]
    election = Election(
        namespace=lease_namespace or default_lease_namespace(watched),
        name=lease_name,
        identity=identity or default_identity(),
        lease=LeaseSettings.of_duration(lease_seconds),
    )
    run_operator(
        OperatorSettings(
            jobs=JobSettings(image=job_image, logs_as_json=as_json),
            namespaces=watched,
            kubeconfig=kubeconfig,
            concurrency=concurrency,
            most_runs=max_concurrent_runs,
            poll_seconds=poll_seconds,
            host=host,
            port=port,
            election=election if leader_election else None,
            stop_seconds=stop_seconds,
            most_tables_in_metrics=table_metrics,
            tables_role=tables_role,
            jobs_role=jobs_role,
        )
    )


def main() -> None:
    from tableformat.secrets import RedactedStream, learn_environment

    learn_environment()
    shown = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (RedactedStream(stream) for stream in shown)
    try:
        _main()
    finally:
        sys.stdout, sys.stderr = shown


def _main() -> None:
    try:
        # Not Typer's own ending: it draws a box around a mistake, and scripts look for one line.
        code = app(standalone_mode=False)
    except TyperException as mistake:
        sys.exit(_complain(mistake))
    except Exception as error:
        code = exit_code_of(error)
        if code is None:  # printed here: after this, nothing looks for secrets in it
            sys.stderr.write(traceback.format_exc())
            sys.exit(1)
        for line in told(error).splitlines() or [type(error).__name__]:
            sys.stderr.write(f"error: {line}\n")
    if code == ExitCode.INTERRUPTED:
        sys.stderr.write("interrupted\n")
    sys.exit(code)


def _complain(mistake: TyperException) -> int:
    """What was typed is not a command line of ours: the mistake, and where to read how it is written."""
    context = getattr(mistake, "ctx", None)
    text = mistake.format_message().replace("Value error, ", "").rstrip(".")
    if not text:  # nothing was typed at all, and Typer has shown the help for that
        return mistake.exit_code
    hint = f" (see {context.command_path} --help)" if context else ""
    sys.stderr.write(f"error: {' '.join(text.split())}{hint}\n")
    return mistake.exit_code
