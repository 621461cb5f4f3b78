"""The catalog of a table that is exported, as the TableCatalog that leads to it. Without one the declaration would not
be about this table, so what no TableCatalog can stand for is an error.

No key and no password is written. What is not written, and what has no words in a TableCatalog, is named in a note.
"""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import URL, make_url

from tableformat.catalogs import PyIcebergConfig
from tableformat.secrets import is_secret
from tablewright.api.admission import admit
from tablewright.api.export import NotExportableError
from tablewright.api.objects import API_VERSION, KubernetesObject

# What a TableCatalog has a field for; `type` tells which of its own fields.
_FIELDS = frozenset(
    {"type", "uri", "warehouse", "s3.endpoint", "s3.region", "glue.id", "glue.region", "glue.endpoint"}
    | {"table-name", "dynamodb.region", "dynamodb.endpoint", "configmap.namespace"}
)
_OURS = {
    "tableformat.catalogs.configmap.ConfigMapCatalog": "configmap",
    "tableformat.catalogs.dynamodb.JavaLayoutDynamoDbCatalog": "dynamodb",
    "tableformat.catalogs.sql.SharedSqlCatalog": "sql",
}


@dataclass(frozen=True)
class ExportedCatalog:
    manifest: KubernetesObject
    notes: tuple[str, ...]


def export_catalog(
    config: PyIcebergConfig, location: str, identifier: tuple[str, ...], *, name: str, namespace: str
) -> ExportedCatalog:
    """`config` is what the table at `location` was found by, and `name` what its TableCatalog is called.

    Raises `NotExportableError`.
    """
    given = dict(config.properties)
    kind = given.get("type", "") or _OURS.get(given.pop("py-catalog-impl", ""), "")
    notes = [
        f"{key} is not written: give it in a Secret, or in the environment" for key in sorted(given) if is_secret(key)
    ]
    notes += [
        f"{key} is not written: a TableCatalog has no field for it"
        for key in sorted(given)
        if key not in _FIELDS and not is_secret(key)
    ]
    spec: dict[str, Any] = _store(config, kind, given, notes, name=name, namespace=namespace)
    if "rest" not in spec:
        spec["warehouse"] = given.get("warehouse") or _warehouse(location, identifier)
    storage = _said({"endpoint": given.get("s3.endpoint"), "region": given.get("s3.region")})
    if storage:
        spec["storage"] = storage
    manifest = {
        "apiVersion": API_VERSION,
        "kind": "TableCatalog",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }
    problems = admit(manifest)
    if problems:
        raise _not_exportable(config, str(problems[0]))
    return ExportedCatalog(manifest, tuple(notes))


def _store(
    config: PyIcebergConfig, kind: str, given: dict[str, str], notes: list[str], *, name: str, namespace: str
) -> dict[str, Any]:
    """Where the pointers are: the one field of the spec that a TableCatalog of this kind has."""

    def said(**names: str) -> dict[str, str]:
        return {field: given[key] for field, key in names.items() if given.get(key)}

    match kind:
        case "rest":
            uri = re.sub(r"(?<=://)[^/@]*@", "", given.get("uri", ""))
            if uri != given.get("uri"):
                notes.append("the password in the address is not written: give a credential or a token")
            return {"rest": {"uri": uri, **said(warehouse="warehouse")}}
        case "hive":
            return {"hive": said(uri="uri")}
        case "glue":
            return {"glue": said(catalogId="glue.id", region="glue.region", endpoint="glue.endpoint")}
        case "dynamodb":
            return {"dynamoDB": said(tableName="table-name", region="dynamodb.region", endpoint="dynamodb.endpoint")}
        case "configmap" if given.get("configmap.namespace") == namespace:
            return {"configMap": {}}
        case "configmap":
            own = given.get("configmap.namespace")
            raise _not_exportable(config, f"its tables are in the Kubernetes namespace {own}, not in {namespace}")
        case "sql":
            own_name = {} if config.name == name else {"catalogName": config.name}
            return {"sql": {"uri": _without_password(given.get("uri", ""), notes), **own_name}}
        case _:
            raise _not_exportable(config, f"there is no such thing for a catalog of type {kind or 'unknown'}")


def _not_exportable(config: PyIcebergConfig, why: str) -> NotExportableError:
    return NotExportableError(
        f"the TableCatalog of catalog {config.name} cannot be written: {why}. Declare it yourself, and name it with "
        "--catalog-ref"
    )


def _said(values: dict[str, str | None]) -> dict[str, str]:
    return {key: value for key, value in values.items() if value}


def likely_table(tables: Iterable[tuple[str, tuple[str, ...]]]) -> tuple[str, tuple[str, ...]]:
    """Of tables by location and identifier, the first that is where most are."""
    ordered = list(tables)
    counts = Counter(_warehouse(*each) for each in ordered)
    return max(ordered, key=lambda each: counts[_warehouse(*each)])


def _warehouse(location: str, identifier: tuple[str, ...]) -> str:
    """The folder around the one of the table's namespace, where it is in such a one; otherwise the one around it."""
    around, _, _ = location.rstrip("/").rpartition("/")
    above, _, last = around.rpartition("/")
    return above if last in (f"{identifier[0]}.db", identifier[0]) else around


def _without_password(uri: str, notes: list[str]) -> str:
    url = make_url(uri)
    if url.password is not None:
        notes.append("the database's password is not written: give it as its driver takes it, such as in PGPASSWORD")
        url = URL.create(url.drivername, url.username, None, url.host, url.port, url.database, url.query)
    for name in filter(is_secret, url.query):
        notes.append(f"{name} in the database's address is not written: give it as its driver takes it")
        url = url.difference_update_query([name])
    if url.get_backend_name() == "sqlite" and url.database:
        url = url.set(database=str(Path(url.database).resolve()))
    return url.render_as_string(hide_password=False)
