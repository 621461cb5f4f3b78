"""One object, judged: its kind, its metadata, its shape, then its rules, which presume the shape."""

from collections.abc import Iterator
from typing import Any

from tableformat.suggestions import quoted, unknown
from tablewright.api.admission.defaults import with_defaults
from tablewright.api.admission.expressions import rule_problems
from tablewright.api.admission.metadata import metadata_problems
from tablewright.api.admission.problems import Problem
from tablewright.api.admission.schemas import known_kinds, schema_of
from tablewright.api.admission.structure import structure_problems
from tablewright.api.objects import API_VERSION, MISSING, KubernetesObject


def admit(obj: KubernetesObject) -> list[Problem]:
    """Everything that the API server would refuse the object for; nothing, if it would take it."""
    version, kind = obj.get("apiVersion"), obj.get("kind")
    problems = [*_version_problems(version), *_kind_problems(kind)]
    if kind not in known_kinds():
        return problems
    schema = schema_of(kind)
    body = _body(obj)
    problems += [*metadata_problems(obj.get("metadata")), *structure_problems(schema, body)]
    return problems or list(rule_problems(schema, _with_metadata(body, obj)))


def _version_problems(version: Any) -> Iterator[Problem]:
    if version is None:
        yield Problem(("apiVersion",), f"{MISSING}; use {API_VERSION}", at_value=False)
    elif version != API_VERSION:
        yield Problem(("apiVersion",), f"{quoted(str(version))} is not a version of the API; use {API_VERSION}")


def _kind_problems(kind: Any) -> Iterator[Problem]:
    if kind is None:
        yield Problem(("kind",), f"{MISSING}; use one of {', '.join(sorted(known_kinds()))}", at_value=False)
    elif kind not in known_kinds():
        yield Problem(("kind",), unknown("kind", str(kind), known_kinds()))


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
