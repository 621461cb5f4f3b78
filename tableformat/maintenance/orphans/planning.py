"""Finds a table's orphan files: lists its folders first, and reads its metadata second.

In that order, a file that is committed in between is found in the metadata; in the other, it would be taken for an
orphan. What is younger than the age guard may belong to a commit that is still to come, and is never looked at.
"""

from dataclasses import dataclass
from datetime import datetime

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table
from pyiceberg.typedef import Identifier

from tableformat.maintenance.errors import ListingIncomplete, PathsNotComparable, TooYoung
from tableformat.maintenance.guards import reading, require_deletable
from tableformat.maintenance.orphans.folders import hidden_by_name, own_folders
from tableformat.maintenance.orphans.options import SAFE_AGE_MS, OrphanAction, OrphanOptions, PrefixMismatch
from tableformat.maintenance.reachability import ANY_STORE, Known, Reachability, key_of, metadata_files
from tableformat.maintenance.storage import FileStore, Place, StoredFile, within


@dataclass(frozen=True)
class OrphanPlan:
    """The orphans that there are, as of one listing and the metadata after it."""

    table: str
    action: OrphanAction
    folders: tuple[str, ...]
    files_listed: int
    orphans: tuple[StoredFile, ...]
    known: Known
    """What was read, and leads to none of them."""

    @property
    def is_empty(self) -> bool:
        return not self.orphans

    @property
    def bytes(self) -> int:
        return sum(file.size_bytes for file in self.orphans)

    def __str__(self) -> str:
        return (
            f"orphan files of {self.table}: {len(self.orphans)} of {self.files_listed} files in "
            f"{', '.join(self.folders)}, {self.bytes} bytes; action {self.action}"
        )


def plan_orphans(
    catalog: Catalog, identifier: Identifier, options: OrphanOptions, *, now: datetime, store: FileStore
) -> tuple[Table, OrphanPlan]:
    """The plan, and the table that it was made on. Raises where orphans cannot be told from files that are needed."""
    name = ".".join(identifier)
    if options.min_age_ms < SAFE_AGE_MS and not options.allow_young:
        raise TooYoung(
            f"table {name}: an age guard of {options.min_age_ms} ms is less than a day, and may take what a writer "
            "is about to commit. Raise min_age, or allow it for a table that nobody writes to"
        )
    before = catalog.load_table(identifier)
    require_deletable(before, now=now)
    folders = own_folders(before, catalog)
    listing = _list(before, folders, int(now.timestamp() * 1000) - options.min_age_ms, store)

    table = catalog.load_table(identifier)  # anew: the listing comes first
    _require_same_table(before, table, listing, folders)
    with reading(table):
        alive = Reachability(name, table.io).everything(table.metadata, table.metadata_location)
    alive[key_of(f"{table.metadata.location}/metadata/version-hint.text")] = ANY_STORE
    return table, OrphanPlan(
        table=name,
        action=options.action,
        folders=folders,
        files_listed=listing.count,
        orphans=tuple(file for file in listing.old if _is_orphan(name, file, alive, options)),
        known=Known(frozenset(s.snapshot_id for s in table.metadata.snapshots), frozenset(alive)),
    )


@dataclass
class _Listing:
    count: int
    old: list[StoredFile]
    saw_metadata: bool


def _list(table: Table, folders: tuple[str, ...], modified_before_ms: int, store: FileStore) -> _Listing:
    listing = _Listing(0, [], saw_metadata=False)
    current, hidden = key_of(table.metadata_location), hidden_by_name(table.metadata)
    for folder in folders:
        root = Place.of(folder)
        prefix = root.comparable_path + "/"
        for file in store.files(folder):
            listing.count += 1
            place = Place.of(file.location)
            path = place.comparable_path
            listing.saw_metadata |= path == current
            # What a store lists outside the folder that it was asked for is not the table's.
            inside = place.store == root.store and path.startswith(prefix)
            if inside and file.modified_ms < modified_before_ms and not hidden(path[len(prefix) :]):
                listing.old.append(file)
    listing.old.sort(key=lambda file: file.location)
    return listing


def _require_same_table(before: Table, after: Table, listing: _Listing, folders: tuple[str, ...]) -> None:
    name = ".".join(before.name())
    if before.metadata.table_uuid != after.metadata.table_uuid:
        raise ListingIncomplete(f"table {name} was replaced by another while it was listed; nothing was deleted")
    is_inside = any(within(before.metadata_location, folder) for folder in folders)
    still_named = key_of(before.metadata_location) in metadata_files(after.metadata, after.metadata_location)
    if is_inside and still_named and not listing.saw_metadata:
        raise ListingIncomplete(
            f"table {name}: its own metadata {before.metadata_location} is not in the listing of {', '.join(folders)}; "
            "a listing that lacks what is there says nothing; nothing was deleted. Run again"
        )


def _is_orphan(name: str, file: StoredFile, alive: dict[str, str], options: OrphanOptions) -> bool:
    place = Place.of(file.location)
    store = alive.get(place.comparable_path)
    if store is None:
        return True
    if store in (place.store, ANY_STORE) or options.prefix_mismatch is PrefixMismatch.KEEP:
        return False
    if options.prefix_mismatch is PrefixMismatch.DELETE:
        return True
    raise PathsNotComparable(
        f"table {name}: {file.location} has the path of a file that the table needs in {store}; nothing was deleted. "
        "Say whether they are one (prefix_mismatch Keep) or two (Delete)"
    )
