"""Data files whose variants are shredded into columns of their own. They stay as they are.

The kernel carries a variant over as it is stored: its metadata and its value. Whether a file has more than that is
known by its footer alone, so the footers of files that are worth a rewrite are read before anything is written.
"""

from collections.abc import Iterator, Set
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import FileFormat
from pyiceberg.table import Table

from tableformat.engine.projection import FIELD_ID, children, is_whole_variant
from tableformat.engine.reading import file_errors, open_file
from tableformat.inspection import FORMATS, Integers, LiveFile, SnapshotFiles, integers
from tableformat.maintenance.errors import UnsupportedTable
from tableformat.plurals import plural
from tableformat.types_as_written import is_variant

_FOOTERS_AT_ONCE = 16
REWRITE_ELSEWHERE = "Leave their rewriting to the engine that wrote them"


def shredded_files(table: Table, files: SnapshotFiles, rows: Integers) -> tuple[Integers, tuple[str, ...]]:
    """Those of the rows whose files cannot be carried over, and why, one reason for each column."""
    columns = _variants(table)
    if not columns or not len(rows):
        return np.zeros(0, np.int64), ()
    parquet = integers(files.data, "file_format")[rows] == FORMATS.index(FileFormat.PARQUET)
    paths = files.data["path"].take(pa.array(rows[parquet])).to_pylist()
    with ThreadPoolExecutor(_FOOTERS_AT_ONCE) as pool:
        found = list(pool.map(lambda path: _shredded(table, path, columns.keys()), paths))
    reasons = [
        f"left alone: {plural(count, 'data file')}: column {name!r} is a shredded variant, which the kernel does not "
        f"write. {REWRITE_ELSEWHERE}"
        for field_id, name in columns.items()
        if (count := sum(field_id in each for each in found))
    ]
    if not parquet.all():
        reasons.append(
            f"left alone: {plural(int((~parquet).sum()), 'data file')}: they are not Parquet files, and column "
            f"{next(iter(columns.values()))!r} is a variant. {REWRITE_ELSEWHERE}"
        )
    is_shredded = np.fromiter((bool(each) for each in found), np.bool_, len(found))
    return np.concatenate([rows[parquet][is_shredded], rows[~parquet]]), tuple(reasons)


def require_whole_variants(table: Table, file: LiveFile) -> None:
    """Raise `UnsupportedTable` if the file has a variant that is shredded, or is no Parquet file and may have one."""
    if not (columns := _variants(table)):
        return
    if file.file_format != FileFormat.PARQUET:
        reason = f"is no Parquet file, and column {next(iter(columns.values()))!r} is a variant"
    elif shredded := _shredded(table, file.path, columns.keys()):
        reason = f"has shredded variants in column {columns[min(shredded)]!r}"
    else:
        return
    raise UnsupportedTable(".".join(table.name()), f"{file.path} {reason}", REWRITE_ELSEWHERE)


def _variants(table: Table) -> dict[int, str]:
    """Names of columns by field id."""
    schema = table.metadata.schema()
    return {
        field.field_id: schema.find_column_name(field.field_id) or field.name
        for field in schema._lazy_id_to_field.values()
        if is_variant(field.field_type)
    }


def _shredded(table: Table, path: str, field_ids: Set[int]) -> set[int]:
    with file_errors(path), open_file(table.io, path) as stream:
        return {
            int(field.metadata[FIELD_ID])
            for field in _fields(list(pq.read_schema(stream)))
            if int((field.metadata or {}).get(FIELD_ID, -1)) in field_ids and not is_whole_variant(field.type)
        }


def _fields(fields: list[pa.Field]) -> Iterator[pa.Field]:
    for field in fields:
        yield field
        yield from _fields(children(field.type))
