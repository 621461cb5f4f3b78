"""The policy that holds for a table: table over policies over built-in defaults, field by field, with each origin."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from tableformat.maintenance.orphans import OrphanAction
from tablewright.api.durations import format_duration
from tablewright.api.policy import MaintenanceFields, TablePolicy
from tablewright.api.run import Operation
from tablewright.api.schedules import Window
from tablewright.api.table import EffectiveField, ManagedTable

BUILT_IN: dict[str, Any] = {
    "compaction.min_input_files": 5,
    "compaction.delete_ratio_percent": 30,
    "compaction.cool_down": timedelta(0),
    "retention.snapshots.max_age": timedelta(days=5),
    "retention.snapshots.min_count": 1,
    "orphan_files.min_age": timedelta(days=3),
    "orphan_files.action": OrphanAction.MARK_THEN_DELETE,
    "orphan_files.grace": timedelta(days=7),
    "time_zone": "UTC",
    "windows": (),
    "suspend": False,
}

_SCHEDULE_FIELDS = {
    Operation.COMPACT: "compaction.schedule",
    Operation.EXPIRE_SNAPSHOTS: "retention.snapshots.schedule",
    Operation.REMOVE_ORPHAN_FILES: "orphan_files.schedule",
}


@dataclass(frozen=True)
class EffectivePolicy:
    """What holds; `fields` says where each came from: `table`, `policy/NAME` or `default`."""

    target_file_bytes: int | None  # None: as the table's own properties say
    schedules: Mapping[Operation, str]  # of the operations that have one
    time_zone: str
    small_files: int | None
    min_input_files: int
    delete_ratio_percent: int
    max_bytes_per_run: int | None
    cool_down: timedelta
    snapshot_max_age: timedelta
    snapshot_min_count: int
    orphan_min_age: timedelta
    orphan_action: OrphanAction
    orphan_grace: timedelta
    windows: tuple[Window, ...]
    suspend: bool
    fields: tuple[EffectiveField, ...]


def effective_policy(table: ManagedTable, policies: Iterable[TablePolicy]) -> EffectivePolicy:
    values: dict[str, Any] = {}
    fields: list[EffectiveField] = []
    levels = _levels(table, policies)
    for origin, level in levels:
        for field, value in level.items():
            if field not in values:
                values[field] = value
                fields.append(EffectiveField(field=_api_name(field), value=_text(value), origin=origin))
    return EffectivePolicy(
        target_file_bytes=values.get("layout.target_file_size"),
        small_files=values.get("compaction.triggers.small_files"),
        schedules={operation: values[field] for operation, field in _SCHEDULE_FIELDS.items() if field in values},
        time_zone=values["time_zone"],
        min_input_files=values["compaction.min_input_files"],
        delete_ratio_percent=values["compaction.delete_ratio_percent"],
        max_bytes_per_run=values.get("compaction.max_bytes_per_run"),
        cool_down=values["compaction.cool_down"],
        snapshot_max_age=values["retention.snapshots.max_age"],
        snapshot_min_count=values["retention.snapshots.min_count"],
        orphan_min_age=values["orphan_files.min_age"],
        orphan_action=values["orphan_files.action"],
        orphan_grace=values["orphan_files.grace"],
        windows=values["windows"],
        suspend=any(level.get("suspend") for _, level in levels),  # whoever says stop is heard
        fields=tuple(sorted(fields, key=lambda field: field.field)),
    )


def _levels(table: ManagedTable, policies: Iterable[TablePolicy]) -> list[tuple[str, dict[str, Any]]]:
    """The strongest first. Of policies the higher priority wins, and among equals the first by name."""
    matching = [policy for policy in policies if _matches(policy, table)]
    matching.sort(key=lambda policy: (-policy.spec.priority, policy.metadata.name))
    named: list[tuple[str, MaintenanceFields]] = [("table", table.spec)]
    named += [(f"policy/{policy.metadata.name}", policy.spec) for policy in matching]
    return [*((origin, level.said()) for origin, level in named), ("default", BUILT_IN)]


def _matches(policy: TablePolicy, table: ManagedTable) -> bool:
    same = policy.metadata.namespace == table.metadata.namespace
    return same and policy.spec.selector.selects(table.metadata.labels)


def _text(value: Any) -> str:
    if isinstance(value, timedelta):
        return format_duration(value)
    if isinstance(value, tuple):
        return json.dumps([item.to_json() if isinstance(item, Window) else item for item in value])
    return str(value).lower() if isinstance(value, bool) else str(value)


def _api_name(field: str) -> str:
    first, *others = field.split("_")
    return first + "".join(word[0].upper() + word[1:] for word in others)
