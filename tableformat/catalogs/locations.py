"""Where a new table goes when nobody says where: a folder that no other table's files are in.

The plain default (`WAREHOUSE/namespace.db/name`) is taken as long as it is empty. After a rename, or after a drop that
kept the files, it is not: a new table of the old name would share its folder with another table, and one's orphan
removal would take the other's files. Then the folder's name gets a unique ending.
"""

import uuid

from pyarrow.fs import FileSelector, FileType
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import PyArrowFileIO


def free_location(io: FileIO, preferred: str) -> str:
    return f"{preferred}-{uuid.uuid4().hex}" if _has_files(io, preferred) else preferred


def _has_files(io: FileIO, location: str) -> bool:
    if not isinstance(io, PyArrowFileIO):
        return False  # another implementation, chosen by py-io-impl, cannot list
    scheme, netloc, path = io.parse_location(location, io.properties)
    # Every Iceberg table has files right below metadata/; a look at that folder is one page of one request.
    selector = FileSelector(f"{path}/metadata", allow_not_found=True)
    return any(info.type == FileType.File for info in io.fs_by_scheme(scheme, netloc).get_file_info(selector))
