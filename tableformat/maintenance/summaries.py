"""The plan of any operation as a person reads it: how much would go, and the first of what would go.

One form for all, because the same column of `kubectl get` and the same page show them.
"""

import itertools
from collections import Counter
from collections.abc import Iterable
from functools import singledispatch
from itertools import islice

from pydantic import BaseModel, ConfigDict

from tableformat.maintenance.compaction import CompactionPlan
from tableformat.maintenance.expiry import ExpiryPlan
from tableformat.maintenance.manifests import ManifestPlan
from tableformat.maintenance.orphans import OrphanPlan
from tableformat.maintenance.reachability import FileKind
from tableformat.maintenance.retention import RowRetentionPlan
from tableformat.maintenance.rollback import CherryPickPlan, RollbackPlan
from tableformat.plurals import plural

MOST_LINES = 20
_LONGEST_LINE = 200


class PlanSummary(BaseModel):
    """What would go, or be written anew, if the plan were carried out."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    files: int = 0
    bytes: int = 0
    rows: int = 0
    snapshots: int = 0
    lines: tuple[str, ...] = ()


@singledispatch
def summarize(plan: object) -> PlanSummary:
    """The plan in figures and a few lines."""
    raise TypeError(f"{type(plan).__name__} is no plan of an operation")


@summarize.register
def _(plan: CompactionPlan) -> PlanSummary:
    lines = itertools.chain(plan.left_alone, (str(group) for group in plan.groups))
    return PlanSummary(files=plan.source_files, bytes=plan.source_bytes, rows=plan.source_records, lines=_shown(lines))


@summarize.register
def _(plan: ExpiryPlan) -> PlanSummary:
    counts = Counter(file.kind for file in plan.files)
    kinds = [plural(counts[kind], f"{kind.value} file") for kind in FileKind if counts[kind]]
    refs = [f"ref {name}" for name in sorted(plan.retention.refs)]
    files = (f"{file.kind.value} {file.location}" for file in plan.files)
    return PlanSummary(
        files=len(plan.files),
        bytes=plan.bytes,
        snapshots=len(plan.retention.snapshots),
        lines=_shown([*kinds, *refs, *islice(files, MOST_LINES)]),
    )


@summarize.register
def _(plan: OrphanPlan) -> PlanSummary:
    marked = len(plan.orphans) - len(plan.going)
    count = [f"{plural(marked, 'more marked file')}, kept until the grace period is over"] if marked else []
    going = (f"{file.location} of {plural(file.size_bytes, 'byte')}" for file in plan.going)
    waiting = (f"marked: {file.location} of {plural(file.size_bytes, 'byte')}" for file in plan.marked)
    return PlanSummary(
        files=len(plan.going), bytes=plan.bytes_going, lines=_shown(itertools.chain(count, going, waiting))
    )


@summarize.register
def _(plan: ManifestPlan) -> PlanSummary:
    lines = (
        f"spec {group.spec_id}, {group.content.name.lower()}: {plural(len(group.manifests), 'manifest')} with "
        f"{plural(group.entries, 'entry', 'entries')} to {group.expected:,} at most"
        for group in plan.groups
    )
    return PlanSummary(files=len(plan.paths), bytes=sum(group.bytes for group in plan.groups), lines=_shown(lines))


@summarize.register
def _(plan: RowRetentionPlan) -> PlanSummary:
    edges = [f"{plural(len(plan.edges), 'more file')} with rows on both sides of the limit"] if plan.edges else []
    lines = (f"{file.path} with {plural(file.records, 'row')}" for file in plan.files)
    return PlanSummary(
        files=len(plan.files),
        bytes=plan.bytes,
        rows=plan.records,
        lines=_shown([*edges, *plan.left_alone, *islice(lines, MOST_LINES)]),
    )


@summarize.register
def _(plan: RollbackPlan) -> PlanSummary:
    lost = (f"lost: {each.operation} {each.snapshot_id} of {each.made_at.isoformat()}" for each in plan.lost)
    move = f"main goes from snapshot {plan.from_snapshot_id} to {plan.to_snapshot_id}"
    return PlanSummary(snapshots=len(plan.undone), lines=() if plan.is_empty else _shown([move, *lost]))


@summarize.register
def _(plan: CherryPickPlan) -> PlanSummary:
    return PlanSummary(files=plan.files, bytes=plan.bytes, rows=plan.rows, lines=_shown([str(plan)]))


def _shown(lines: Iterable[str]) -> tuple[str, ...]:
    return tuple(_shortened(line) for line in islice(lines, MOST_LINES))


def _shortened(line: str) -> str:
    """Without its middle where it is long: a path tells most by its ends. A name may have bytes that are no text."""
    line, half = line.encode(errors="backslashreplace").decode(), _LONGEST_LINE // 2
    return line if len(line) <= _LONGEST_LINE else f"{line[: half - 1]}…{line[-half:]}"
