"""Small files of maintenance's own beside a table's metadata: what a later run must know after this one has died.

They lie in `_tablewright` below the table's metadata folder. Iceberg's own orphan removal passes over names that begin
with an underscore, and so does ours. No record is ever the reason for a deletion by itself: it says where to look.
"""

import json
import logging
import zlib
from collections.abc import Iterator

from pyiceberg.io import FileIO
from pyiceberg.table import Table

from tableformat.storage import FileStore

logger = logging.getLogger(__name__)

_FOLDER = "_tablewright"

Json = dict[str, object]


class Records:
    """The records of one kind, of one table."""

    def __init__(self, table: Table, kind: str, store: FileStore) -> None:
        self._io: FileIO = table.io
        self._store = store
        self.folder = f"{table.location_provider().metadata_path}/{_FOLDER}/{kind}"

    def write(self, name: str, content: Json) -> str:
        """Whole before this returns; a record that is cut short belongs to a run that died before it went on."""
        location = f"{self.folder}/{name}"
        data = zlib.compress(json.dumps(content, separators=(",", ":")).encode())
        with self._io.new_output(location).create(overwrite=True) as stream:
            stream.write(data)
        return location

    def read(self, location: str) -> Json | None:
        """The record, or nothing if there is none or it was cut short."""
        try:
            with self._io.new_input(location).open() as stream:
                content = json.loads(zlib.decompress(stream.read()))
        except FileNotFoundError:
            return None
        except (ValueError, zlib.error) as error:
            logger.warning("a record is broken and counts as absent: %s", error, extra={"path": location})
            return None
        return content if isinstance(content, dict) else None

    def locations(self) -> Iterator[tuple[str, int]]:
        """Where the records are, and when each was written (milliseconds, by the storage's clock)."""
        for file in sorted(self._store.files(self.folder), key=lambda file: (file.modified_ms, file.location)):
            yield file.location, file.modified_ms

    def remove(self, location: str) -> None:
        self._store.delete([location])
