"""The CRDs and the models say the same, in both directions, and the CRDs keep the conventions of Kubernetes.

A model's own JSON schema, which is what it enforces, is compared with the CRD's: fields, types, what is required,
choices, patterns and bounds.
"""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel

from tablewright.api.catalog import TableCatalog
from tablewright.api.objects import GROUP, VERSION, KubernetesResource, parse
from tablewright.api.policy import TablePolicy
from tablewright.api.run import MaintenanceRun
from tablewright.api.table import ManagedTable
from tablewright.decide.policy import effective_policy
from tests.definitions import KINDS, Schema, definition, schema, version

EXAMPLES = Path(__file__).parents[3] / "examples" / "api"
COMPARED = frozenset({"type", "enum", "pattern", "required", "format", "minimum", "maximum", "maxProperties"})
COMPARED |= {"minLength", "maxLength", "minItems", "maxItems"}
every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind_name)


def facts(node: Schema, definitions: Schema, path: str = "") -> dict[str, Any]:
    """What both sides can say, as one flat form: of every field its type, its bounds and whether it is required."""
    if "$ref" in node:
        return facts(definitions[node["$ref"].rsplit("/", 1)[1]], definitions, path)
    if "anyOf" in node:
        [given] = [choice for choice in node["anyOf"] if choice.get("type") != "null"]
        return facts(given, definitions, path)
    found = {f"{path} {key}": value for key, value in node.items() if key in COMPARED}
    if node.get("format") != "date-time":
        found.pop(f"{path} format", None)  # int64 says nothing of what is allowed
    for key in ("enum", "required"):
        if key in node:
            found[f"{path} {key}"] = sorted(node[key], key=str)
    for name, child in node.get("properties", {}).items():
        found |= facts(child, definitions, f"{path}.{name}")
    of_keys = node.get("patternProperties", {}).values()  # in a CRD a rule says what keys look like
    for inner in (node.get("items"), node.get("additionalProperties"), *of_keys):
        if isinstance(inner, dict):
            found |= facts(inner, definitions, f"{path}[]")
    return found


def facts_of_model(model: type[BaseModel]) -> dict[str, Any]:
    whole = model.model_json_schema(by_alias=True)
    return facts(whole, whole.get("$defs", {}))


def without_required(found: dict[str, Any]) -> dict[str, Any]:
    """Nobody but the operator writes a status, and the models see to it that it writes all of it."""
    return {fact: value for fact, value in found.items() if not fact.endswith(" required")}


def model_of(kind: type[KubernetesResource], part: str) -> type[BaseModel]:
    annotation = kind.model_fields[part].annotation
    assert isinstance(annotation, type)
    assert issubclass(annotation, BaseModel)
    return annotation


@every_kind
def test_the_spec_is_the_same_in_the_crd_and_in_the_model(kind: type[KubernetesResource]) -> None:
    assert facts(schema(kind)["properties"]["spec"], {}) == facts_of_model(model_of(kind, "spec"))


@every_kind
def test_the_status_is_the_same_in_the_crd_and_in_the_model(kind: type[KubernetesResource]) -> None:
    declared = schema(kind)["properties"].get("status")
    assert (declared is None) == ("status" not in kind.model_fields)
    if declared is not None:
        in_crd, in_model = facts(declared, {}), facts_of_model(model_of(kind, "status"))
        assert without_required(in_crd) == without_required(in_model)


@every_kind
def test_a_field_that_nobody_knows_is_refused_in_a_spec_and_passed_over_in_a_status(
    kind: type[KubernetesResource],
) -> None:
    """A misspelt retention must not mean none; and a newer operator's status must not stop the one that it is rolled
    back to."""

    def strictness(part: str) -> set[bool]:
        whole = model_of(kind, part).model_json_schema(by_alias=True)
        models = [node for node in (whole, *whole.get("$defs", {}).values()) if "properties" in node]
        return {node.get("additionalProperties", True) for node in models}

    assert strictness("spec") == {False}
    assert strictness("status") == {True}


def defaults(node: Schema, definitions: Schema, path: str = "") -> dict[str, Any]:
    if "$ref" in node:
        node = {**definitions[node["$ref"].rsplit("/", 1)[1]], **{k: v for k, v in node.items() if k != "$ref"}}
    for choice in node.get("anyOf", ()):
        if choice.get("type") != "null":
            return defaults(choice, definitions, path)
    found = {path: node["default"]} if "default" in node and node.get("type") != "object" else {}
    for name, child in node.get("properties", {}).items():
        found |= defaults(child, definitions, f"{path}.{name}")
    return found


@every_kind
def test_a_default_in_the_crd_is_the_models_too(kind: type[KubernetesResource]) -> None:
    whole = model_of(kind, "spec").model_json_schema(by_alias=True)
    of_the_model = defaults(whole, whole.get("$defs", {}))
    for field, value in defaults(schema(kind)["properties"]["spec"], {}).items():
        assert of_the_model[field] == value, field


@every_kind
def test_the_crd_is_named_as_the_model_says(kind: type[KubernetesResource]) -> None:
    names = definition(kind)["spec"]["names"]
    assert (names["kind"], names["plural"]) == (kind.kind_name, kind.plural)
    assert definition(kind)["spec"]["group"] == GROUP
    assert version(kind)["name"] == VERSION
    assert "tablewright" in names["categories"]
    assert names["shortNames"]


@every_kind
def test_a_status_has_its_own_endpoint_and_begins_as_not_observed(kind: type[KubernetesResource]) -> None:
    status = schema(kind)["properties"].get("status")
    assert (status is not None) == ("subresources" in version(kind))
    if status is not None:
        assert status["properties"]["observedGeneration"]["default"] == -1
        assert status["default"] == {"observedGeneration": -1}, "without it a new object has no status to begin with"


