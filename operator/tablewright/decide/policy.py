"""The policy that holds for a table: table over policies over catalog over built-in defaults, field by field.

Each value has an origin, which the table's status shows: `table`, `policy/NAME`, `catalog/NAME` or `default`. How long
snapshots are kept is no built-in default: where no level says it, the table's own `history.expire.*` do, and the origin
is `property/NAME`.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pyiceberg.table import TableProperties

from tableformat.maintenance.orphans import OrphanAction, PrefixMismatch
from tableformat.properties import read_number
from tablewright.api.catalog import TableCatalog
from tablewright.api.durations import format_duration
from tablewright.api.jobs import JobFields
from tablewright.api.objects import ApiModel
from tablewright.api.policy import Hold, TablePolicy
from tablewright.api.quantities import format_size
from tablewright.api.run import Operation
from tablewright.api.schedules import Window
from tablewright.api.table import EffectiveField, ManagedTable

BUILT_IN: dict[str, Any] = {
    "compaction.min_input_files": 5,
    "compaction.delete_ratio_percent": 30,
    "compaction.cool_down": timedelta(0),
    "compaction.use_current_spec": False,
    "orphan_files.min_age": timedelta(days=3),
    "orphan_files.allow_short_min_age": False,
    "orphan_files.prefix_mismatch": PrefixMismatch.REFUSE,
    "orphan_files.action": OrphanAction.MARK_THEN_DELETE,
    "orphan_files.grace": timedelta(days=7),
    "time_zone": "UTC",
    "windows": (),
    "run_history.succeeded": 3,
    "run_history.failed": 3,
    "jobs.resources.requests.cpu": "500m",
    "jobs.resources.requests.memory": "2Gi",
    "jobs.resources.limits.memory": "4Gi",
    "jobs.executors.max": 4,
    "jobs.executors.cores": 2,
    "jobs.executors.memory": "4Gi",
    "jobs.executors.bytes_each": 1 << 30,
    "suspend": False,
}
MOST_RUNS_WITHOUT_CATALOG = 5  # where the catalog is not there to say; nothing can run then anyway

_SCHEDULE_FIELDS = {
    Operation.COMPACT: "compaction.schedule",
    Operation.EXPIRE_SNAPSHOTS: "retention.snapshots.schedule",
    Operation.REMOVE_ORPHAN_FILES: "orphan_files.schedule",
    Operation.REWRITE_MANIFESTS: "manifests.schedule",
    Operation.DELETE_EXPIRED_ROWS: "retention.rows.schedule",
}
# What the table's own properties say where no level does, and what Iceberg has where they say nothing either.
_BY_PROPERTY = {
    "retention.snapshots.maxAge": (TableProperties.MAX_SNAPSHOT_AGE_MS, "5d"),
    "retention.snapshots.minCount": (TableProperties.MIN_SNAPSHOTS_TO_KEEP, "1"),
}
_LONGEST_MS = 10**14  # some three thousand years; a number that stands for ever is shown as it is
_JOBS = "jobs."
_SIZES = ("layout.target_file_size", "compaction.max_bytes_per_run", "jobs.executors.bytes_each")


@dataclass(frozen=True)
class EffectiveRowRetention:
    """Rows whose `column` is older than this go."""

    column: str
    max_age: timedelta


@dataclass(frozen=True)
class EffectiveRunHistory:
    """How many finished runs of an operation are kept as objects."""

    succeeded: int
    failed: int


@dataclass(frozen=True)
class EffectivePolicy:
    """What holds; `fields` says where each came from."""

    target_file_bytes: int | None  # None: as the table's own properties say
    schedules: Mapping[Operation, str]  # of the operations that have one
    time_zone: str
    small_files: int | None
    delete_ratio_trigger_percent: int | None
    min_input_files: int
    delete_ratio_percent: int
    max_bytes_per_run: int | None
    cool_down: timedelta
    use_current_spec: bool
    snapshot_max_age: timedelta | None  # None: as the table's own properties say, as the next
    snapshot_min_count: int | None
    row_retention: EffectiveRowRetention | None
    holds: tuple[Hold, ...]
    orphan_min_age: timedelta
    orphan_allow_short_min_age: bool
    orphan_prefix_mismatch: PrefixMismatch
    orphan_action: OrphanAction
    orphan_grace: timedelta
    windows: tuple[Window, ...]
    run_history: EffectiveRunHistory
    max_concurrent_runs: int  # of all tables of the catalog together
    jobs: JobFields
    suspended_by: str | None  # the level that says stop
    fields: tuple[EffectiveField, ...]

    @property
    def suspend(self) -> bool:
        return self.suspended_by is not None


def effective_policy(
    table: ManagedTable, policies: Iterable[TablePolicy], catalog: TableCatalog | None = None
) -> EffectivePolicy:
    """`catalog` is the table's own, where it is there."""
    found: dict[str, tuple[Any, str]] = {}
    levels = _levels(table, policies, catalog)
    for origin, level in levels:
        for field, value in level.items():
            found.setdefault(field, (value, origin))
    stopping = next((origin for origin, level in levels if level.get("suspend")), None)
    if stopping is not None:
        found["suspend"] = (True, stopping)  # whoever says stop is heard
    values = {field: value for field, (value, _) in found.items()}
    return EffectivePolicy(
        target_file_bytes=values.get("layout.target_file_size"),
        small_files=values.get("compaction.triggers.small_files"),
        delete_ratio_trigger_percent=values.get("compaction.triggers.delete_ratio_percent"),
        schedules={operation: values[field] for operation, field in _SCHEDULE_FIELDS.items() if field in values},
        time_zone=values["time_zone"],
        min_input_files=values["compaction.min_input_files"],
        delete_ratio_percent=values["compaction.delete_ratio_percent"],
        max_bytes_per_run=values.get("compaction.max_bytes_per_run"),
        cool_down=values["compaction.cool_down"],
        use_current_spec=values["compaction.use_current_spec"],
        snapshot_max_age=values.get("retention.snapshots.max_age"),
        snapshot_min_count=values.get("retention.snapshots.min_count"),
        row_retention=_row_retention(values),
        holds=table.spec.retention.holds,
        orphan_min_age=values["orphan_files.min_age"],
        orphan_allow_short_min_age=values["orphan_files.allow_short_min_age"],
        orphan_prefix_mismatch=values["orphan_files.prefix_mismatch"],
        orphan_action=values["orphan_files.action"],
        orphan_grace=values["orphan_files.grace"],
        windows=values["windows"],
        run_history=EffectiveRunHistory(values["run_history.succeeded"], values["run_history.failed"]),
        max_concurrent_runs=MOST_RUNS_WITHOUT_CATALOG if catalog is None else catalog.spec.max_concurrent_runs,
        jobs=_jobs(values),
        suspended_by=stopping,
        fields=tuple(
            EffectiveField(field=_api_name(field), value=_text(field, value), origin=origin)
            for field, (value, origin) in sorted(found.items())
        ),
    )


