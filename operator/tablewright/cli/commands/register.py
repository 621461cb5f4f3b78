"""`tablewright register`: a table whose pointer was lost, back in its catalog. Its files are all that is needed."""

import re
from typing import TYPE_CHECKING, Annotated

import typer

from tableformat.plurals import plural
from tablewright.cli import options

if TYPE_CHECKING:
    from pyiceberg.table import StaticTable

    from tablewright.cli.catalogs import AddressedTable

_ENDING = ".metadata.json"


def register(
    table: options.TableName,
    metadata: Annotated[
        str, typer.Argument(metavar="METADATA", help="Its metadata file: status.identity.metadataLocation, for one.")
    ],
    catalog: options.CatalogName = None,
    catalog_uri: options.CatalogUri = None,
    properties: options.Properties = None,
    folders: options.Folders = None,
    state: options.State = None,
) -> None:
    """Put a table into a catalog, from its metadata file: one that was dropped with its files left, or restored.

    Only the pointer is written. A name that has a table is refused, and so is a table that the catalog has under
    another name: each name would delete what the other needs.

    Example: tablewright register sales.payments s3://lake/payments/metadata/00042-x.metadata.json --catalog lake
    """
    from tablewright.cli.catalogs import AddressOptions, place
    from tablewright.cli.output import echo, tell

    found = place(table, AddressOptions(catalog, catalog_uri, properties or (), folders or (), state))
    _refuse_a_taken_name(found)
    known = _read(found, metadata)
    _refuse_a_second_name(found, known)
    newer = _newest_beside(known)
    if newer is not None:
        tell(f"note: {newer} is newer; it is what you want, unless its commit failed")
    found.catalog.create_namespace_if_not_exists(found.identifier[:-1])
    found.catalog.register_table(found.identifier, metadata)
    snapshots = plural(len(known.metadata.snapshots), "snapshot")
    echo(f"{found.name} is registered: table {known.metadata.table_uuid}, with {snapshots}")


def _refuse_a_taken_name(found: "AddressedTable") -> None:
    from tablewright.cli.exits import InputError

    if found.catalog.table_exists(found.identifier):
        location = found.load().metadata_location
        raise InputError(f"the catalog has a table {found.name}, at {location}: nothing was changed")


def _read(found: "AddressedTable", location: str) -> "StaticTable":
    from pyiceberg.exceptions import ValidationError
    from pyiceberg.table import StaticTable

    from tablewright.cli.exits import InputError

    try:
        return StaticTable.from_metadata(location, dict(found.catalog.properties))
    except (ValidationError, ValueError) as error:  # a file that is not there has words of its own
        said = str(error).splitlines()[0]
        raise InputError(
            f"{location} is no metadata file of a table ({said}): name one that ends in {_ENDING}"
        ) from None


def _refuse_a_second_name(found: "AddressedTable", known: "StaticTable") -> None:
    from tableformat.maintenance.neighbours import other_name
    from tablewright.cli.exits import InputError

    other = other_name(found.catalog, found.identifier, known.metadata_location, known.metadata)
    if other is not None:
        raise InputError(
            f"the catalog has this table as {'.'.join(other.identifier)}, at {other.location}: rename that one, or "
            "drop it without its files; nothing was changed"
        )


def _newest_beside(known: "StaticTable") -> str | None:
    """A metadata file in the same folder that comes later by its name."""
    from tableformat.storage import open_store

    folder, _, name = known.metadata_location.rpartition("/")
    beside = [each.location for each in open_store(known.io).files(folder) if each.location.endswith(_ENDING)]
    newest = max(beside, key=_version, default=name)
    return newest if _version(newest) > _version(name) else None


def _version(location: str) -> int:
    """Of 00042-….metadata.json, as catalogs name them, and of v42.metadata.json, as folders without one do."""
    found = re.match(r"v?(\d+)[-.]", location.rpartition("/")[2])
    return int(found[1]) if found else -1
