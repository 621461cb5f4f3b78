"""One object, judged: its kind, its metadata, its shape, then its rules, which presume the shape."""

from typing import Any

from tablewright.api.admission.defaults import with_defaults
from tablewright.api.admission.expressions import rule_problems
from tablewright.api.admission.metadata import metadata_problems
from tablewright.api.admission.problems import Problem, did_you_mean
from tablewright.api.admission.schemas import known_kinds, schema_of
from tablewright.api.admission.structure import structure_problems
from tablewright.api.objects import API_VERSION, KubernetesObject


def admit(obj: KubernetesObject) -> list[Problem]:
    """Everything that the API server would refuse the object for; nothing, if it would take it."""
    version, kind = obj.get("apiVersion"), obj.get("kind")
    if version != API_VERSION:
        return [Problem(("apiVersion",), f"is {version!r}; it must be {API_VERSION!r}")]
    if kind not in known_kinds():
        return [Problem(("kind",), f"is {kind!r}: {did_you_mean(str(kind), known_kinds())}")]
    schema = schema_of(kind)
    body = _body(obj)
    problems = [*metadata_problems(obj.get("metadata")), *structure_problems(schema, body)]
    return problems or list(rule_problems(schema, _with_metadata(body, obj)))


def as_stored(obj: KubernetesObject) -> KubernetesObject:
    """The object as the API server would keep it, if it takes it: without idle nulls, with its defaults."""
    return {**obj, **_body(obj)}


def _body(obj: KubernetesObject) -> dict[str, Any]:
    body: dict[str, Any] = with_defaults(
        schema_of(obj["kind"]), {name: value for name, value in obj.items() if name not in _OWN_SHAPE}
    )
    return body


_OWN_SHAPE = frozenset({"apiVersion", "kind", "metadata", "status"})  # the status is another's to write


def _with_metadata(body: dict[str, Any], obj: KubernetesObject) -> dict[str, Any]:
    """Rules at the root may speak of the object's name."""
    return {**body, "metadata": obj["metadata"]}
