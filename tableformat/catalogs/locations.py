"""Where a table's files go: which locations can be used at all, and which is taken when nobody says.

The plain default (`WAREHOUSE/namespace.db/name`) is taken as long as it is empty. After a rename, or after a drop that
kept the files, it is not: a new table of the old name would share its folder with another table, and one's orphan
removal would take the other's files. Then the folder's name gets a unique ending.

PyIceberg reads a location as a URL and cuts it at `?` and `#`. Below a location with one of them, all files of a table
would be one and the same, and somebody else's at that. So no table gets such a location.
"""

import uuid
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from pyarrow.fs import FileSelector, FileType
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table import TableProperties

from tableformat.errors import PermanentError

_PATH_PROPERTIES = (
    TableProperties.WRITE_DATA_PATH,
    TableProperties.WRITE_METADATA_PATH,
    "write.folder-storage.path",
    "write.object-storage.path",
)

_CUT_AT = "?#"
_NOT_IN_A_FOLDERS_NAME = f"/\\{_CUT_AT}%"


class UnusableLocationError(PermanentError):
    """A table's files would not go where its location says."""


def refuse_cut_locations(locations: Iterable[str]) -> None:
    """Raises `UnusableLocationError` for those that file access does not take as they are."""
    for location in locations:
        if urlsplit(location).scheme and any(sign in location for sign in _CUT_AT):
            raise UnusableLocationError(
                f"{location} has a ? or #, which file access cuts locations at: the table's files would all go to one "
                "place that is not theirs. Give a location without these signs. Nothing was changed"
            )


def places_of(location: str, properties: Mapping[str, str]) -> tuple[str, ...]:
    """All places that a table has: its location, and where its properties send files to."""
    return location, *(properties[key] for key in _PATH_PROPERTIES if key in properties)


def folder_name(name: str) -> str:
    """A name as one folder of that name: with a percent sign and a number for what would make several of it, or none.

    Names as people give them stay as they are, and so Iceberg's Java catalogs choose the same folders.
    """
    if not name.strip("."):
        return "%2E" * len(name)
    return "".join(f"%{ord(sign):02X}" if sign in _NOT_IN_A_FOLDERS_NAME else sign for sign in name)


def free_location(io: FileIO, preferred: str) -> str:
    return f"{preferred}-{uuid.uuid4().hex}" if _has_files(io, preferred) else preferred


def _has_files(io: FileIO, location: str) -> bool:
    if not isinstance(io, PyArrowFileIO):
        return False  # another implementation, chosen by py-io-impl, cannot list
    scheme, netloc, path = io.parse_location(location, io.properties)
    storage = io.fs_by_scheme(scheme, netloc)
    # Nearly every table has files right below metadata/: one page of one request. With `write.metadata.path` none has.
    folders = [path, f"{path}/metadata"]
    while folders:
        for info in storage.get_file_info(FileSelector(folders.pop(), allow_not_found=True)):
            if info.type == FileType.File:
                return True
            folders.append(info.path)
    return False
