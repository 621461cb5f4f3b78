"""A table that is there, as the ManagedTable that declares it: the other way round than `api.declaration`.

Applied to the same table, the declaration changes nothing. What the API has no words for (a sort in descending order,
the doc of a field inside a struct, a partition by a transform that nobody knows) is left out, which leaves the table as
it is, and is named in a note.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyiceberg.partitioning import PartitionField
from pyiceberg.schema import Schema
from pyiceberg.table import TableProperties
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.sorting import NullOrder, SortDirection, SortField
from pyiceberg.transforms import IdentityTransform, VoidTransform
from pyiceberg.types import NestedField

from tableformat.declaration import InvalidTypeError, parse_partition_transform, parse_type, type_text
from tableformat.errors import PermanentError
from tablewright.api.admission import admit
from tablewright.api.declaration import TARGET_FILE_SIZE
from tablewright.api.objects import API_VERSION, KubernetesObject
from tablewright.api.quantities import format_size, is_size

MOST_SORT_COLUMNS, MOST_PROPERTIES, LONGEST_PROPERTY = 8, 256, 4096
# The library keeps this one in step with the schema; declared, it would stay behind.
_NOT_DECLARED = frozenset({TableProperties.DEFAULT_NAME_MAPPING})


class NotExportableError(PermanentError):
    """A table that no ManagedTable can stand for, or a catalog that no TableCatalog can; the message says why."""


@dataclass(frozen=True)
class Exported:
    manifest: KubernetesObject
    notes: tuple[str, ...]
    """What the table has and the declaration leaves to it."""


def export_table(
    metadata: TableMetadata,
    identifier: tuple[str, ...],
    *,
    catalog: str,
    namespace: str | None = None,
    name: str | None = None,
) -> Exported:
    """Raises `NotExportableError`."""
    if len(identifier) != 2:
        raise NotExportableError(
            f"{'.'.join(identifier)}: a ManagedTable names a namespace of one part and a table; this one has more"
        )
    notes: list[str] = []
    spec: dict[str, Any] = {
        "catalogRef": {"name": catalog},
        "identifier": {"namespace": identifier[0], "name": identifier[1]},
    }
    if metadata.format_version >= 2:
        spec["formatVersion"] = int(metadata.format_version)
    spec["schema"] = _schema(metadata.schema(), notes)
    partitioning = _partitioning(metadata, notes)
    if partitioning is not None:
        spec["partitioning"] = partitioning
    properties = dict(sorted(metadata.properties.items()))
    layout = _layout(metadata, properties, notes)
    if layout:
        spec["layout"] = layout
    spec["properties"] = _properties(properties, notes)
    if not spec["properties"]:
        del spec["properties"]
    manifest = {
        "apiVersion": API_VERSION,
        "kind": "ManagedTable",
        "metadata": {
            "name": name or object_name(identifier[1]),
            "namespace": namespace or object_name(identifier[0]),
        },
        "spec": spec,
    }
    if problems := admit(manifest):
        raise NotExportableError(f"{'.'.join(identifier)}: {problems[0]}")
    return Exported(manifest, tuple(notes))


def _schema(schema: Schema, notes: list[str]) -> dict[str, Any]:
    columns = []
    for field in schema.fields:
        text = type_text(field.field_type)
        try:
            parse_type(text)
        except InvalidTypeError as error:
            raise NotExportableError(f"column {field.name}: {error}") from None
        column: dict[str, Any] = {"name": field.name, "type": text}
        if field.required:
            column["required"] = True
        if field.doc:
            column["doc"] = field.doc
        columns.append(column)
    for field_id, field in _inner_fields(schema):
        if field.doc:
            notes.append(f"the doc of {schema.find_column_name(field_id)} stays as it is: only columns have one here")
    found: dict[str, Any] = {"columns": columns}
    if schema.identifier_field_ids:
        found["identifierColumns"] = [schema.find_column_name(field_id) for field_id in schema.identifier_field_ids]
    return found


def _inner_fields(schema: Schema) -> Iterator[tuple[int, NestedField]]:
    top = {field.field_id for field in schema.fields}
    for field_id in sorted(schema.field_ids - top):
        yield field_id, schema.find_field(field_id)


def _partitioning(metadata: TableMetadata, notes: list[str]) -> list[dict[str, Any]] | None:
    schema = metadata.schema()
    fields = [field for field in metadata.spec().fields if not isinstance(field.transform, VoidTransform)]
    if not fields:
        return None
    found = []
    for field in fields:
        column = schema.find_column_name(field.source_id)
        if column is None or not _is_known(field):
            notes.append(
                f"the partitioning stays as it is: {field.transform} of {column or field.source_id} has no words"
            )
            return None
        found.append({"column": column, "transform": str(field.transform), "name": field.name})
    return found


def _is_known(field: PartitionField) -> bool:
    try:
        parse_partition_transform(str(field.transform))
    except InvalidTypeError:
        return False
    return True


def _layout(metadata: TableMetadata, properties: dict[str, str], notes: list[str]) -> dict[str, Any]:
    layout: dict[str, Any] = {}
    target = properties.get(TARGET_FILE_SIZE, "")
    if re.fullmatch(r"[1-9][0-9]{0,15}", target) and is_size(format_size(int(target))):
        del properties[TARGET_FILE_SIZE]
        layout["targetFileSize"] = format_size(int(target))
    order = metadata.sort_order().fields
    if order:
        columns = [metadata.schema().find_column_name(key.source_id) for key in order]
        if len(order) <= MOST_SORT_COLUMNS and all(columns) and all(_is_plain(key) for key in order):
            layout["order"] = {"strategy": "Sort", "columns": columns}
        else:
            notes.append(
                "the sort order stays as it is: only plain columns in ascending order, nulls first, have words"
            )
    return layout


def _is_plain(key: SortField) -> bool:
    plain = isinstance(key.transform, IdentityTransform) and key.direction == SortDirection.ASC
    return plain and key.null_order == NullOrder.NULLS_FIRST


def _properties(properties: dict[str, str], notes: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for key, value in properties.items():
        if key in _NOT_DECLARED:
            continue
        if len(found) == MOST_PROPERTIES or len(value) > LONGEST_PROPERTY:
            notes.append(f"the property {key} stays as it is: too long, or one too many, to declare")
            continue
        found[key] = value
    return found


def object_names(identifiers: Sequence[tuple[str, ...]]) -> dict[tuple[str, ...], str]:
    """A name for each: the table's own, behind its namespace's where they are of several. What would have one name in
    Kubernetes is told apart by a digest, so that the names do not depend on the order."""
    several = len({identifier[:-1] for identifier in identifiers}) > 1
    plain = {each: object_name("-".join(each) if several else each[-1]) for each in identifiers}
    times = Counter(plain.values())
    return {each: name if times[name] == 1 else _told_apart(name, each) for each, name in plain.items()}


def _told_apart(name: str, identifier: tuple[str, ...]) -> str:
    digest = hashlib.sha256(".".join(identifier).encode()).hexdigest()[:8]
    return f"{name[:54].rstrip('-')}-{digest}"


def object_name(name: str) -> str:
    """As near to the name of a table, or of what it is in, as Kubernetes allows."""
    plain = re.sub(r"[^a-z0-9-]+", "-", name.lower().replace("_", "-")).strip("-")[:63].strip("-")
    return plain or "table"
