"""What a ConfigMap of the catalog says, read strictly: an object that somebody edited by hand gives a clear error.

A table's object holds its pointer, the previous pointer and the table's uuid. During a rename it also holds a mark,
`moved_to` on the old name and `moved_from` on the new one; the two carry the same move's id. `reserved` says that
the object only keeps the new name free and has no pointer of its own yet.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from uuid import UUID

from pyiceberg.typedef import Identifier

from tableformat.catalogs.outcomes import CorruptCatalogEntryError

IDENTIFIER = "identifier"
PROPERTIES = "properties"
CREATION = "creation"


@dataclass(frozen=True)
class Move:
    """One end of a rename: the name at the other end, and the id that both ends share."""

    other: Identifier
    id: str

    def to_json(self) -> str:
        return json.dumps({"identifier": list(self.other), "move": self.id})


@dataclass(frozen=True)
class TableRecord:
    identifier: Identifier
    table_uuid: UUID
    location: str = ""  # empty only while the name is reserved
    previous_location: str = ""
    moved_to: Move | None = None
    moved_from: Move | None = None

    @property
    def reserved(self) -> bool:
        return not self.location

    def pointing_to(self, location: str, *, previous: str, table_uuid: UUID) -> "TableRecord":
        return replace(self, location=location, previous_location=previous, table_uuid=table_uuid, moved_to=None)

    def to_data(self) -> dict[str, str]:
        data = {IDENTIFIER: json.dumps(list(self.identifier), ensure_ascii=False), "table_uuid": str(self.table_uuid)}
        if self.location:
            data["metadata_location"] = self.location
        else:
            data["reserved"] = "true"
        if self.previous_location:
            data["previous_metadata_location"] = self.previous_location
        if self.moved_to:
            data["moved_to"] = self.moved_to.to_json()
        if self.moved_from:
            data["moved_from"] = self.moved_from.to_json()
        return data


def parse_table(holder: str, data: Mapping[str, str], identifier: Identifier | None = None) -> TableRecord:
    """`holder` names the object in errors; `identifier` is the table that it was asked for."""
    record = TableRecord(
        identifier=parse_identifier(holder, data, identifier),
        table_uuid=_uuid(holder, data),
        location=data.get("metadata_location", ""),
        previous_location=data.get("previous_metadata_location", ""),
        moved_to=_move(holder, data, "moved_to"),
        moved_from=_move(holder, data, "moved_from"),
    )
    if record.reserved and data.get("reserved") != "true":
        raise _corrupt(holder, "has no metadata_location", "put back the location of the table's current metadata")
    return record


def parse_identifier(holder: str, data: Mapping[str, str], expected: Identifier | None = None) -> Identifier:
    found = _json(holder, data, IDENTIFIER)
    if not isinstance(found, list) or not found or not all(isinstance(part, str) for part in found):
        raise _corrupt(holder, f"has an {IDENTIFIER} that is not a list of names: {found!r}", "put the names back")
    if expected is not None and tuple(found) != expected:
        raise _corrupt(
            holder,
            f"belongs to {'.'.join(expected)} by its name, but its {IDENTIFIER} says {'.'.join(found)}",
            f"put back {json.dumps(list(expected), ensure_ascii=False)}",
        )
    return tuple(found)


def parse_properties(holder: str, data: Mapping[str, str]) -> dict[str, str]:
    found = _json(holder, data, PROPERTIES)
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise _corrupt(holder, f"has {PROPERTIES} that are not a map of strings", "put such a map there, {} at least")
    return found


def _uuid(holder: str, data: Mapping[str, str]) -> UUID:
    text = data.get("table_uuid")
    if text is None:
        raise _corrupt(holder, "has no table_uuid", "put back the table-uuid that the table's metadata has")
    try:
        return UUID(text)
    except ValueError:
        raise _corrupt(
            holder, f"has a table_uuid that is none: {text!r}", "put back the table-uuid that the table's metadata has"
        ) from None


def _move(holder: str, data: Mapping[str, str], key: str) -> Move | None:
    if key not in data:
        return None
    match _json(holder, data, key):
        case {"identifier": list() as other, "move": str() as move} if all(isinstance(part, str) for part in other):
            return Move(tuple(other), move)
    raise _corrupt(holder, f"has a mark {key} that cannot be read: {data[key]!r}", "remove it")


def _json(holder: str, data: Mapping[str, str], key: str) -> object:
    if key not in data:
        raise _corrupt(holder, f"has no {key}", "put it back, or delete the object if nothing needs it")
    try:
        value: object = json.loads(data[key])
        return value
    except ValueError:
        raise _corrupt(holder, f"has no JSON in {key}: {data[key]!r}", "correct it") from None


def _corrupt(holder: str, what: str, remedy: str) -> CorruptCatalogEntryError:
    return CorruptCatalogEntryError(f"{holder} {what}: {remedy}. Nothing was changed")
