"""What PyIceberg has to be taught before it can carry every legal table, in one place.

PyIceberg 0.12 fails on the type names `variant` and `geometry(EPSG:4326)`, cuts locations at `#` and `?`, declines to
write metadata of format version 3, and drops what it does not know of a metadata file when it writes the next one.
Importing this module changes that for the whole process, by names of PyIceberg that are not part of its interface. The
packages that open tables import it first.
"""

import json
import threading

from pyiceberg.catalog import MetastoreCatalog
from pyiceberg.io import FileIO, InputFile
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.serializers import Compressor, FromInputFile
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil, TableMetadataV3
from pyiceberg.typedef import EMPTY_DICT, UTF8, IcebergBaseModel, Properties
from pyiceberg.utils.config import Config

import tableformat.types_as_written  # noqa: F401 - teaches PyIceberg the types
from tableformat.carrying_over import carried_over
from tableformat.locations import Place

_parse_location = PyArrowFileIO.parse_location


def _exact_location(location: str, properties: Properties = EMPTY_DICT) -> tuple[str, str, str]:
    """The scheme, the authority and the path of a location, of which nothing is cut or decoded.

    `#`, `?`, `%` and blanks are letters like any other, as they are to Iceberg's HadoopFileIO.
    """
    place = Place.of(location)
    if not place.scheme:
        return _parse_location(location, properties)  # a plain path, of which PyIceberg cuts nothing
    is_path_alone = place.scheme in ("file", "hdfs", "viewfs")
    return place.scheme, place.authority, place.path if is_path_alone else f"{place.authority}{place.path}"


class _LastRead(threading.local):
    """The metadata file that this thread read last: what a commit is based on is read right before it is written."""

    location: str | None = None
    text: str = ""


_last_read = _LastRead()


def _read_text(input_file: InputFile, encoding: str = UTF8) -> str:
    compression = Compressor.get_compressor(location=input_file.location)
    with input_file.open() as stream, compression.stream_decompressor(stream) as content:
        text = content.read().decode(encoding)
    _last_read.location, _last_read.text = input_file.location, text
    return text


def _read_metadata(input_file: InputFile, encoding: str = UTF8) -> TableMetadata:
    """As `FromInputFile.table_metadata`, and remembers the text."""
    return TableMetadataUtil.parse_raw(_read_text(input_file, encoding))


def write_metadata_file(metadata: TableMetadata, io: FileIO, metadata_path: str, *, overwrite: bool = False) -> None:
    """As PyIceberg's catalogs write a metadata file, with all that its base has and PyIceberg does not know."""
    text = _as_pyiceberg_writes(metadata)
    if metadata.metadata_log:
        base = metadata.metadata_log[-1].metadata_file
        written = _last_read.text if _last_read.location == base else _read_text(io.new_input(base))
        known = _as_pyiceberg_writes(TableMetadataUtil.parse_raw(written))
        merged = carried_over(json.loads(written), json.loads(known), json.loads(text))
        text = json.dumps(merged, separators=(",", ":"))
    compress = Compressor.get_compressor(metadata_path).bytes_compressor()
    with io.new_output(metadata_path).create(overwrite=overwrite) as output:
        output.write(compress(text.encode(UTF8)))


def _as_pyiceberg_writes(metadata: TableMetadata) -> str:
    return metadata.model_dump_json(exclude_none=not Config().get_bool("legacy-current-snapshot-id"))


PyArrowFileIO.parse_location = staticmethod(_exact_location)  # type: ignore[method-assign]
TableMetadataV3.model_dump_json = IcebergBaseModel.model_dump_json  # type: ignore[method-assign]
FromInputFile.table_metadata = staticmethod(_read_metadata)  # type: ignore[method-assign]
MetastoreCatalog._write_metadata = staticmethod(write_metadata_file)  # type: ignore[method-assign]
