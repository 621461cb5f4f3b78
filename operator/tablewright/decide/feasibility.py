"""Which maintenance cannot succeed, whatever the table's files are: its declaration, or the table's own schema and
properties, let every run of it fail.

The rules are those of the planners themselves. Asked before a run is started, they say it where people look, and
`validate` says it before anything is applied.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata

from tableformat.catalogs.locations import places_of
from tableformat.declaration import TableDeclaration
from tableformat.declaration.difference import new_table
from tableformat.maintenance.compaction.eligibility import obstacles
from tableformat.maintenance.compaction.ordering import why_not_ordered
from tableformat.maintenance.compaction.tasks import unreadable_partition
from tableformat.maintenance.expiry.retention import unreadable_settings
from tableformat.maintenance.orphans.folders import is_whole_store
from tableformat.maintenance.orphans.options import SAFE_AGE_MS
from tableformat.maintenance.retention.planning import why_no_age
from tableformat.properties import GC_ENABLED, may_delete_files
from tablewright.api.durations import format_duration
from tablewright.api.run import Operation
from tablewright.api.table import ManagedTable
from tablewright.decide.maintenance import expiry_options
from tablewright.decide.policy import EffectivePolicy

NOT_POSSIBLE = "NotPossible"


@dataclass(frozen=True)
class ImpossibleRun:
    """Every run of the operation would fail. `field` is named as in a spec, for example `orphanFiles.minAge`."""

    operation: Operation
    field: str
    reason: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.field}: {self.reason}. {self.remedy}{'' if self.remedy.endswith('?') else '.'}"


@dataclass(frozen=True)
class TableFacts:
    """What a run would find, as far as it does not depend on files."""

    schema: Schema | None
    """None where nobody declares it, and the table was not looked at."""
    properties: Mapping[str, str] = field(default_factory=dict)
    places: tuple[str, ...] = ()
    partitioning: tuple[PartitionField, ...] = ()

    @classmethod
    def of_declaration(cls, declaration: TableDeclaration) -> "TableFacts":
        properties = declaration.properties
        places = places_of(declaration.location, properties) if declaration.location else ()
        if not declaration.columns:
            return cls(None, properties, places)
        parts = new_table(declaration)
        return cls(parts.schema, properties, places, parts.spec.fields)

    @classmethod
    def of_table(cls, metadata: TableMetadata) -> "TableFacts":
        specs: Sequence[PartitionSpec] = metadata.partition_specs
        moved = metadata.spec().fields if len(specs) > 1 else ()  # with one spec there is nothing to move into it
        places = places_of(metadata.location, metadata.properties)
        return cls(metadata.schema(), metadata.properties, places, moved)


def wanted_operations(policy: EffectivePolicy) -> frozenset[Operation]:
    """What the operator starts by itself."""
    triggers = (policy.small_files, policy.delete_ratio_trigger_percent)
    triggered = {Operation.COMPACT} if any(trigger is not None for trigger in triggers) else set()
    retained = set() if policy.row_retention else {Operation.DELETE_EXPIRED_ROWS}
    return frozenset({*policy.schedules, *triggered} - retained)


def impossible_runs(table: ManagedTable, policy: EffectivePolicy, facts: TableFacts) -> tuple[ImpossibleRun, ...]:
    return (
        *_compactions(table, policy, facts),
        *_row_retention(policy, facts),
        *_expiry(policy, facts),
        *_orphans(policy, facts),
    )


def _compactions(table: ManagedTable, policy: EffectivePolicy, facts: TableFacts) -> Iterator[ImpossibleRun]:
    if facts.schema is None:
        return
    for column in table.spec.layout.order.columns:
        why = why_not_ordered(facts.schema, column)
        if why is not None:
            yield ImpossibleRun(Operation.COMPACT, f"layout.order.columns[{column}]", *why)
    for each in obstacles(facts.schema, facts.properties):
        name = f"properties[{each.where}]" if each.is_property else f"schema.columns[{each.where}].type"
        yield ImpossibleRun(Operation.COMPACT, name, f"compaction cannot rewrite the table: {each.why}", each.remedy)
    for partition in facts.partitioning if policy.use_current_spec else ():
        if partition.source_id in facts.schema.field_ids and unreadable_partition(partition, facts.schema):
            reason = f"partition field {partition.name!r} has nanoseconds, which Iceberg Java reads as plain numbers"
            remedy = "Partition by hour, day, month or year, or remove useCurrentSpec"
            yield ImpossibleRun(Operation.COMPACT, "compaction.useCurrentSpec", reason, remedy)


def _row_retention(policy: EffectivePolicy, facts: TableFacts) -> Iterator[ImpossibleRun]:
    if facts.schema is None or policy.row_retention is None:
        return
    why = why_no_age(facts.schema, policy.row_retention.column)
    if why is not None:
        reason, remedy = why
        told = reason.replace("it has", "the table has").replace("its column", "column")
        yield ImpossibleRun(Operation.DELETE_EXPIRED_ROWS, "retention.rows.column", told, remedy)


def _expiry(policy: EffectivePolicy, facts: TableFacts) -> Iterator[ImpossibleRun]:
    yield from _not_deletable(Operation.EXPIRE_SNAPSHOTS, facts)
    for name in unreadable_settings(facts.properties, expiry_options(policy)):
        reason = f"{facts.properties[name][:100]!r} is not a whole number of zero or more, and says what expires"
        remedy = "Correct or remove it"
        yield ImpossibleRun(Operation.EXPIRE_SNAPSHOTS, f"properties[{name}]", reason, remedy)


def _orphans(policy: EffectivePolicy, facts: TableFacts) -> Iterator[ImpossibleRun]:
    yield from _not_deletable(Operation.REMOVE_ORPHAN_FILES, facts)
    least = timedelta(milliseconds=SAFE_AGE_MS)
    if policy.orphan_min_age < least and not policy.orphan_allow_short_min_age:
        age = format_duration(policy.orphan_min_age)
        reason = f"{age} is less than a day, and may take the files that a writer is about to commit"
        remedy = "Use 1d or more, or set allowShortMinAge: true for a table that nobody writes to"
        yield ImpossibleRun(Operation.REMOVE_ORPHAN_FILES, "orphanFiles.minAge", reason, remedy)
    for place in filter(is_whole_store, facts.places):
        name = next((f"properties[{key}]" for key, value in facts.properties.items() if value == place), "location")
        reason = f"{place} is a whole bucket or file system, in which files of others look like orphans"
        yield ImpossibleRun(Operation.REMOVE_ORPHAN_FILES, name, reason, "Give the table a folder of its own")


def _not_deletable(operation: Operation, facts: TableFacts) -> Iterator[ImpossibleRun]:
    if not may_delete_files(facts.properties):
        reason = f"{GC_ENABLED} is not true, so others may need the table's files, and {operation} deletes none of them"
        remedy = f"Remove the property, or the schedule of {operation}"
        yield ImpossibleRun(operation, f"properties[{GC_ENABLED}]", reason, remedy)
