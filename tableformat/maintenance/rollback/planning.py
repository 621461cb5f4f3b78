"""Where a rollback would take a table's main branch, and which commits that would cost: pure, before anything happens.

It may be any state that main had: one of its history, or one that an earlier rollback left, until that expires.

A commit is lost if no other ref leads to it afterwards: nothing protects what it wrote from expiry then. Commits that
only moved rows into other files (`replace`) take no rows with them and are not counted. A tag or a hold may outlive the
snapshots between it and main: what they did is in the oldest that is left, which counts then, whatever it did itself.
"""

import itertools
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Self

from pydantic import BaseModel, ConfigDict, model_validator
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Operation, Snapshot

from tableformat.commits.runs import RUN_ID, RUN_NAME, summary_of
from tableformat.errors import PermanentError
from tableformat.inspection.ancestry import ancestry
from tableformat.inspection.main_log import rollbacks, was_on_main
from tableformat.plurals import plural

REMEDY = (
    "Tag what is to be kept, or pass --allow-losing-commits "
    "(in a MaintenanceRun: spec.rollback.allowLosingCommits: true)"
)


class RollbackRefused(PermanentError):
    """There is nothing to go back to, or going back would cost more than was allowed. Nothing was changed."""


class RollbackOptions(BaseModel):
    """Where to go back to, which is exactly one of the first five, and at what price."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    snapshot_id: int | None = None
    as_of_ms: int | None = None
    tag: str | None = None
    """Or a branch."""
    before_run: str | None = None
    """The name or the id of a run, as its commits have them."""
    undo: bool = False
    """To where main was before its last rollback that is not undone yet."""
    allow_losing_commits: bool = False

    @model_validator(mode="after")
    def _one_target(self) -> Self:
        given = (self.snapshot_id, self.as_of_ms, self.tag, self.before_run, self.undo or None)
        if sum(each is not None for each in given) != 1:
            raise ValueError("name one target: snapshot_id, as_of_ms, tag, before_run or undo")
        return self

    def refuses(self, plan: "RollbackPlan") -> bool:
        return bool(plan.lost) and not self.allow_losing_commits


@dataclass(frozen=True)
class LostCommit:
    snapshot_id: int
    made_at: datetime
    operation: str


@dataclass(frozen=True)
class RollbackPlan:
    table: str
    from_snapshot_id: int
    to_snapshot_id: int
    undone: tuple[int, ...]
    """The snapshots that main leaves behind, newest first."""
    lost: tuple[LostCommit, ...]
    """Those of them that no other ref keeps and that changed rows."""

    @property
    def is_empty(self) -> bool:
        return self.from_snapshot_id == self.to_snapshot_id

    def __str__(self) -> str:
        if self.is_empty:
            return f"rollback of {self.table}: main is at snapshot {self.to_snapshot_id} already"
        lost = ", ".join(f"{each.operation} {each.snapshot_id} of {each.made_at.isoformat()}" for each in self.lost)
        return (
            f"rollback of {self.table} from snapshot {self.from_snapshot_id} to {self.to_snapshot_id}: "
            f"{plural(len(self.undone), 'commit')} undone, lost: {lost or 'none'}"
        )


def plan_rollback(table: str, metadata: TableMetadata, options: RollbackOptions) -> RollbackPlan:
    """Raises `RollbackRefused` if the target is no state that main had."""
    by_id = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
    main = metadata.refs.get(MAIN_BRANCH)
    if main is None:
        raise RollbackRefused(f"table {table} has no snapshots to go back to")
    history = list(ancestry(main.snapshot_id, by_id))
    wanted = _wanted(table, metadata, options, history)
    way_expired = _is_older_than_what_is_left(wanted, history, by_id)
    if wanted not in by_id or not (way_expired or was_on_main(metadata, wanted)):
        raise RollbackRefused(
            f"table {table}: main was never at snapshot {wanted}, or that is no longer known; the oldest of its "
            f"history is {history[-1].snapshot_id} of {_made_at(history[-1]).isoformat()}. Nothing was changed"
        )
    stays = {snapshot.snapshot_id for snapshot in ancestry(wanted, by_id)}
    undone = list(itertools.takewhile(lambda snapshot: snapshot.snapshot_id not in stays, history))
    way_expired = len(undone) == len(history)  # no snapshot is left that both have
    kept = _kept_by_others(metadata, by_id)
    return RollbackPlan(
        table,
        main.snapshot_id,
        wanted,
        undone=tuple(snapshot.snapshot_id for snapshot in undone),
        lost=tuple(
            LostCommit(snapshot.snapshot_id, _made_at(snapshot), _operation(snapshot))
            for snapshot in undone
            if snapshot.snapshot_id not in kept
            and (_operation(snapshot) != Operation.REPLACE.value or (way_expired and snapshot is undone[-1]))
        ),
    )


def _is_older_than_what_is_left(wanted: int, history: list[Snapshot], by_id: dict[int, Snapshot]) -> bool:
    """Whether main may have come from there by snapshots that have expired. That it did, nobody can tell any more."""
    oldest, target = history[-1], by_id.get(wanted)
    if target is None or oldest.parent_snapshot_id is None:
        return False
    return target not in history and target.timestamp_ms < oldest.timestamp_ms


def _wanted(table: str, metadata: TableMetadata, options: RollbackOptions, history: list[Snapshot]) -> int:
    if options.snapshot_id is not None:
        return options.snapshot_id
    if options.tag is not None:
        if options.tag not in metadata.refs:
            known = ", ".join(sorted(metadata.refs))
            raise RollbackRefused(f"table {table} has no branch or tag {options.tag!r}; it has {known}")
        return metadata.refs[options.tag].snapshot_id
    if options.as_of_ms is not None:
        entries = [entry.snapshot_id for entry in metadata.snapshot_log if entry.timestamp_ms <= options.as_of_ms]
        if not entries:
            as_of = datetime.fromtimestamp(options.as_of_ms / 1000, UTC)
            raise RollbackRefused(f"table {table}: {as_of.isoformat()} is before the history that is left")
        return entries[-1]
    if options.undo:
        return _before_last_rollback(table, metadata, history)
    run = options.before_run
    of_run = [s for s in history if run in (summary_of(s).get(RUN_ID), summary_of(s).get(RUN_NAME))]
    if not of_run:
        raise RollbackRefused(
            f"table {table}: no commit of run {run} is in the history of main. Give the run's name or uid; a run that "
            "found nothing to do has made no commit"
        )
    parent = of_run[-1].parent_snapshot_id
    if parent is None or all(snapshot.snapshot_id != parent for snapshot in history):
        raise RollbackRefused(f"table {table}: what was before run {run} is no longer in the history")
    return parent


def _before_last_rollback(table: str, metadata: TableMetadata, history: list[Snapshot]) -> int:
    """An undone rollback is no news: main has its snapshots again. So undoing twice undoes the two last ones."""
    here = {snapshot.snapshot_id for snapshot in history}
    for move in rollbacks(metadata):
        if move.from_snapshot_id not in here:
            return move.from_snapshot_id
    raise RollbackRefused(
        f"table {table}: there is no rollback to undo in the history that is left. `tablewright history` shows the "
        "snapshots that were current, and --to-snapshot goes to one of them. Nothing was changed"
    )


def _kept_by_others(metadata: TableMetadata, by_id: dict[int, Snapshot]) -> set[int]:
    """What the other branches and tags lead to: each shows what all commits before it have made of the table."""
    others = (ref for name, ref in metadata.refs.items() if name != MAIN_BRANCH)
    return {snapshot.snapshot_id for ref in others for snapshot in ancestry(ref.snapshot_id, by_id)}


def _made_at(snapshot: Snapshot) -> datetime:
    return datetime.fromtimestamp(snapshot.timestamp_ms / 1000, UTC)


def _operation(snapshot: Snapshot) -> str:
    return "unknown" if snapshot.summary is None else snapshot.summary.operation.value
