"""Carries one operation out on one table, here and now, and says what came of it."""

import re
import shlex
import sys
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pyiceberg.table import Table

from tableformat.inspection import own_target_bytes
from tableformat.maintenance.job import JobReport, MaintenanceJob, Work
from tableformat.plurals import plural
from tablewright.act.jobs import maintenance_job
from tablewright.api.durations import parse_duration
from tablewright.api.objects import parse
from tablewright.api.quantities import parse_size
from tablewright.api.run import MaintenanceRun
from tablewright.cli.catalogs import AddressedTable
from tablewright.cli.exits import ExitCode, InputError
from tablewright.cli.output import (
    Column,
    OutputFormat,
    as_json,
    as_yaml,
    document_of,
    echo,
    has_colour,
    size,
    table_text,
    tell,
)
from tablewright.cli.progress import progress_display
from tablewright.cli.recording import INTERRUPTED, name_by_hand, record
from tablewright.embedded.driver import DriverEnded, run_driver

_Options = TypeVar("_Options", bound=BaseModel)
_ORDERED_COLUMN = re.compile(
    r"(?P<column>.+?)(?:\s+(?P<direction>asc|desc))?(?:\s+nulls\s+(?P<nulls>first|last))?", re.IGNORECASE | re.DOTALL
)
_DATE = re.compile(r"\d{4}-?\d{2}-?\d{2}")
_FIGURES = ("data_files", "small_files", "delete_files", "data_bytes", "records", "snapshots", "manifests")


def carry_out(found: AddressedTable, work: Work, *, dry_run: bool, output: OutputFormat) -> ExitCode:
    """The run's name and id are in its commits: `rollback --before-run` undoes them."""
    run_id = str(uuid.uuid4())
    job = MaintenanceJob(
        run_id=run_id,
        run_name=name_by_hand(found, work.operation, run_id),
        catalog=found.config,
        identifier=found.identifier,
        work=work,
        dry_run=dry_run,
    )
    started, ended = datetime.now(UTC), INTERRUPTED
    try:
        with progress_display() as display:
            display.begin(run_id, f"{work.operation} {found.name}")
            for event in run_driver(job):
                if isinstance(event, DriverEnded):
                    ended = event
                else:
                    display.at(run_id, event)
    finally:
        record(found, job, ended, started=started, now=datetime.now(UTC))
    report = ended.parsed()
    _show(found, job, report, output)
    return ExitCode.FINE if report.succeeded else ExitCode.NOT_AS_WANTED


def declared_work(found: AddressedTable, operation: str) -> dict[str, Any]:
    """The options that a declared table's policy gives; none for a table that nobody declared here."""
    if found.declared is None or found.policy is None or found.declared_catalog is None:
        return {}
    spec = {"tableRef": {"name": found.declared.metadata.name}, "operation": operation}
    run = parse(MaintenanceRun, {"metadata": {"name": "by-hand"}, "spec": spec})
    work = maintenance_job(run, found.declared, found.policy, found.declared_catalog).work
    options: BaseModel | None = getattr(work, "options", None)
    return {} if options is None else options.model_dump(exclude_unset=True)


def options_of(kind: type[_Options], known: Mapping[str, Any], given: Mapping[str, Any]) -> _Options:
    """What was typed over what the policy says over the operation's own defaults."""
    values = {**known, **{name: value for name, value in given.items() if value is not None}}
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        problems = "; ".join(
            f"--{'.'.join(map(str, problem['loc'])).replace('_', '-')}: {problem['msg']}".removeprefix("--: ")
            for problem in error.errors()
        )
        raise InputError(problems.replace("Value error, ", "")) from None


def target_bytes(table: Table) -> int:
    return own_target_bytes(table.properties)


def size_option(name: str, text: str | None) -> int | None:
    try:
        return None if text is None else parse_size(text)
    except ValueError as error:
        raise InputError(f"--{name}: {error}") from None


def duration_option(name: str, text: str | None) -> int | None:
    """In milliseconds."""
    try:
        return None if text is None else int(parse_duration(text).total_seconds() * 1000)
    except ValueError as error:
        raise InputError(f"--{name}: {error}") from None


def order_option(name: str, texts: Sequence[str]) -> list[dict[str, object]]:
    """Columns to order by, each with its direction and the place of nulls behind it, where they are said.

    They are looked for at the end, so that a column's name may have spaces.
    """
    columns: list[dict[str, object]] = []
    for text in texts:
        if (found := _ORDERED_COLUMN.fullmatch(text.strip())) is None:
            raise InputError(f'--{name}: {text!r} names no column: write one such as "ts" or "ts desc nulls last"')
        column: dict[str, object] = {"name": found["column"]}
        if found["direction"]:
            column["descending"] = found["direction"].lower() == "desc"
        if found["nulls"]:
            column["nulls_first"] = found["nulls"].lower() == "first"
        columns.append(column)
    return columns


def time_option(name: str, text: str) -> datetime:
    """A date without a time is its midnight in UTC."""
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise InputError(f"--{name}: {text!r} is not a time. Use a form such as 2026-09-30T23:59:59Z.") from None
    if when.tzinfo is not None:
        return when
    if _DATE.fullmatch(text):
        return when.replace(tzinfo=UTC)
    raise InputError(f"--{name}: {text!r} has no time zone. Use a form such as 2026-09-30T23:59:59Z.")


def _show(found: AddressedTable, job: MaintenanceJob, report: JobReport, output: OutputFormat) -> None:
    work, undo = job.work, _undo(found, report)
    if output in (OutputFormat.JSON, OutputFormat.YAML):
        document = {
            "table": found.name,
            "operation": work.operation,
            "run": job.run_name,
            "runId": job.run_id,
            **document_of(report),
            **({"undo": undo} if undo else {}),
        }
        echo(as_json(document) if output is OutputFormat.JSON else as_yaml(document).rstrip())
        return
    if not report.succeeded:
        tell(f"error: {work.operation} of {found.name} failed ({report.reason}): {report.message}")
    else:
        echo(f"{found.name}: {work.operation}: {report.message}")
    if report.after is None and report.plan is not None:
        plan = report.plan
        files = f"{plural(plan.files, 'file')} of {size(plan.bytes)}"
        echo(f"would touch {files}, {plural(plan.rows, 'row')}, {plural(plan.snapshots, 'snapshot')}")
        for line in plan.lines:
            echo(f"  {line}")
    elif report.before is not None and report.after is not None:
        rows = [
            (name.replace("_", " "), _figure(name, before), _figure(name, after))
            for name in _FIGURES
            for before, after in [(getattr(report.before, name), getattr(report.after, name))]
        ]
        columns = (Column(""), Column("BEFORE", right=True), Column("AFTER", right=True))
        echo(table_text(columns, rows, colour=has_colour(sys.stdout)))
        echo(f"run {job.run_name}")
    if undo:
        echo(f"to undo: {undo}")


def _undo(found: AddressedTable, report: JobReport) -> str:
    """What to type to have the table where it was, after a rollback that moved it."""
    moved = report.rollback
    if moved is None or moved.from_snapshot_id == moved.to_snapshot_id:
        return ""
    return shlex.join(["tablewright", "rollback", *found.words, "--undo"])


def _figure(name: str, value: int) -> str:
    return size(value) if name.endswith("bytes") else f"{value:,}"
