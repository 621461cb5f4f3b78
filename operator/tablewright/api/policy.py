"""What maintenance does and when: the fields that a table, a policy and the built-in defaults all can give.

Every field is optional here, because each level says only what it wants to; `decide.policy` puts the levels together.
"""

from enum import StrEnum
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from tableformat.maintenance.orphans import OrphanAction
from tablewright.api.durations import Duration
from tablewright.api.objects import ApiModel, KubernetesResource
from tablewright.api.quantities import Size
from tablewright.api.schedules import Cron, TimeZone, Window

DEFAULT_TARGET_FILE_BYTES = 512 << 20


class Layout(ApiModel):
    target_file_size: Size | None = None


class OrderStrategy(StrEnum):
    """In which order compaction puts the rows."""

    NONE = "None"
    SORT = "Sort"
    Z_ORDER = "ZOrder"


class Order(ApiModel):
    strategy: OrderStrategy = OrderStrategy.NONE
    columns: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _columns_fit_the_strategy(self) -> "Order":
        count = len(self.columns)
        if self.strategy is OrderStrategy.NONE and count:
            raise ValueError("columns have no meaning with strategy None: use Sort or ZOrder")
        if self.strategy is OrderStrategy.SORT and not 1 <= count <= 8:
            raise ValueError("strategy Sort needs one to eight columns")
        if self.strategy is OrderStrategy.Z_ORDER and not 2 <= count <= 8:
            raise ValueError("strategy ZOrder needs two to eight columns")
        return self


class TableLayout(Layout):
    """With what only a table can say, because it names columns."""

    order: Order = Order()


class CompactionTriggers(ApiModel):
    small_files: int | None = Field(default=None, ge=2)


class Compaction(ApiModel):
    schedule: Cron | None = None
    triggers: CompactionTriggers = CompactionTriggers()
    delete_ratio_percent: int | None = Field(default=None, ge=1, le=100)
    min_input_files: int | None = Field(default=None, ge=2)
    max_bytes_per_run: Size | None = None
    cool_down: Duration | None = None


class SnapshotRetention(ApiModel):
    schedule: Cron | None = None
    max_age: Duration | None = None
    min_count: int | None = Field(default=None, ge=1)


class Retention(ApiModel):
    snapshots: SnapshotRetention = SnapshotRetention()


class OrphanFiles(ApiModel):
    schedule: Cron | None = None
    min_age: Duration | None = None
    action: OrphanAction | None = None
    grace: Duration | None = None


class MaintenanceFields(ApiModel):
    """A level's say in maintenance."""

    layout: Layout = Layout()
    compaction: Compaction = Compaction()
    retention: Retention = Retention()
    orphan_files: OrphanFiles = OrphanFiles()
    time_zone: TimeZone | None = None
    windows: tuple[Window, ...] | None = None
    suspend: bool | None = None

    def said(self) -> dict[str, Any]:
        """What this level gives, as dotted names and values; absent is what it leaves to others."""
        fields = MaintenanceFields.model_fields
        return dict(_leaves("", {name: getattr(self, name) for name in fields}))


class LabelRequirement(ApiModel):
    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: tuple[str, ...] = ()


class LabelSelector(ApiModel):
    match_labels: dict[str, str] = Field(default_factory=dict)
    match_expressions: tuple[LabelRequirement, ...] = ()

    def selects(self, labels: dict[str, str]) -> bool:
        """As everywhere in Kubernetes: all of it must hold, and an empty selector selects everything."""
        return all(labels.get(key) == value for key, value in self.match_labels.items()) and all(
            _holds(requirement, labels) for requirement in self.match_expressions
        )


class TablePolicySpec(MaintenanceFields):
    selector: LabelSelector = LabelSelector()
    priority: int = 0


class TablePolicy(KubernetesResource):
    kind_name: ClassVar[str] = "TablePolicy"
    plural: ClassVar[str] = "tablepolicies"

    spec: TablePolicySpec


def _leaves(prefix: str, fields: dict[str, Any]) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for name, value in fields.items():
        path = f"{prefix}.{name}" if prefix else name
        if isinstance(value, ApiModel):
            found += _leaves(path, {inner: getattr(value, inner) for inner in type(value).model_fields})
        elif value is not None:
            found.append((path, value))
    return found


def _holds(requirement: LabelRequirement, labels: dict[str, str]) -> bool:
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
