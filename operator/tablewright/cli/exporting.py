"""A catalog's tables as declarations: one TableCatalog, and a ManagedTable for each table, every object with its file.

A table that cannot be declared does not keep the others back: it is named. The names of objects and files follow from
the tables' own, so a second export of the same catalog writes the same files.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pyiceberg.table.metadata import TableMetadata

from tableformat.catalogs import PyIcebergConfig
from tableformat.secrets import KNOWN
from tablewright.api.admission import admit
from tablewright.api.catalog import TableCatalog
from tablewright.api.export import Exported, NotExportableError, export_table, object_name, object_names
from tablewright.api.export_catalog import export_catalog, likely_table
from tablewright.api.objects import API_VERSION, KubernetesObject
from tablewright.cli.catalogs import BY_ADDRESS, NO_WAREHOUSE, AddressedCatalog
from tablewright.cli.exits import InputError, exit_code_of
from tablewright.cli.output import as_yaml

Identifier = tuple[str, ...]
_Made = TypeVar("_Made")


@dataclass(frozen=True)
class Failure:
    table: str
    error: Exception


@dataclass(frozen=True)
class Files:
    """Texts by the names of files, the TableCatalog's first."""

    texts: Mapping[str, str]
    tables: int
    failures: tuple[Failure, ...]

    def write(self, folder: Path, *, overwrite: bool) -> None:
        """All or nothing, where a file of somebody's is in the way."""
        if folder.exists() and not folder.is_dir():
            raise InputError(f"--to: {folder} is not a folder")
        taken = [name for name, text in self.texts.items() if _differs(folder / name, text)]
        if taken and not overwrite:
            raise InputError(
                f"--to: {folder} has {', '.join(taken)} already, with other content; nothing was written. Choose "
                "another folder, or pass --overwrite"
            )
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in self.texts.items():
            (folder / name).write_text(text)


def export_files(
    found: AddressedCatalog,
    identifiers: Sequence[Identifier],
    *,
    catalog_ref: str | None,
    namespace: str | None,
    with_catalog: bool,
) -> Files:
    """`with_catalog` is whether the TableCatalog is written, too. Raises `NotExportableError` where it cannot be."""
    loaded, failures = _each(identifiers, lambda identifier: found.load(identifier).metadata)
    names, place = object_names(identifiers), _namespace(found, identifiers, namespace)
    catalog = catalog_ref or _catalog_name(found)

    def declared(identifier: Identifier) -> Exported:
        return export_table(loaded[identifier], identifier, catalog=catalog, namespace=place, name=names[identifier])

    exported, not_declarable = _each(list(loaded), declared)
    texts: dict[str, str] = {}
    if with_catalog and exported:
        texts[f"catalog-{catalog}.yaml"] = _catalog_text(found, {each: loaded[each] for each in exported}, place)
    for identifier, table in exported.items():
        texts[f"table-{names[identifier]}.yaml"] = _text(table.manifest, table.notes)
    return Files(texts, len(exported), (*failures, *not_declarable))


def _each(
    identifiers: Sequence[Identifier], make: Callable[[Identifier], _Made]
) -> tuple[dict[Identifier, _Made], list[Failure]]:
    made: dict[Identifier, _Made] = {}
    failures = []
    for identifier in identifiers:
        try:
            made[identifier] = make(identifier)
        except Exception as error:
            if exit_code_of(error) is None:
                raise
            failures.append(Failure(".".join(identifier), error))
    return made, failures


def _catalog_name(found: AddressedCatalog) -> str:
    if found.declared is not None:
        return found.declared.metadata.name
    return "lake" if found.config.name == BY_ADDRESS else object_name(found.config.name)


def _namespace(found: AddressedCatalog, identifiers: Sequence[Identifier], given: str | None) -> str:
    """A table's TableCatalog is in its own Kubernetes namespace, so one TableCatalog has one namespace of tables."""
    own = found.config.properties.get("configmap.namespace")
    if found.declared is not None:
        own = found.declared.metadata.namespace
    if given is not None and own is not None and given != own:
        raise InputError(f"--namespace: the catalog is in the Kubernetes namespace {own}, and so are its declarations")
    namespaces = {identifier[0] for identifier in identifiers}
    return given or own or (object_name(namespaces.pop()) if len(namespaces) == 1 else "default")


def _catalog_text(found: AddressedCatalog, tables: Mapping[Identifier, TableMetadata], namespace: str) -> str:
    if found.declared is not None:
        return _text(_as_declared(found.declared), ())
    config = found.config
    known = {key: value for key, value in config.properties.items() if value != NO_WAREHOUSE}
    location, identifier = likely_table((metadata.location, each) for each, metadata in tables.items())
    exported = export_catalog(
        PyIcebergConfig(name=config.name, properties=known),
        location,
        identifier,
        name=_catalog_name(found),
        namespace=namespace,
    )
    return _text(exported.manifest, exported.notes)


def _as_declared(catalog: TableCatalog) -> KubernetesObject:
    metadata = catalog.metadata
    said: dict[str, Any] = {"name": metadata.name, "namespace": metadata.namespace}
    said |= {key: value for key in ("labels", "annotations") if (value := getattr(metadata, key))}
    spec = catalog.spec.model_dump(mode="json", by_alias=True, exclude_unset=True)
    manifest = {"apiVersion": API_VERSION, "kind": catalog.kind_name, "metadata": said, "spec": spec}
    if problems := admit(manifest):  # the embedded one may be in any folder
        raise NotExportableError(f"the TableCatalog {'/'.join(catalog.key)} cannot be written: {problems[0]}")
    return manifest


def _text(manifest: KubernetesObject, notes: Sequence[str]) -> str:
    return KNOWN.hide("".join(f"# {note}\n" for note in notes) + as_yaml(manifest))


def _differs(file: Path, text: str) -> bool:
    return file.exists() and (not file.is_file() or file.read_bytes() != text.encode())
