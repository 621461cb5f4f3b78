"""What all kinds share: metadata, strict parsing from a Kubernetes object, and the error that names a bad field.

The models are stricter than plain dictionaries and no laxer than the CRDs: an unknown field is an error, because a
misspelt retention must not silently mean none.
"""

from datetime import datetime
from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from tableformat.errors import PermanentError

GROUP = "tablewright.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"

# A Kubernetes object as it comes and goes: JSON. Nothing but this package and the rim looks into one.
KubernetesObject = dict[str, Any]


class InvalidObjectError(PermanentError):
    """An object that cannot be understood; the message names each field and what is wrong with it."""


class ApiModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)

    def to_json(self) -> dict[str, Any]:
        """As the API server writes it: camel case, absent where there is nothing to say."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


class Metadata(BaseModel):
    """The part of `metadata` that is used; the API server's other fields are none of our business."""

    model_config = ConfigDict(frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True)

    name: str
    namespace: str = "default"
    uid: str = ""
    generation: int = 1
    resource_version: str = ""
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: tuple[str, ...] = ()


class KubernetesResource(ApiModel):
    """One of our kinds, whole."""

    kind_name: ClassVar[str]
    plural: ClassVar[str]

    metadata: Metadata

    @property
    def key(self) -> tuple[str, str]:
        return self.metadata.namespace, self.metadata.name


Resource = TypeVar("Resource", bound=KubernetesResource)


def parse(kind: type[Resource], obj: KubernetesObject) -> Resource:
    """The object as a value, or an `InvalidObjectError` that names every bad field."""
    body = {name: value for name, value in obj.items() if name not in ("apiVersion", "kind")}
    try:
        return kind.model_validate(body)
    except ValidationError as error:
        name = (obj.get("metadata") or {}).get("name", "(no name)")
        problems = "; ".join(f"{_path(problem['loc'])}: {problem['msg']}" for problem in error.errors())
        raise InvalidObjectError(f"{kind.kind_name} {name}: {problems}") from None


def owner_reference(owner: KubernetesResource) -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": owner.kind_name,
        "name": owner.metadata.name,
        "uid": owner.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _path(location: tuple[int | str, ...]) -> str:
    path = ""
    for part in location:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else part
    return path
