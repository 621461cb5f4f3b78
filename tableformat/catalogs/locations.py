"""Where a table's files go: which locations can be used at all, and which is taken when nobody says.

The plain default (`WAREHOUSE/namespace.db/name`) is taken as long as it is empty. After a rename, or after a drop that
kept the files, it is not: a new table of the old name would share its folder with another table, and one's orphan
removal would take the other's files. Then the folder's name gets a unique ending.

Whether a folder is free can change before the table is published. So a new table's first metadata file is written into
the folder before the folder is looked at once more: of two creators, the one that looks later sees the other's file.

PyIceberg by itself and Iceberg's S3FileIO cut a location at `?` and `#`. Below a location with one of them, they would
write all files of a table to one place, and somebody else's at that. So no new table gets such a location; a table that
is there already, written by an engine that takes these signs as they are, can be registered and maintained.
"""

import uuid
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from pyarrow.fs import FileSelector, FileSystem, FileType
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table import StagedTable, TableProperties

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


class SharedLocationError(CommitFailedException):
    """A new table's folder has become another table's since it was chosen. Nothing was applied."""


class InChosenFolder(StagedTable):
    """A staged table in a folder that the catalog chose because it was empty, not one that somebody gave."""


def refuse_cut_locations(locations: Iterable[str]) -> None:
    """Raises `UnusableLocationError` for those that not every reader takes as they are."""
    for location in locations:
        if urlsplit(location).scheme and any(sign in location for sign in _CUT_AT):
            raise UnusableLocationError(
                f"{location} has a ? or #, at which PyIceberg and Iceberg's S3FileIO cut locations: they would write "
                "all files of the table to one place that is not theirs. Give a location without these signs. Nothing "
                "was changed"
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


def free_location(io: FileIO, preferred: str, properties: Mapping[str, str]) -> str:
    # A table whose metadata is elsewhere leaves no trace in its folder before its first data file.
    if TableProperties.WRITE_METADATA_PATH in properties or _has_files(io, preferred):
        return unique_location(preferred)
    return preferred


def unique_location(preferred: str) -> str:
    return f"{preferred}-{uuid.uuid4().hex}"


def refuse_shared_location(staged: StagedTable) -> None:
    """Raises `SharedLocationError` if the folder has other metadata than the staged table's, which is written."""
    if not isinstance(staged.io, PyArrowFileIO):
        return
    storage, path = _open(staged.io, staged.location())
    own = staged.metadata_location.rpartition("/")[2]
    for info in storage.get_file_info(FileSelector(f"{path}/metadata", allow_not_found=True)):
        if ".metadata.json" in info.base_name and info.base_name != own:
            raise SharedLocationError(
                f"Table {'.'.join(staged.name())}: its location {staged.location()} has the metadata of another table "
                f"({info.base_name}), which was created there meanwhile. Each would delete the other's files. Nothing "
                "was applied: create the table again, it then gets a location of its own"
            )


def _open(io: PyArrowFileIO, location: str) -> tuple[FileSystem, str]:
    scheme, netloc, path = io.parse_location(location, io.properties)
    return io.fs_by_scheme(scheme, netloc), path


def _has_files(io: FileIO, location: str) -> bool:
    if not isinstance(io, PyArrowFileIO):
        return False  # another implementation, chosen by py-io-impl, cannot list
    storage, path = _open(io, location)
    # Nearly every table has files right below metadata/: one page of one request. With `write.metadata.path` none has.
    folders = [path, f"{path}/metadata"]
    while folders:
        for info in storage.get_file_info(FileSelector(folders.pop(), allow_not_found=True)):
            if info.type == FileType.File:
                return True
            folders.append(info.path)
    return False
