"""Finds a table's orphan files: lists its folders first, and reads its metadata second.

In that order, a file that is committed in between is found in the metadata; in the other, it would be taken for an
orphan. What is younger than the age guard may belong to a commit that is still to come, and is never looked at.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table
from pyiceberg.typedef import Identifier

from tableformat.locations import Place, comparable_folder, within
from tableformat.maintenance.errors import ListingIncomplete, PathsNotComparable, TooYoung
from tableformat.maintenance.guards import reading, require_deletable
from tableformat.maintenance.neighbours import require_not_shared
from tableformat.maintenance.orphans.folders import hidden_by_name, own_folders
from tableformat.maintenance.orphans.listing import Listed, NeededPaths, PackedPaths
from tableformat.maintenance.orphans.marks import MarkList
from tableformat.maintenance.orphans.options import SAFE_AGE_MS, OrphanAction, OrphanOptions, PrefixMismatch
from tableformat.maintenance.reachability import (
    FileKind,
    Known,
    Reachability,
    TableFile,
    key_of,
    metadata_files,
    statistics_files,
)
from tableformat.plurals import plural
from tableformat.storage import FileStore, StoredFile

ReadLivePaths = Callable[[Sequence[TableFile]], Iterator[PackedPaths]]
"""Reads manifests into the paths of the files that live in them, as `live_paths` does; in any place and portions."""


@dataclass(frozen=True)
class OrphanPlan:
    """The orphans that there are, as of one listing and the metadata after it."""

    table: str
    action: OrphanAction
    folders: tuple[str, ...]
    files_listed: int
    orphans: tuple[StoredFile, ...]
    going: tuple[StoredFile, ...]
    """Those of them that the action deletes, or would if it did more than report; the others are marked."""
    known: Known
    """What was read, and leads to none of them."""

    @property
    def is_empty(self) -> bool:
        return not self.orphans

    @property
    def bytes(self) -> int:
        return sum(file.size_bytes for file in self.orphans)

    @property
    def bytes_going(self) -> int:
        return sum(file.size_bytes for file in self.going)

    @property
    def marked(self) -> tuple[StoredFile, ...]:
        """Those that stay for now, with a mark."""
        going = set(self.going)
        return tuple(file for file in self.orphans if file not in going)

    def __str__(self) -> str:
        split = f": delete {len(self.going):,}, mark {len(self.orphans) - len(self.going):,} and keep them for now"
        return (
            f"orphan files of {self.table}: {len(self.orphans):,} of {plural(self.files_listed, 'file')} in "
            f"{', '.join(self.folders)}, {plural(self.bytes, 'byte')}; action {self.action}"
            f"{split if self.action is OrphanAction.MARK_THEN_DELETE else ''}"
        )


def plan_orphans(
    catalog: Catalog,
    identifier: Identifier,
    options: OrphanOptions,
    *,
    now: datetime,
    store: FileStore,
    read: ReadLivePaths | None = None,
) -> tuple[Table, OrphanPlan]:
    """The plan, and the table that it was made on. Raises where orphans cannot be told from files that are needed."""
    name = ".".join(identifier)
    if options.min_age_ms < SAFE_AGE_MS and not options.allow_short_min_age:
        raise TooYoung(
            f"table {name}: a minAge of {_hours(options.min_age_ms)} is less than a day, and may take what a writer is "
            "about to commit. Raise minAge, or set allowShortMinAge if nobody writes to the table"
        )
    before = catalog.load_table(identifier)
    require_deletable(before, now=now)
    folders = own_folders(before)
    listing = _list(before, folders, int(now.timestamp() * 1000) - options.min_age_ms, store)

    table = catalog.load_table(identifier)  # anew: the listing comes first
    _require_same_table(before, table, listing, folders)
    with reading(table):
        needed, manifests = needed_paths(table, read or _read_here(table))
    orphans = _orphans(name, listing.old, needed, options)
    if orphans:  # most often there are none, and then nobody's files can be taken for them
        require_not_shared(table, catalog)
    return table, OrphanPlan(
        table=name,
        action=options.action,
        folders=folders,
        files_listed=listing.count,
        orphans=orphans,
        going=_going(table, orphans, options, store, int(now.timestamp() * 1000)),
        known=Known(frozenset(s.snapshot_id for s in table.metadata.snapshots), manifests),
    )


def _going(
    table: Table, orphans: tuple[StoredFile, ...], options: OrphanOptions, store: FileStore, now_ms: int
) -> tuple[StoredFile, ...]:
    if options.action is not OrphanAction.MARK_THEN_DELETE or not orphans:
        return orphans
    return tuple(MarkList(table, store).read().due(orphans, now_ms=now_ms, grace_ms=options.grace_ms))


def _hours(milliseconds: int) -> str:
    return f"{milliseconds / 3_600_000:g} hours"


def needed_paths(table: Table, read: ReadLivePaths) -> tuple[NeededPaths, frozenset[str]]:
    """All that the table needs, and the keys of its manifests."""
    metadata, needed = table.metadata, NeededPaths()
    manifests = Reachability(".".join(table.name()), table.io).manifests(metadata.snapshots)
    for location in (table.metadata_location, *(entry.metadata_file for entry in metadata.metadata_log)):
        needed.add(location)
    for file in (*manifests.values(), *statistics_files(metadata)):
        needed.add(file.location)
    needed.add(f"{metadata.location}/metadata/version-hint.text")
    for packed in read([file for file in manifests.values() if file.kind is FileKind.MANIFEST]):
        needed.extend(packed)
    return needed, frozenset(manifests)


def live_paths(reader: Reachability, manifests: Sequence[TableFile]) -> Iterator[PackedPaths]:
    """Of the files that live in each of the manifests, packed as `NeededPaths` takes them."""
    for files in reader.live_files(manifests):
        needed = NeededPaths()
        for file in files:
            needed.add(file.location)
        yield needed.packed()


def _read_here(table: Table) -> ReadLivePaths:
    reader = Reachability(".".join(table.name()), table.io)
    return lambda manifests: live_paths(reader, manifests)


@dataclass
class _Listing:
    count: int
    old: Listed
    saw_metadata: bool


def _list(table: Table, folders: tuple[str, ...], modified_before_ms: int, store: FileStore) -> _Listing:
    listing = _Listing(0, Listed(), saw_metadata=False)
    current, hidden = key_of(table.metadata_location), hidden_by_name(table.metadata)
    for folder in folders:
        own_store = Place.of(folder).store
        prefix = comparable_folder(folder) + "/"
        for file in store.files(folder):
            listing.count += 1
            place = Place.of(file.location)
            path, its_store = place.comparable_path, place.store
            listing.saw_metadata |= path == current
            # What a store lists outside the folder that it was asked for is not the table's.
            inside = its_store == own_store and path.startswith(prefix)
            if inside and file.modified_ms < modified_before_ms and not hidden(path[len(prefix) :]):
                listing.old.add(file, path, its_store)
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


def _orphans(name: str, listed: Listed, needed: NeededPaths, options: OrphanOptions) -> tuple[StoredFile, ...]:
    has_path, has_place = needed.of(listed)
    elsewhere = has_path & ~has_place
    if elsewhere.any() and options.prefix_mismatch is PrefixMismatch.REFUSE:
        first = min(listed.where(elsewhere), key=lambda file: file.location)
        raise PathsNotComparable(
            f"table {name}: {first.location} has the path of a file that the table needs in another store (it has "
            f"files in {', '.join(sorted(needed.stores))}); nothing was deleted. Say whether they are one store "
            "(prefixMismatch: Keep) or two (prefixMismatch: Delete)"
        )
    orphans = ~has_place if options.prefix_mismatch is PrefixMismatch.DELETE else ~has_path
    return tuple(sorted(listed.where(orphans), key=lambda file: file.location))
