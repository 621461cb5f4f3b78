"""The CRDs and the models say the same, in both directions: no field that one knows and the other does not."""

import typing
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel

from tablewright.api.catalog import TableCatalog
from tablewright.api.objects import GROUP, VERSION, KubernetesResource
from tablewright.api.policy import TablePolicy
from tablewright.api.run import MaintenanceRun
from tablewright.api.table import ManagedTable

KINDS: list[type[KubernetesResource]] = [ManagedTable, MaintenanceRun, TableCatalog, TablePolicy]
FOLDER = Path(__file__).parents[3] / "crds"


def definition(kind: type[KubernetesResource]) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((FOLDER / f"{kind.plural}.{GROUP}.yaml").read_text())
    return loaded


def schema(kind: type[KubernetesResource]) -> dict[str, Any]:
    [version] = definition(kind)["spec"]["versions"]
    found: dict[str, Any] = version["schema"]["openAPIV3Schema"]
    return found


def parts(annotation: Any) -> list[Any]:
    """The annotation and everything inside it: of `tuple[Column, ...] | None`, among others `Column`."""
    return [annotation, *(part for inner in typing.get_args(annotation) for part in parts(inner))]


def model_in(annotation: Any) -> type[BaseModel] | None:
    models = [part for part in parts(annotation) if isinstance(part, type) and issubclass(part, BaseModel)]
    return models[0] if models else None


def choices_in(annotation: Any) -> set[Any] | None:
    for part in parts(annotation):
        if typing.get_origin(part) is typing.Literal:
            return set(typing.get_args(part))
        if isinstance(part, type) and issubclass(part, Enum):
            return {member.value for member in part}
    return None


def disagreements(path: str, node: dict[str, Any], model: type[BaseModel]) -> list[str]:
    fields = {field.alias or name: field for name, field in model.model_fields.items()}
    known = node.get("properties", {})
    found = [f"{path}.{name}: only in the CRD" for name in known.keys() - fields.keys()]
    found += [f"{path}.{name}: only in the model" for name in fields.keys() - known.keys()]
    for name in known.keys() & fields.keys():
        field, child, where = fields[name], known[name], f"{path}.{name}"
        inner = child.get("items", child)
        nested, choices = model_in(field.annotation), choices_in(field.annotation)
        if nested is not None:
            found += disagreements(where, inner, nested)
        elif "properties" in inner:
            found.append(f"{where}: an object in the CRD only")
        if choices is not None and set(inner.get("enum", ())) != choices:
            found.append(f"{where}: the CRD allows {inner.get('enum')}, the model {sorted(map(str, choices))}")
        people_write_it = path.startswith("spec")
        if people_write_it and field.is_required() and name not in node.get("required", ()):
            found.append(f"{where}: required by the model only")
    return found


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind_name)
def test_the_crd_and_the_model_have_the_same_fields(kind: type[KubernetesResource]) -> None:
    top = schema(kind)["properties"]
    found = disagreements("spec", top["spec"], model_in(kind.model_fields["spec"].annotation) or BaseModel)
    if "status" in kind.model_fields:
        found += disagreements("status", top["status"], model_in(kind.model_fields["status"].annotation) or BaseModel)
    assert found == []


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind_name)
def test_the_crd_is_named_as_the_model_says(kind: type[KubernetesResource]) -> None:
    names = definition(kind)["spec"]["names"]
    assert (names["kind"], names["plural"]) == (kind.kind_name, kind.plural)
    assert definition(kind)["spec"]["group"] == GROUP
    assert definition(kind)["spec"]["versions"][0]["name"] == VERSION
    assert "tablewright" in names["categories"]


def unbounded(path: str, node: dict[str, Any]) -> list[str]:
    found = []
    kind = node.get("type")
    if kind == "string" and not node.keys() & {"maxLength", "enum", "format", "pattern"}:
        found.append(f"{path}: a string without a bound")
    if kind == "array" and "maxItems" not in node:
        found.append(f"{path}: a list without a bound")
    if kind == "object" and "additionalProperties" in node and "maxProperties" not in node:
        found.append(f"{path}: a map without a bound")
    if kind == "array":
        inner = node["items"]
        found += [f"{path}[].{name}: a default in a list item" for name, p in _properties(inner) if "default" in p]
        found += unbounded(f"{path}[]", inner)
    for name, child in _properties(node):
        found += unbounded(f"{path}.{name}", child)
    return found


def _properties(node: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return list(node.get("properties", {}).items())


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind_name)
def test_everything_is_bounded_and_no_list_item_has_a_default(kind: type[KubernetesResource]) -> None:
    assert unbounded("", schema(kind)) == []
