"""`tablewright plan`: what `apply` would do, for people, for programs and for a pull request."""

import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tablewright.cli import options
from tablewright.cli.exits import ExitCode
from tablewright.cli.output import as_json, document_of, echo, has_colour, painted, tell

if TYPE_CHECKING:
    from datetime import datetime

    from tablewright.embedded.plan import FolderPlan, PlannedTable


class PlanFormat(StrEnum):
    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"


def plan(
    paths: options.DeclaredFolders,
    state: options.State = None,
    strict: options.Strict = False,
    exit_code: Annotated[bool, typer.Option("--exit-code", help="End with 3 if there is something to do.")] = False,
    output: Annotated[PlanFormat, typer.Option("--output", "-o", help="How it is shown.")] = PlanFormat.TEXT,
) -> None:
    """Show what apply would change and which maintenance is due, and why. Changes nothing.

    Example: tablewright plan -f examples/quickstart -o markdown
    """
    from datetime import UTC, datetime

    from tablewright.cli.places import state_folder
    from tablewright.embedded.folder import read_folder
    from tablewright.embedded.plan import plan_folder
    from tablewright.embedded.state import EmbeddedState

    now = datetime.now(UTC).replace(microsecond=0)
    declarations = read_folder(*paths, strict=strict)
    for note in declarations.notes:
        tell(f"note: {note}")
    planned = plan_folder(declarations, EmbeddedState(state_folder(paths, state)), now)
    if output is PlanFormat.JSON:
        echo(as_json(_document(planned)))
    elif output is PlanFormat.MARKDOWN:
        echo("\n".join(_markdown(planned)))
    else:
        echo(_text(planned))
    if planned.summary.unreachable:
        raise typer.Exit(ExitCode.UNREACHABLE)
    if planned.summary.refused:
        raise typer.Exit(ExitCode.NOT_AS_WANTED)
    raise typer.Exit(ExitCode.CHANGES_DUE if planned.has_work and exit_code else ExitCode.FINE)


_FORGET = "- its declaration is gone: apply forgets the object and its runs, and leaves the table as it is"
_COLOURS = {"+": "32", "-": "31", "!": "31", "~": "33", "*": "33", "next:": "2"}


def _text(planned: "FolderPlan") -> str:
    blocks = [[_name(each), *(f"  {line}" for line in _lines(each))] for each in planned.tables]
    blocks += [[key, f"  {_FORGET}"] for key in planned.forgotten]
    if has_colour(sys.stdout):
        blocks = [[painted(name, "1"), *map(_coloured, lines)] for name, *lines in blocks]
    return "\n\n".join("\n".join(block) for block in [*blocks, [_conclusion(planned)]])


def _coloured(line: str) -> str:
    sign, _, _ = line.strip().partition(" ")
    return painted(line, _COLOURS[sign]) if sign in _COLOURS else line


def _name(each: "PlannedTable") -> str:
    return "/".join(each.table.key)


def _lines(each: "PlannedTable") -> list[str]:
    from tableformat.declaration import render_text

    lines = [f"! {line}" for line in each.problem.splitlines()]
    if each.difference is not None:
        if each.is_new:
            lines.append(f"catalog: {each.catalog}")
        lines += render_text(each.difference).splitlines()
        if not each.applies and not each.difference.is_empty:
            lines.append(f"(managementPolicy {each.table.spec.management_policy} changes nothing)")
    lines += [f"+ {hold}" for hold in each.holds]
    if each.suspended_by is not None:
        lines.append(f"maintenance is suspended by spec.suspend of {_level(each.suspended_by)}")
    lines += [f"* {run.operation} is due: {run.reason}" for run in each.due]
    for run in each.coming:
        window = ", when a window opens" if run.when_window_opens else ""
        lines.append(f"  next: {run.operation} at {_time(run.at)}{window}")
    return lines


def _level(origin: str) -> str:
    """`policy/gold` as `TablePolicy gold`; the table itself has no name here."""
    level, _, name = origin.partition("/")
    return {"policy": f"TablePolicy {name}", "catalog": f"TableCatalog {name}"}.get(level, f"the {level}")


def _time(when: "datetime") -> str:
    return f"{when:%Y-%m-%dT%H:%M:%SZ}"


def _conclusion(planned: "FolderPlan") -> str:
    summary = planned.summary
    told = [
        f"{count:,} {what}"
        for count, what in (
            (summary.create, "to create"),
            (summary.change, "to change"),
            (summary.forget, "to forget"),
            (summary.runs_due, "run due" if summary.runs_due == 1 else "runs due"),
            (summary.refused, "refused"),
            (summary.unreachable, "unreachable"),
        )
        if count
    ]
    return ", ".join(told) or "Nothing to do."


def _document(planned: "FolderPlan") -> dict[str, Any]:
    return {
        "tables": [_table_document(each) for each in planned.tables],
        "forgotten": list(planned.forgotten),
        "summary": document_of(planned.summary),
    }


def _table_document(each: "PlannedTable") -> dict[str, Any]:
    import json

    from tableformat.declaration import render_json

    return {
        "namespace": each.table.key[0],
        "name": each.table.key[1],
        "catalog": each.catalog,
        "new": each.is_new,
        "applies": each.applies,
        "problem": each.problem,
        **(json.loads(render_json(each.difference)) if each.difference is not None else {"applicable": False}),
        "holds": list(each.holds),
        "suspendedBy": each.suspended_by,
        "maintenanceDue": [{"operation": run.operation.value, "reason": run.reason} for run in each.due],
        "maintenanceNext": [
            {"operation": run.operation.value, "at": _time(run.at), "whenWindowOpens": run.when_window_opens}
            for run in each.coming
        ],
    }


def _markdown(planned: "FolderPlan") -> list[str]:
    lines = ["## Tablewright plan", "", _conclusion(planned), ""]
    for each in planned.tables:
        if each.is_refused or each.has_work:
            sign = "❌" if each.is_refused else "🆕" if each.is_new else "✏️"
            lines += [f"### {sign} `{_name(each)}`", "", "```diff", *_lines(each), "```", ""]
    for key in planned.forgotten:
        lines += [f"### 🗑️ `{key}`", "", "```diff", _FORGET, "```", ""]
    return lines
