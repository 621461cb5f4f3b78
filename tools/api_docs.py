"""Writes docs/api.md from the custom resource definitions and the examples: `make docs`.

The definitions are the source of truth; a page that is written by hand would be right for a month. A test fails when
the page is not what this makes of them.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "api.md"
KINDS = ("tablecatalogs", "managedtables", "tablepolicies", "maintenanceruns")
# Sections that several kinds have; they are described once.
SHARED = ("layout", "compaction", "retention", "manifests", "orphanFiles", "timeZone", "windows", "runHistory")

INTRODUCTION = """\
# The API

Generated from `crds/` and `examples/api/` by `make docs`; change those.

Group `tablewright.dev`, version `v1alpha1`, category `tablewright`: `kubectl get tablewright` shows everything. All
kinds are namespaced; a table's catalog, policies, runs, Jobs and credentials are in its own namespace. `kubectl explain
managedtable.spec` has the same words as this page.

- **Durations** are whole numbers with s, m, h or d (`10m`, `7d`); **sizes** have Ki, Mi, Gi or Ti (`256Mi`);
  **schedules** are cron expressions of five fields, in `timeZone`; **times** are RFC 3339 (`2026-09-30T23:59:59Z`).
- **What is absent** is left as it is, or to the next level: table over policies (by priority, then by name) over
  catalog over built-in, field by field. A list or a map is one field. `status.effectivePolicy` says what holds and
  where it came from. `suspend` is the exception: whoever says stop is heard.
- **What makes no sense** is refused by the API server where a schema or a rule can tell, and otherwise by the operator,
  in a condition that names the field and the remedy. An object that cannot be read affects nothing but itself.
- **The operator never writes `spec`**, and no default is put into a list, so tools that compare what they applied with
  what is there (Argo CD, Flux, `kubectl diff`) see no difference that nobody made.
- **A run by hand**: create a MaintenanceRun, or `kubectl annotate managedtable payments tablewright.dev/run=Compact`;
  the operator removes the annotation once it has acted on it. Deleting a run cancels it.
"""


def page() -> str:
    definitions = {plural: _definition(plural) for plural in KINDS}
    parts = [INTRODUCTION]
    parts += [_kind(plural, definition) for plural, definition in definitions.items()]
    of_catalog = _schema(definitions["tablecatalogs"])["properties"]["spec"]["properties"]
    common = {**of_catalog["maintenance"]["properties"], "jobs": of_catalog["jobs"]}
    parts.append(
        "## What catalogs, policies and tables can all say\n\n"
        "In a TableCatalog under `spec.maintenance`, but for `jobs`, and otherwise directly under `spec`.\n\n"
        + _fields({name: common[name] for name in (*SHARED, "jobs")})
        + _rules({"properties": common})
    )
    return "\n".join(parts)


def _definition(plural: str) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((ROOT / "crds" / f"{plural}.tablewright.dev.yaml").read_text())
    return loaded


def _schema(definition: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return found


def _kind(plural: str, definition: dict[str, Any]) -> str:
    names, schema = definition["spec"]["names"], _schema(definition)
    spec, status = schema["properties"]["spec"], schema["properties"].get("status")
    example = (ROOT / "examples" / "api" / f"{names['singular']}.yaml").read_text()
    columns = ", ".join(c["name"] for c in definition["spec"]["versions"][0]["additionalPrinterColumns"])
    own = {name: _without_shared(name, child, plural) for name, child in spec["properties"].items()}
    text = f"## {names['kind']} (`{names['shortNames'][0]}`)\n\n{schema['description']}\n\n"
    text += f"`kubectl get {plural}` shows: {columns}.\n\n```yaml\n{example}```\n\n"
    text += "### Spec\n\n" + _fields({name: child for name, child in own.items() if child is not None})
    text += _rules(schema, skip=("jobs", *(SHARED if plural == "tablepolicies" else ()), "maintenance"))
    if status is not None:
        text += "### Status\n\n" + _fields(status["properties"])
    return text


def _without_shared(name: str, node: dict[str, Any], plural: str) -> dict[str, Any] | None:
    """What is described with the fields that all levels have is not described again; None where nothing is left."""
    if name == "jobs" or (plural == "tablecatalogs" and name == "maintenance"):
        return {"description": f"{node['description']} See [below](#what-catalogs-policies-and-tables-can-all-say)."}
    if name not in SHARED:
        return node
    of_policy = _schema(_definition("tablepolicies"))["properties"]["spec"]["properties"][name]
    inner = node.get("properties", {})
    left = {field: child for field, child in inner.items() if field not in of_policy.get("properties", {})}
    more = "See [below](#what-catalogs-policies-and-tables-can-all-say)."
    return {"description": f"{node['description']} {more}", "properties": left}


def _fields(properties: dict[str, Any]) -> str:
    rows = [row for name, node in properties.items() for row in _rows(name, node, required=False)]
    return "| field | type | |\n| --- | --- | --- |\n" + "\n".join(rows) + "\n\n"


def _rows(path: str, node: dict[str, Any], *, required: bool) -> Iterator[str]:
    notes = [node["description"]]
    notes += ["Required."] if required else []
    if "default" in node:
        notes.append(
            f"Default: `{node['default'] if isinstance(node['default'], str) else json.dumps(node['default'])}`."
        )
    yield f"| `{path}` | {_type(node)} | {_escaped(' '.join(notes))} |"
    inner, prefix = (node["items"], f"{path}[]") if "items" in node else (node, path)
    for name, child in inner.get("properties", {}).items():
        yield from _rows(f"{prefix}.{name}", child, required=name in inner.get("required", ()))


def _type(node: dict[str, Any]) -> str:
    if "enum" in node:
        return " \\| ".join(f"`{choice}`" for choice in node["enum"])
    kind = node.get("type", "object")
    if kind == "array":
        inner = node["items"]
        what = "objects" if "properties" in inner else f"{inner['type']}s"
        return f"list of up to {node['maxItems']} {what}"
    if kind == "object" and "additionalProperties" in node:
        return f"map of up to {node['maxProperties']} strings"
    if node.get("format") == "date-time":
        return "time"
    if kind == "integer" and "maximum" in node:
        return f"integer, {node['minimum']} to {node['maximum']}"
    return str(kind)


def _rules(schema: dict[str, Any], skip: tuple[str, ...] = ()) -> str:
    """What the API server checks between fields, in the words with which it refuses."""
    lines = [f"- {f'`{path}`: ' if path else ''}{message}" for path, message in _messages("", schema, skip)]
    return "The API server also checks:\n\n" + "\n".join(lines) + "\n\n" if lines else ""


def _messages(path: str, node: dict[str, Any], skip: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for rule in node.get("x-kubernetes-validations", ()):
        yield path, rule["message"]
    for name, child in node.get("properties", {}).items():
        if name not in skip and name != "status":
            yield from _messages(f"{path}.{name}" if path else name, child, skip)
    if "items" in node:
        yield from _messages(f"{path}[]", node["items"], skip)


def _escaped(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "\\<")


if __name__ == "__main__":
    PAGE.write_text(page())
    sys.stdout.write(f"{PAGE.relative_to(ROOT)} is up to date\n")