def nodes(path: str, node: Schema) -> list[tuple[str, Schema]]:
    """The node and all below it, each with its path."""
    found = [(path, node)]
    for name, child in node.get("properties", {}).items():
        found += nodes(f"{path}.{name}", child)
    for key in ("items", "additionalProperties"):
        if key in node:
            found += nodes(f"{path}[]", node[key])
    return found


@every_kind
def test_kubectl_explain_has_a_sentence_for_every_field(kind: type[KubernetesResource]) -> None:
    assert [
        path for path, node in nodes("", schema(kind)) if not node.get("description", "").endswith((".", '".'))
    ] == []


@every_kind
def test_every_string_list_and_map_is_bounded(kind: type[KubernetesResource]) -> None:
    def is_bounded(node: Schema) -> bool:
        match node["type"]:
            case "string":
                return bool(node.keys() & {"maxLength", "enum", "format"})
            case "array":
                return "maxItems" in node
            case "object":
                return "additionalProperties" not in node or "maxProperties" in node
        return True

    assert [path for path, node in nodes("", schema(kind)) if not is_bounded(node)] == []


@every_kind
def test_no_list_item_has_a_default(kind: type[KubernetesResource]) -> None:
    """Such a default makes every tool that compares what was applied with what is there see a difference."""
    items = [(path, node) for path, node in nodes("", schema(kind)) if "[]" in path]
    assert [path for path, node in items if "default" in node] == []


@every_kind
def test_every_list_says_how_it_is_merged_and_keys_of_list_maps_are_required(kind: type[KubernetesResource]) -> None:
    for path, node in nodes("", schema(kind)):
        if node["type"] == "array":
            assert node["x-kubernetes-list-type"] in ("atomic", "set", "map"), path
            keys = node.get("x-kubernetes-list-map-keys", [])
            assert set(keys) <= set(node["items"].get("required", ())), path


@every_kind
def test_printer_columns_show_fields_that_there_are(kind: type[KubernetesResource]) -> None:
    known = {path for path, _ in nodes("", schema(kind))}
    for column in version(kind)["additionalPrinterColumns"]:
        path = re.sub(r"\[\?\(.*?\)\]", "[]", column["jsonPath"])
        assert path in known or path == ".metadata.creationTimestamp", column


def test_what_several_kinds_can_say_they_say_in_the_same_words() -> None:
    """The definitions are files of their own, and nothing but this holds their common parts together."""
    of_policy = schema(TablePolicy)["properties"]["spec"]["properties"]
    of_table = schema(ManagedTable)["properties"]["spec"]["properties"]
    of_catalog = schema(TableCatalog)["properties"]["spec"]["properties"]
    common = of_catalog["maintenance"]["properties"]
    assert common.keys() == of_policy.keys() - {"selector", "priority", "jobs", "suspend"}
    for section, node in common.items():
        assert of_policy[section] == node, section
        if "properties" in node:
            inherited = {name: of_table[section]["properties"][name] for name in node["properties"]}
            assert inherited == node["properties"], section
        else:
            assert of_table[section] == node, section
    for other in (of_policy, of_catalog):
        assert other["jobs"]["properties"] == of_table["jobs"]["properties"]


def test_what_only_a_table_can_say_is_what_names_its_columns_or_its_history() -> None:
    of_policy = schema(TablePolicy)["properties"]["spec"]["properties"]
    of_table = schema(ManagedTable)["properties"]["spec"]["properties"]
    layout = of_table["layout"]["properties"].keys() - of_policy["layout"]["properties"].keys()
    retention = of_table["retention"]["properties"].keys() - of_policy["retention"]["properties"].keys()
    assert (layout, retention) == ({"order", "writeMode"}, {"holds"})


def test_a_run_knows_the_operations_that_a_tables_status_knows() -> None:
    in_status = schema(ManagedTable)["properties"]["status"]["properties"]["operations"]["items"]
    in_spec = schema(MaintenanceRun)["properties"]["spec"]["properties"]["operation"]
    assert in_status["properties"]["operation"]["enum"] == in_spec["enum"]


@every_kind
def test_the_example_of_a_kind_is_read_by_its_model(kind: type[KubernetesResource]) -> None:
    for document in yaml.safe_load_all((EXAMPLES / f"{kind.kind_name.lower()}.yaml").read_text()):
        parse(kind, document)


def test_the_example_of_a_table_says_something_of_everything_and_all_of_it_holds() -> None:
    document = yaml.safe_load((EXAMPLES / "managedtable.yaml").read_text())
    levels = {"timeZone", "runHistory"}  # what a table rather leaves to its policies
    assert schema(ManagedTable)["properties"]["spec"]["properties"].keys() - document["spec"].keys() == {
        "location",
        *levels,
    }
    policy = effective_policy(parse(ManagedTable, document), [])
    said = {field.field: field.value for field in policy.fields if field.origin == "table"}
    expected = {
        "jobs.executors.max": "8",
        "jobs.executors.memory": "4Gi",
        "jobs.priorityClassName": "batch",
        "jobs.deadline": "2h",
        "compaction.triggers.smallFiles": "50",
        "compaction.triggers.deleteRatioPercent": "30",
        "compaction.maxBytesPerRun": "100Gi",
        "retention.snapshots.maxAge": "7d",
        "retention.rows.maxAge": "400d",
        "orphanFiles.grace": "7d",
        "layout.targetFileSize": "256Mi",
    }
    assert expected.items() <= said.items()
