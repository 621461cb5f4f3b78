"""Operations of ours as steps of a case, and the short list of reasons for which a table may be refused."""

import re
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random

from pyiceberg.catalog import Catalog
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import DateType, IcebergType, TimestampType, TimestamptzType

from tableformat.engine.deletes import column_path
from tableformat.errors import TablewrightError
from tableformat.maintenance import InProcessExecutor
from tableformat.maintenance.compaction import CompactionOptions, OrderColumn, compact
from tableformat.maintenance.expiry import ExpiryOptions, expire_snapshots
from tableformat.maintenance.holds import Hold, place_hold
from tableformat.maintenance.manifests import ManifestOptions, rewrite_manifests
from tableformat.maintenance.orphans import OrphanAction, OrphanOptions, remove_orphans
from tableformat.maintenance.retention import RowRetentionOptions, remove_old_rows
from tableformat.maintenance.rollback import RollbackOptions, cherry_pick, roll_back
from tests.differential.cases import Step

IDENTIFIER = ("db", "t")

REFUSALS = {
    r"is left alone: partition spec \d+ has a transform or a source column that is not known": (
        "the column of a partition field was dropped, and its type is not known any more"
    ),
    r"is left alone: its partition spec \d+ cannot be understood": "the same, of manifests",
    r"main was never at snapshot": "a rollback to a snapshot of another branch",
    r"has no snapshots to go back to|has no snapshots yet": "a table without snapshots",
    r"was published already, by another snapshot": "a staged snapshot whose id is taken",
    r"neither appends nor replaces partitions, and main has moved on": "as Iceberg's own cherry-pick",
    r"partitions that snapshot \d+ replaces were written to": "as Iceberg's own cherry-pick",
    r"replaces partitions of a history that main does not have": "as Iceberg's own cherry-pick",
    r"missing [\d,]+ files? that snapshot \d+ replaces": "as Iceberg's own cherry-pick",
    r"files of snapshot \d+ are in main already": "the rows would be there twice",
    r"there is no sort order|has no sort order": "sorted by an order that the table does not have",
    r"is in it more than once": "a file that was committed twice",
    r"is a struct of nothing but columns of type unknown, or of none at all": "the reference cannot write it either",
    r"is left alone: it has no columns": "every column was dropped",
    r"ORC timestamp .* is out of range for nanosecond resolution": "Arrow reads ORC's timestamps as nanoseconds",
    r"has no field ids, and the table has no name mapping": "the reference guesses by position, and engines do not",
    r"is in the optional struct .*, and Iceberg Java reads a null struct": "Java makes a struct of an identity value",
    r"has values other than its identity partition's": "Java's ORC library moves some times just before 1970",
    r"has nanoseconds as they are": "the reference does not read such partitions, not even its own",
    r"no room for, so Iceberg has no partition for it": "the reference cannot write such a partition either",
    r"lacks the required column": "a required column was added without a default, against Iceberg's own rules",
}


@dataclass(frozen=True)
class Outcome:
    """What became of an operation: at most one of the first two texts."""

    refusal: str | None = None
    failure: str | None = None
    is_partial: bool = False
    """Whether files that cannot be rewritten exactly stayed as they are."""
    refused_as: str | None = None
    """The class of the error of ours that ended it, if one did."""


def run(catalog: Catalog, step: Step, *, now: datetime) -> Outcome:
    try:
        return Outcome(is_partial=_run(catalog, step, catalog.load_table(IDENTIFIER), now))
    except TablewrightError as error:
        text = f"{type(error).__name__}: {error}"
        if any(re.search(reason, text) for reason in REFUSALS):
            return Outcome(refusal=text, refused_as=error.reason)
        return Outcome(failure=f"refused for a reason that is not on the list: {text}", refused_as=error.reason)
    except Exception as error:
        return Outcome(failure=f"ended in {type(error).__name__}: {error}\n{_trace(error)}")


def _trace(error: BaseException) -> str:
    import traceback

    return "".join(traceback.format_exception(error)[-12:])


