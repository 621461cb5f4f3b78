"""Which orphans were found when: the list beside the metadata by which a file is deleted at its second finding only.

A mark is bound to the file as it was: one that was written anew under the same name starts its grace anew. A list that
is lost or broken makes every grace start anew; it never makes a file go.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from pyiceberg.table import Table

from tableformat.maintenance.records import Json, Records
from tableformat.storage import FileStore, StoredFile

_KIND = "orphans"
_NAME = "marked.json.z"


@dataclass(frozen=True)
class Marks:
    since_ms: dict[StoredFile, int]

    def due(self, files: Iterable[StoredFile], *, now_ms: int, grace_ms: int) -> list[StoredFile]:
        """Those of the files that were marked long enough ago."""
        return [file for file in files if file in self.since_ms and now_ms - self.since_ms[file] >= grace_ms]

    def carried_over(self, files: Iterable[StoredFile], *, now_ms: int) -> "Marks":
        """The marks of these files, from now for those that had none; what is not among them loses its mark."""
        return Marks({file: min(self.since_ms.get(file, now_ms), now_ms) for file in files})


class MarkList:
    def __init__(self, table: Table, store: FileStore) -> None:
        self._uuid: UUID = table.metadata.table_uuid
        self._records = Records(table, _KIND, store)
        self._location = f"{self._records.folder}/{_NAME}"

    def read(self) -> Marks:
        content = self._records.read(self._location) or {}
        marks = content.get("marks")
        if content.get("format") != 1 or content.get("table-uuid") != str(self._uuid) or not isinstance(marks, list):
            return Marks({})
        return Marks({StoredFile(location, size, modified): since for location, size, modified, since in marks})

    def write(self, marks: Marks) -> None:
        if not marks.since_ms:
            self._records.remove(self._location)
            return
        content: Json = {
            "format": 1,
            "table-uuid": str(self._uuid),
            "marks": [
                [file.location, file.size_bytes, file.modified_ms, since] for file, since in marks.since_ms.items()
            ],
        }
        self._records.write(_NAME, content)
