"""What all kinds share: metadata, strict parsing from a Kubernetes object, and the error that names a bad field.

The models are stricter than plain dictionaries and no laxer than the CRDs: an unknown field is an error, because a
misspelt retention must not silently mean none.
"""

import json
import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, ClassVar, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails

from tableformat.errors import PermanentError
from tableformat.suggestions import unknown

GROUP = "tablewright.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"

# A Kubernetes object as it comes and goes: JSON. Nothing but this package and the rim looks into one.
KubernetesObject = dict[str, Any]


MISSING = "is missing"
_VERBS = ("is ", "has ", "must ", "should ", "repeats ")


class InvalidObjectError(PermanentError):
    """An object that cannot be understood; the message names each field and what is wrong with it."""

    def __init__(self, name: str, fields: Sequence[tuple[tuple[int | str, ...], str]]) -> None:
        super().__init__(f"{name}: {'; '.join(sentence(path, message) for path, message in fields)}")
        self.fields = tuple(fields)


class ApiModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)

    def to_json(self) -> dict[str, Any]:
        """As the API server writes it: camel case, absent where there is nothing to say."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


class StatusModel(ApiModel):
    """What the operator itself writes. A field that it does not know was written by a newer one, which was rolled back:
    that must not make every object of the cluster one that cannot be read. The next status goes without it."""

    model_config = ConfigDict(extra="ignore")


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
        # As JSON, whose strict reading takes "5" for no number. YAML's dates are texts again, as Kubernetes has them.
        return kind.model_validate_json(json.dumps(body, default=str), strict=True)
    except ValidationError as error:
        name = (obj.get("metadata") or {}).get("name", "(no name)")
        fields = [(problem["loc"], _message(kind, problem)) for problem in error.errors(include_url=False)]
        raise InvalidObjectError(f"{kind.kind_name} {name}", fields) from None


def owner_reference(owner: KubernetesResource) -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": owner.kind_name,
        "name": owner.metadata.name,
        "uid": owner.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _message(kind: type[BaseModel], problem: ErrorDetails) -> str:
    """What is wrong with the field, and what to do."""
    location = problem["loc"]
    match problem["type"]:
        case "extra_forbidden":
            return unknown("field", str(location[-1]), _field_names(kind, location[:-1]))
        case "missing":
            return MISSING
        case "enum" | "literal_error":
            return unknown("value", str(problem["input"]), _choices(problem))
        case "value_error":
            return problem["msg"].removeprefix("Value error, ")
        case _:
            return problem["msg"].replace("Input should", "should").replace("String should", "should")


def _field_names(kind: type[BaseModel], location: tuple[int | str, ...]) -> list[str]:
    """The fields that there are at this place."""
    for part in location:
        fields = {field.alias or name: field for name, field in kind.model_fields.items()}
        if part in fields:
            kind = next(iter(_models(fields[str(part)].annotation)), kind)
    return [field.alias or name for name, field in kind.model_fields.items()]


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models inside an annotation: of `tuple[Column, ...] | None`, `Column`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _models(inner)


def _choices(problem: ErrorDetails) -> list[str]:
    """Pydantic names them in one text: `'Full', 'MaintainOnly' or 'ObserveOnly'`."""
    return re.findall(r"\w+", re.sub(r"\bor\b", "", str(problem.get("ctx", {}).get("expected", ""))))


def sentence(path: tuple[int | str, ...], message: str) -> str:
    """What is wrong, behind the field that it is wrong with: `apiVersion is missing`, `spec.x: unknown field "x"`."""
    if not path:
        return message
    return f"{path_text(path)}{' ' if message.startswith(_VERBS) else ': '}{message}"


def path_text(path: tuple[int | str, ...]) -> str:
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text
