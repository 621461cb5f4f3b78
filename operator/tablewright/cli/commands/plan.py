"""`tablewright plan`: what `apply` would do, for people, for programs and for a pull request."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tablewright.cli import options
from tablewright.cli.exits import ExitCode
from tablewright.cli.output import as_json, echo, tell

if TYPE_CHECKING:
    from tablewright.embedded.plan import PlannedTable


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
    planned = list(plan_folder(declarations, EmbeddedState(state_folder(paths, state)), now))
    if output is PlanFormat.JSON:
        echo(as_json({"tables": [_document(each) for each in planned]}))
    elif output is PlanFormat.MARKDOWN:
        echo("\n".join(_markdown(planned)))
    else:
        echo("\n\n".join("\n".join(_text(each)) for each in planned))
    if any(each.did_not_answer for each in planned):
        raise typer.Exit(ExitCode.UNREACHABLE)
    if any(each.is_refused for each in planned):
        raise typer.Exit(ExitCode.NOT_AS_WANTED)
    due = any(each.has_work for each in planned)
    raise typer.Exit(ExitCode.CHANGES_DUE if due and exit_code else ExitCode.FINE)


def _name(each: "PlannedTable") -> str:
    return "/".join(each.table.key)


def _text(each: "PlannedTable") -> list[str]:
    from tableformat.declaration import render_text

    lines = [_name(each)]
    lines += [f"  ! {line}" for line in each.problem.splitlines()]
    if each.difference is not None:
        if each.is_new:
            lines.append(f"  catalog: {each.catalog}")
        lines += [f"  {line}" for line in render_text(each.difference).splitlines()]
        if not each.applies and not each.difference.is_empty:
            lines.append(f"  (managementPolicy {each.table.spec.management_policy} changes nothing)")
    lines += [f"  + {hold}" for hold in each.holds]
    lines += [f"  * {run.operation} is due: {run.reason}" for run in each.due]
    lines += [f"    next: {wait}" for wait in each.waits]
    return lines


def _document(each: "PlannedTable") -> dict[str, Any]:
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
        "maintenanceDue": [{"operation": run.operation.value, "reason": run.reason} for run in each.due],
        "maintenanceNext": list(each.waits),
    }


def _markdown(planned: "list[PlannedTable]") -> list[str]:
    refused = sum(each.is_refused for each in planned)
    work = sum(each.has_work and not each.is_refused for each in planned)
    idle = len(planned) - refused - work
    lines = ["## Tablewright plan", "", f"{work} to change, {refused} refused, {idle} as declared.", ""]
    for each in planned:
        if each.is_refused or each.has_work:
            sign = "❌" if each.is_refused else "🆕" if each.is_new else "✏️"
            body = _text(each)[1:]
            lines += [f"### {sign} `{_name(each)}`", "", "```diff", *(line[2:] for line in body), "```", ""]
    return lines