def _run(catalog: Catalog, step: Step, table: Table, now: datetime) -> bool:
    random, run_id = Random(step.get("seed", 0)), uuid.uuid4().hex
    match step["do"]:
        case "compact":
            options = _compaction(step, table, random)
            compact(catalog, IDENTIFIER, options, executor=InProcessExecutor(), run_id=run_id, now=now)
        case "rewrite manifests":
            rewrite_manifests(catalog, IDENTIFIER, ManifestOptions(**step["options"]), run_id=run_id)
        case "expire snapshots":
            expire_snapshots(catalog, IDENTIFIER, expiry_options(step, table, now), now=now)
        case "remove orphans":
            orphans = OrphanOptions(action=OrphanAction.DELETE, min_age_ms=0, allow_short_min_age=True)
            remove_orphans(catalog, IDENTIFIER, orphans, now=now + timedelta(minutes=1))
        case "hold":
            place_hold(
                catalog, IDENTIFIER, Hold(name=f"h{step['seed']}", as_of=now, until=now + timedelta(days=1)), now=now
            )
        case "roll back":
            rollback = RollbackOptions(snapshot_id=rollback_target(step, table), allow_losing_commits=True)
            roll_back(catalog, IDENTIFIER, rollback, run_id=run_id, now=now)
        case "publish":
            if (staged := staged_snapshot(step, table)) is not None:
                cherry_pick(catalog, IDENTIFIER, staged, run_id=run_id)
        case "delete expired rows":
            return _delete_expired_rows(catalog, step, young_rows(step, table), run_id, now)
        case unknown:
            raise ValueError(f"unknown operation {unknown}")
    return False


def _delete_expired_rows(catalog: Catalog, step: Step, young: Step | None, run_id: str, now: datetime) -> bool:
    if young is None:
        return False
    age = now - datetime.fromisoformat(step["from"]).replace(tzinfo=UTC)
    limit = RowRetentionOptions(column=young["column"], max_age_ms=age // timedelta(milliseconds=1))
    return remove_old_rows(catalog, IDENTIFIER, limit, run_id=run_id, now=now).files_left_alone > 0


def young_rows(step: Step, table: Table) -> Step | None:
    """By which column rows have an age, and from which value on they stay; None where there is no such column."""
    schema, time = table.schema(), step["from"][10:]
    endings: dict[type[IcebergType], str] = {DateType: "", TimestampType: time, TimestamptzType: f"{time}Z"}
    names = [name for name in _orderable(schema) if type(schema.find_type(name)) in endings]
    if not names:
        return None
    name = Random(step["seed"]).choice(names)
    return {"column": name, "from": step["from"][:10] + endings[type(schema.find_type(name))]}


def rollback_target(step: Step, table: Table) -> int:
    snapshots = sorted(snapshot.snapshot_id for snapshot in table.metadata.snapshots)
    return Random(step["seed"]).choice(snapshots) if snapshots else 1


def staged_snapshot(step: Step, table: Table) -> int | None:
    staged = [
        snapshot.snapshot_id
        for snapshot in table.metadata.snapshots
        if snapshot.summary is not None and "wap.id" in snapshot.summary.additional_properties
    ]
    return Random(step["seed"]).choice(sorted(staged)) if staged else None


def expiry_options(step: Step, table: Table, now: datetime) -> ExpiryOptions:
    """Everything older than one of the snapshots, or than now."""
    times = sorted(snapshot.timestamp_ms for snapshot in table.metadata.snapshots)
    now_ms = int(now.timestamp() * 1000)
    return ExpiryOptions(
        max_snapshot_age_ms=now_ms - Random(step["seed"]).choice([*times, now_ms]), min_snapshots_to_keep=step["keep"]
    )


def _compaction(step: Step, table: Table, random: Random) -> CompactionOptions:
    strategy, names = step["strategy"], _orderable(table.schema())
    if strategy == "own":
        return CompactionOptions(**step["options"], strategy="sort" if table.sort_order().fields else "binpack")
    if strategy == "binpack" or len(names) < 2:
        return CompactionOptions(**step["options"])
    chosen = random.sample(names, min(len(names), random.randint(2, 3)))
    order = tuple(
        OrderColumn(name=name)
        if strategy == "zorder"
        else OrderColumn(name=name, descending=random.random() < 0.5, nulls_first=random.choice((None, True, False)))
        for name in chosen
    )
    return CompactionOptions(**step["options"], strategy=strategy, order=order)


def _orderable(schema: Schema) -> list[str]:
    names = []
    for field_id, name in schema._lazy_id_to_name.items():
        try:
            column_path(schema, field_id)
        except ValueError:
            continue
        if schema.find_type(field_id).is_primitive:
            names.append(name)
    return sorted(names)


def clock(table: Table) -> datetime:
    """A time that is not before the table's last commit."""
    last = datetime.fromtimestamp(table.metadata.last_updated_ms / 1000, UTC)
    return max(datetime.now(UTC), last) + timedelta(milliseconds=5)