def fields_shown(
    policy: EffectivePolicy, properties: Mapping[str, str] | None, before: Iterable[EffectiveField]
) -> tuple[EffectiveField, ...]:
    """The policy's fields, and those of the table's own properties; where these were not read, as they were known."""
    said = {field.field for field in policy.fields}
    if properties is None:
        own = [field for field in before if field.field in _BY_PROPERTY and not _is_of_a_level(field)]
    else:
        own = [_of_property(field, properties) for field in _BY_PROPERTY]
    return *policy.fields, *(field for field in own if field.field not in said)


def _of_property(field: str, properties: Mapping[str, str]) -> EffectiveField:
    name, default = _BY_PROPERTY[field]
    value, number = properties.get(name), read_number(properties, name)
    if not value:
        return EffectiveField(field=field, value=default, origin="default")
    if name == TableProperties.MAX_SNAPSHOT_AGE_MS and number is not None:
        is_plain = number % 1000 == 0 and 0 <= number <= _LONGEST_MS
        value = format_duration(timedelta(milliseconds=number)) if is_plain else f"{number}ms"
    return EffectiveField(field=field, value=value, origin=f"property/{name}")


def _is_of_a_level(field: EffectiveField) -> bool:
    return field.origin != "default" and not field.origin.startswith("property/")


def _levels(
    table: ManagedTable, policies: Iterable[TablePolicy], catalog: TableCatalog | None
) -> list[tuple[str, dict[str, Any]]]:
    """The strongest first. Of policies the higher priority wins, and among equals the first by name."""
    matching = [policy for policy in policies if selects(policy, table)]
    matching.sort(key=lambda policy: (-policy.spec.priority, policy.metadata.name))
    levels = [("table", table.spec.said())]
    levels += [(f"policy/{policy.metadata.name}", policy.spec.said()) for policy in matching]
    if catalog is not None:
        levels.append((f"catalog/{catalog.metadata.name}", catalog.spec.said()))
    return [*levels, ("default", BUILT_IN)]


def selects(policy: TablePolicy, table: ManagedTable) -> bool:
    """Whether the policy holds for the table: by its labels, in its own namespace."""
    same = policy.metadata.namespace == table.metadata.namespace
    return same and policy.spec.selector.selects(table.metadata.labels)


def _row_retention(values: Mapping[str, Any]) -> EffectiveRowRetention | None:
    """Half of it says nothing: rows go only where both are known."""
    column, max_age = values.get("retention.rows.column"), values.get("retention.rows.max_age")
    return None if column is None or max_age is None else EffectiveRowRetention(column, max_age)


def _jobs(values: Mapping[str, Any]) -> JobFields:
    """The levels' fields, put together again. Each was checked where it was read."""
    nested: dict[str, Any] = {}
    for field, value in values.items():
        if field.startswith(_JOBS):
            *parents, name = field.removeprefix(_JOBS).split(".")
            place = nested
            for parent in parents:
                place = place.setdefault(parent, {})
            place[name] = format_size(value) if field in _SIZES else value
    return JobFields.model_validate(nested)


def _text(field: str, value: Any) -> str:
    """As people would write it in a spec."""
    if field in _SIZES:
        return format_size(value)
    if isinstance(value, timedelta):
        return format_duration(value)
    if isinstance(value, tuple):
        return json.dumps([item.to_json() if isinstance(item, ApiModel) else item for item in value])
    if isinstance(value, dict):
        return json.dumps(value, sort_keys=True)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _api_name(field: str) -> str:
    first, *others = field.split("_")
    return first + "".join(word[0].upper() + word[1:] for word in others)
