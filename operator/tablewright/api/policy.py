"""What maintenance does and when: the fields that a table, a policy, a catalog and the built-in defaults all can give.

Every field is optional here, because each level says only what it wants to; `decide.policy` puts the levels together.
"""

from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AwareDatetime, Field, model_validator

from tableformat.maintenance.orphans import OrphanAction, PrefixMismatch
from tableformat.maintenance.orphans.options import SAFE_AGE_MS
from tablewright.api.conditions import Condition
from tablewright.api.durations import Duration, PositiveDuration
from tablewright.api.jobs import JobFields
from tablewright.api.objects import ApiModel, KubernetesResource, StatusModel
from tablewright.api.quantities import Size
from tablewright.api.schedules import Cron, TimeZone, Window
from tablewright.api.texts import ColumnPath, LabelKey, LabelValue, Written

MOST_HOLDS = 32
SHORTEST_MIN_AGE = timedelta(milliseconds=SAFE_AGE_MS)
SHORT_MIN_AGE = (
    "below 1d may take the files that a writer is about to commit; use 1d or more, or set allowShortMinAge: true "
    "beside it for a table that nobody writes to"
)
_MOST = 1_000_000


class Layout(ApiModel):
    target_file_size: Size | None = None


class OrderStrategy(StrEnum):
    """In which order compaction puts the rows."""

    NONE = "None"
    SORT = "Sort"
    Z_ORDER = "ZOrder"


class Order(ApiModel):
    strategy: OrderStrategy
    columns: tuple[ColumnPath, ...] = Field(default=(), max_length=8)

    @model_validator(mode="after")
    def _columns_fit_the_strategy(self) -> Self:
        count = len(self.columns)
        if self.strategy is OrderStrategy.NONE and count:
            raise ValueError("columns have no meaning with strategy None: use Sort or ZOrder")
        if self.strategy is OrderStrategy.SORT and count < 1:
            raise ValueError("strategy Sort needs one to eight columns")
        if self.strategy is OrderStrategy.Z_ORDER and count < 2:
            raise ValueError("strategy ZOrder needs two to eight columns")
        return self


class WriteMode(StrEnum):
    """How engines write deletes and updates."""

    COPY_ON_WRITE = "CopyOnWrite"
    MERGE_ON_READ = "MergeOnRead"


class TableLayout(Layout):
    """With what only a table can say, because it names columns or alters the table."""

    order: Order = Order(strategy=OrderStrategy.NONE)
    write_mode: WriteMode | None = None


class CompactionTriggers(ApiModel):
    small_files: int | None = Field(default=None, ge=2, le=_MOST)
    delete_ratio_percent: int | None = Field(default=None, ge=1, le=100)


class Compaction(ApiModel):
    schedule: Cron | None = None
    triggers: CompactionTriggers = CompactionTriggers()
    delete_ratio_percent: int | None = Field(default=None, ge=1, le=100)
    min_input_files: int | None = Field(default=None, ge=2, le=_MOST)
    max_bytes_per_run: Size | None = None
    cool_down: Duration | None = None
    use_current_spec: bool | None = None


class SnapshotRetention(ApiModel):
    schedule: Cron | None = None
    max_age: Duration | None = None
    min_count: int | None = Field(default=None, ge=1, le=_MOST)


class RowRetention(ApiModel):
    column: ColumnPath | None = None
    max_age: PositiveDuration | None = None
    schedule: Cron | None = None


class Retention(ApiModel):
    snapshots: SnapshotRetention = SnapshotRetention()
    rows: RowRetention = RowRetention()


HoldName = Annotated[
    str,
    Written(
        r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$",
        200,
        "a hold name",
        "lower-case letters, digits, - and ., for example audit-2026q3",
        shortest=1,
    ),
]


class Hold(ApiModel):
    """The table as of a time, kept until another."""

    name: HoldName
    as_of: AwareDatetime
    until: AwareDatetime

    @model_validator(mode="after")
    def _ends_after_its_time(self) -> Self:
        if self.until <= self.as_of:
            raise ValueError("until must be after asOf")
        return self


