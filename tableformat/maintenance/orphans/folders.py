"""The folders that belong to a table, and what in them is none of ours."""

from collections.abc import Callable

from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata

from tableformat.locations import Place, comparable_folder, within
from tableformat.maintenance.errors import SharedLocation
from tableformat.maintenance.neighbours import own_places


def own_folders(table: Table) -> tuple[str, ...]:
    """The table's location and its own paths for data and metadata, each folder once, however it is spelled."""
    name, places = ".".join(table.name()), own_places(table)
    for place in places:
        if is_whole_store(place):
            raise SharedLocation(
                f"table {name}: {place} is a whole bucket or file system, not a folder of the table's own; nothing was "
                "listed. Give the table a folder"
            )
    folders = {(Place.of(place).store, comparable_folder(place)): place for place in reversed(places)}
    return tuple(place for place in reversed(folders.values()) if not any(within(place, other) for other in places))


def is_whole_store(place: str) -> bool:
    return not Place.of(place).comparable_path


def hidden_by_name(metadata: TableMetadata) -> Callable[[str], bool]:
    """Whether a path, relative to the table's folder, is hidden: a name on the way begins with `_` or `.`.

    That is Iceberg's rule, and its exception: the folders of partitions by a column of such a name are not hidden.
    """
    partitions = tuple(
        f"{field.name}="
        for spec in metadata.partition_specs
        for field in spec.fields
        if field.name.startswith(("_", "."))
    )

    def hidden(path: str) -> bool:
        if "/_" not in path and "/." not in path and not path.startswith(("_", ".")):
            return False  # as nearly all are
        return any(name.startswith(("_", ".")) and not name.startswith(partitions) for name in path.split("/"))

    return hidden
