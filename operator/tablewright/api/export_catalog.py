"""The catalog of a table that is exported, as the TableCatalog that leads to it: without one, a folder's embedded
catalog would be meant, and `apply` would make an empty table there.

No key and no password is written. What is not written, and what has no words in a TableCatalog, is named in a note.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import URL, make_url

from tableformat.catalogs import PyIcebergConfig
from tablewright.api.admission import admit
from tablewright.api.export import object_name
from tablewright.api.objects import API_VERSION, KubernetesObject

_SECRET = re.compile(r"token|credential|secret|password|access-key|\.key", re.IGNORECASE)
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


@dataclass(frozen=True)
class ExportedCatalog:
    manifest: KubernetesObject | None
    """None where no TableCatalog can stand for it; a note says why."""
    notes: tuple[str, ...]


def name_of_catalog(config: PyIcebergConfig) -> str:
    """What its TableCatalog is called. A SQL database knows its tables by their catalog's name, which cannot change
    then; to all others it is a name among people, and `my_lake` is no name to Kubernetes."""
    is_fixed = config.properties.get("type") == "sql" or _NAME.fullmatch(config.name)
    return config.name if is_fixed else object_name(config.name)


def export_catalog(
    config: PyIcebergConfig, location: str, identifier: tuple[str, ...], *, name: str, namespace: str
) -> ExportedCatalog:
    """`config` is what the table at `location` was found by, and `name` what its TableCatalog is called."""
    given, kind = dict(config.properties), config.properties.get("type", "")
    notes = [
        f"{key} is not written: give it in a Secret, or in the environment"
        for key in sorted(given)
        if _SECRET.search(key)
    ]
    warehouse = given.get("warehouse") or _warehouse(location, identifier)
    spec: dict[str, Any]
    match kind:
        case "rest":
            uri = re.sub(r"(?<=://)[^/@]*@", "", given.get("uri", ""))
            if uri != given.get("uri"):
                notes.append("the password in the address is not written: give a credential or a token")
            spec = {"rest": _said({"uri": uri, "warehouse": given.get("warehouse")})}
        case "hive":
            spec = {"hive": _said({"uri": given.get("uri")}), "warehouse": warehouse}
        case "glue":
            glue = {"catalogId": given.get("glue.id"), "region": given.get("glue.region")}
            spec = {"glue": _said({**glue, "endpoint": given.get("glue.endpoint")}), "warehouse": warehouse}
        case "sql":
            spec = {"sql": {"uri": _without_password(given.get("uri", ""), notes)}, "warehouse": warehouse}
        case _:
            return ExportedCatalog(None, (f"a catalog of type {kind or 'unknown'} has no TableCatalog: declare one",))
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
    if kind == "sql" and not _NAME.fullmatch(name):
        why = f"the database has the table under the catalog {name!r}, and nothing in Kubernetes can be called that"
        return ExportedCatalog(None, (f"its TableCatalog is not written: {why}",))
    if problems:
        return ExportedCatalog(None, (f"its TableCatalog is not written, because {problems[0]}: declare one",))
    return ExportedCatalog(manifest, tuple(notes))


def _said(values: dict[str, str | None]) -> dict[str, str]:
    return {key: value for key, value in values.items() if value}


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
    if url.get_backend_name() == "sqlite" and url.database:
        url = url.set(database=str(Path(url.database).resolve()))
    return url.render_as_string(hide_password=False)
