"""How jobs run: what a table, a policy and a catalog can say of the Jobs that maintain tables, field by field.

Everything here is checked so far that the API server takes a Job that was built from it.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from tablewright.api.durations import PositiveDuration
from tablewright.api.objects import ApiModel
from tablewright.api.quantities import Memory, Processors, Size, memory_bytes
from tablewright.api.texts import LabelKey, LabelValue, ObjectName, Written

OWN_PREFIXES = ("tablewright.dev/", "app.kubernetes.io/")
OWN_VARIABLES = "TABLEWRIGHT_"
OWN_VOLUME = "tmp"
LEAST_EXECUTOR_MEMORY = "576Mi"  # with less, Java would have more than its container

VariableName = Annotated[
    str,
    Written(
        r"^[A-Za-z_][A-Za-z0-9_]*$", 128, "a variable name", "letters, digits and _, for example LOG_LEVEL", shortest=1
    ),
]
Image = Annotated[str, Written(r"^[!-~]+$", 512, "an image", "one such as registry/name:tag", shortest=1)]
DataKey = Annotated[
    str,
    Written(
        r"^[-._a-zA-Z0-9]+$", 253, "a key of a Secret", "letters, digits, -, _ and ., for example password", shortest=1
    ),
]
VolumeName = Annotated[
    str,
    Written(
        r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
        63,
        "a volume name",
        "lower-case letters, digits and -, for example scratch",
        shortest=1,
    ),
]
MountPath = Annotated[
    str,
    Written(
        r"^/[^:]*[^:/]$",
        1024,
        "a mount path",
        "an absolute path without : and without / at its end, for example /data",
        shortest=2,
    ),
]
Labels = Annotated[dict[LabelKey, LabelValue], Field(max_length=32)]
Annotations = Annotated[dict[LabelKey, Annotated[str, Field(max_length=4096)]], Field(max_length=32)]


class Quantities(ApiModel):
    cpu: Processors | None = None
    memory: Memory | None = None


class Resources(ApiModel):
    requests: Quantities = Quantities()
    limits: Quantities = Quantities()


class Executors(ApiModel):
    """What the work of one job may be spread over."""

    max: int | None = Field(default=None, ge=0, le=1000)
    cores: int | None = Field(default=None, ge=1, le=128)
    cpu: Processors | None = None
    memory: Memory | None = None
    bytes_each: Size | None = None

    @model_validator(mode="after")
    def _has_room_for_java(self) -> Self:
        if self.memory is not None and memory_bytes(self.memory) < memory_bytes(LEAST_EXECUTOR_MEMORY):
            raise ValueError(f"memory of an executor must be at least {LEAST_EXECUTOR_MEMORY}")
        return self


class Toleration(ApiModel):
    key: LabelKey | None = None
    operator: Literal["Equal", "Exists"] | None = None
    value: LabelValue | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    toleration_seconds: int | None = Field(default=None, ge=0, le=2147483647)

    @model_validator(mode="after")
    def _is_one_that_kubernetes_takes(self) -> Self:
        if self.key is None and self.operator != "Exists":
            raise ValueError("without a key the operator must be Exists")
        if self.operator == "Exists" and self.value is not None:
            raise ValueError("operator Exists takes no value")
        if self.toleration_seconds is not None and self.effect != "NoExecute":
            raise ValueError("tolerationSeconds needs the effect NoExecute")
        return self


class KeyReference(ApiModel):
    name: ObjectName
    key: DataKey


class VariableSource(ApiModel):
    secret_key_ref: KeyReference | None = None
    config_map_key_ref: KeyReference | None = None

    @model_validator(mode="after")
    def _is_one_source(self) -> Self:
        if (self.secret_key_ref is None) == (self.config_map_key_ref is None):
            raise ValueError("give exactly one of secretKeyRef and configMapKeyRef")
        return self


class Variable(ApiModel):
    name: VariableName
    value: str | None = Field(default=None, max_length=4096)
    value_from: VariableSource | None = None

    @model_validator(mode="after")
    def _is_not_the_operators(self) -> Self:
        if self.name.startswith(OWN_VARIABLES):
            raise ValueError(f"variables that begin with {OWN_VARIABLES} are the operator's own")
        if (self.value is None) == (self.value_from is None):
            raise ValueError("give exactly one of value and valueFrom")
        return self


class SecretVolume(ApiModel):
    secret_name: ObjectName


class ConfigMapVolume(ApiModel):
    name: ObjectName


class ClaimVolume(ApiModel):
    claim_name: ObjectName


class EmptyVolume(ApiModel):
    size_limit: Memory | None = None


class Volume(ApiModel):
    """A volume and where it is mounted, in one."""

    name: VolumeName
    mount_path: MountPath
    read_only: bool | None = None
    secret: SecretVolume | None = None
    config_map: ConfigMapVolume | None = None
    persistent_volume_claim: ClaimVolume | None = None
    empty_dir: EmptyVolume | None = None

    @model_validator(mode="after")
    def _has_one_source(self) -> Self:
        sources = (self.secret, self.config_map, self.persistent_volume_claim, self.empty_dir)
        if sum(source is not None for source in sources) != 1:
            raise ValueError("name exactly one source: secret, configMap, persistentVolumeClaim or emptyDir")
        if self.name == OWN_VOLUME:
            raise ValueError(f"{OWN_VOLUME} is the name of the operator's own volume")
        return self


class JobFields(ApiModel):
    """A level's say in how jobs run."""

    image: Image | None = None
    service_account_name: ObjectName | None = None
    resources: Resources = Resources()
    executors: Executors = Executors()
    deadline: PositiveDuration | None = None
    priority_class_name: ObjectName | None = None
    node_selector: Labels | None = None
    affinity: dict[str, Any] | None = Field(default=None, max_length=3)
    tolerations: tuple[Toleration, ...] | None = Field(default=None, max_length=32)
    labels: Labels | None = None
    annotations: Annotations | None = None
    env: tuple[Variable, ...] | None = Field(default=None, max_length=32)
    volumes: tuple[Volume, ...] | None = Field(default=None, max_length=16)
    queue_name: ObjectName | None = None

    @model_validator(mode="after")
    def _leaves_the_operators_keys_alone(self) -> Self:
        for field, keys in (("labels", self.labels or {}), ("annotations", self.annotations or {})):
            taken = [key for key in keys if key.startswith(OWN_PREFIXES)]
            if taken:
                raise ValueError(f"{field}: {taken[0]} begins as the operator's own keys do: choose another")
        return self