class TableRetention(Retention):
    """With what only a table can say: a hold that a level above could take away would be none."""

    holds: tuple[Hold, ...] = Field(default=(), max_length=MOST_HOLDS)

    @model_validator(mode="after")
    def _names_are_unique(self) -> Self:
        names = [hold.name for hold in self.holds]
        if len(set(names)) < len(names):
            raise ValueError("holds: two of them have one name: give each its own")
        return self


class Manifests(ApiModel):
    schedule: Cron | None = None


class OrphanFiles(ApiModel):
    schedule: Cron | None = None
    min_age: Duration | None = None
    allow_short_min_age: bool | None = None
    prefix_mismatch: PrefixMismatch | None = None
    action: OrphanAction | None = None
    grace: Duration | None = None

    @model_validator(mode="after")
    def _short_age_is_meant(self) -> Self:
        if self.min_age is not None and self.min_age < SHORTEST_MIN_AGE and not self.allow_short_min_age:
            raise ValueError(f"minAge {SHORT_MIN_AGE}")
        return self


class RunHistory(ApiModel):
    succeeded: int | None = Field(default=None, ge=0, le=50)
    failed: int | None = Field(default=None, ge=0, le=50)


class MaintenanceDefaults(ApiModel):
    """What every level can say of maintenance, the catalog's included."""

    layout: Layout = Layout()
    compaction: Compaction = Compaction()
    retention: Retention = Retention()
    manifests: Manifests = Manifests()
    orphan_files: OrphanFiles = OrphanFiles()
    time_zone: TimeZone | None = None
    windows: tuple[Window, ...] | None = Field(default=None, max_length=32)
    run_history: RunHistory = RunHistory()


class MaintenanceFields(MaintenanceDefaults):
    """A table's or a policy's say."""

    jobs: JobFields = JobFields()
    suspend: bool | None = None

    def said(self) -> dict[str, Any]:
        return leaves(self, MaintenanceFields)


class LabelRequirement(ApiModel):
    key: LabelKey
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: tuple[LabelValue, ...] = Field(default=(), max_length=64)

    @model_validator(mode="after")
    def _values_fit_the_operator(self) -> Self:
        if (self.operator in ("In", "NotIn")) != bool(self.values):
            raise ValueError("In and NotIn need values; Exists and DoesNotExist take none")
        return self


class LabelSelector(ApiModel):
    match_labels: dict[LabelKey, LabelValue] = Field(default_factory=dict, max_length=64)
    match_expressions: tuple[LabelRequirement, ...] = Field(default=(), max_length=64)

    def selects(self, labels: dict[str, str]) -> bool:
        """As everywhere in Kubernetes: all of it must hold, and an empty selector selects everything."""
        return all(labels.get(key) == value for key, value in self.match_labels.items()) and all(
            _holds(requirement, labels) for requirement in self.match_expressions
        )


class TablePolicySpec(MaintenanceFields):
    selector: LabelSelector = LabelSelector()
    priority: int = Field(default=0, ge=-_MOST, le=_MOST)


class TablePolicyStatus(StatusModel):
    observed_generation: int = -1
    conditions: tuple[Condition, ...] = Field(default=(), max_length=16)


class TablePolicy(KubernetesResource):
    kind_name: ClassVar[str] = "TablePolicy"
    plural: ClassVar[str] = "tablepolicies"

    spec: TablePolicySpec
    status: TablePolicyStatus = TablePolicyStatus()


def leaves(level: ApiModel, declared: type[ApiModel], prefix: str = "") -> dict[str, Any]:
    """What a level gives, as dotted names and values; absent is what it leaves to others.

    Only what `declared` knows: what a table alone can say is no default of anything.
    """
    found: dict[str, Any] = {}
    for name, field in declared.model_fields.items():
        value, inner = getattr(level, name), field.annotation
        if isinstance(inner, type) and issubclass(inner, ApiModel):
            found |= leaves(value, inner, f"{prefix}{name}.")
        elif value is not None:
            found[f"{prefix}{name}"] = value
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
