"""Where a rollback would take a table's main branch, and which commits that would cost: pure, before anything happens.

A commit is lost if no other ref leads to it afterwards: nothing protects what it wrote from expiry then. Commits that
only moved rows into other files (`replace`) take no rows with them and are not counted. A tag or a hold may outlive the
snapshots between it and main: what they did is in the oldest that is left, which counts then, whatever it did itself.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Self

from pydantic import BaseModel, ConfigDict, model_validator
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Operation, Snapshot

from tableformat.commits.runs import RUN_ID
from tableformat.errors import PermanentError
from tableformat.inspection.ancestry import ancestry


class RollbackRefused(PermanentError):
    """There is nothing to go back to, or going back would cost more than was allowed. Nothing was changed."""


class RollbackOptions(BaseModel):
    """Where to go back to, which is exactly one of the first four, and at what price."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    snapshot_id: int | None = None
    as_of_ms: int | None = None
    tag: str | None = None
    """Or a branch."""
    before_run: str | None = None
    """The id of a run, as its commits have it."""
    allow_losing_commits: bool = False

    @model_validator(mode="after")
    def _one_target(self) -> Self:
        if sum(each is not None for each in (self.snapshot_id, self.as_of_ms, self.tag, self.before_run)) != 1:
            raise ValueError("name one target: snapshot_id, as_of_ms, tag or before_run")
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
            f"{len(self.undone)} commits undone, lost are: {lost or 'none'}"
        )


def plan_rollback(table: str, metadata: TableMetadata, options: RollbackOptions) -> RollbackPlan:
    """Raises `RollbackRefused` if the target is not in the history of main."""
    by_id = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
    main = metadata.refs.get(MAIN_BRANCH)
    if main is None:
        raise RollbackRefused(f"table {table} has no snapshots to go back to")
    history = list(ancestry(main.snapshot_id, by_id))
    wanted = _wanted(table, metadata, options, history)
    way_expired = _is_older_than_what_is_left(wanted, history, by_id)
    if not way_expired and all(snapshot.snapshot_id != wanted for snapshot in history):
        raise RollbackRefused(
            f"table {table}: snapshot {wanted} is not in the history of main; its oldest is {history[-1].snapshot_id} "
            f"of {_made_at(history[-1]).isoformat()}. Nothing was changed"
        )
    undone = []
    for snapshot in history:
        if snapshot.snapshot_id == wanted:
            break
        undone.append(snapshot)
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
    of_run = [
        snapshot
        for snapshot in history
        if snapshot.summary is not None and snapshot.summary.additional_properties.get(RUN_ID) == options.before_run
    ]
    if not of_run:
        raise RollbackRefused(f"table {table}: no commit of run {options.before_run} is in the history of main")
    parent = of_run[-1].parent_snapshot_id
    if parent is None or all(snapshot.snapshot_id != parent for snapshot in history):
        raise RollbackRefused(f"table {table}: what was before run {options.before_run} is no longer in the history")
    return parent


def _kept_by_others(metadata: TableMetadata, by_id: dict[int, Snapshot]) -> set[int]:
    """What the other branches and tags lead to: each shows what all commits before it have made of the table."""
    others = (ref for name, ref in metadata.refs.items() if name != MAIN_BRANCH)
    return {snapshot.snapshot_id for ref in others for snapshot in ancestry(ref.snapshot_id, by_id)}


def _made_at(snapshot: Snapshot) -> datetime:
    return datetime.fromtimestamp(snapshot.timestamp_ms / 1000, UTC)


def _operation(snapshot: Snapshot) -> str:
    return "unknown" if snapshot.summary is None else snapshot.summary.operation.value
