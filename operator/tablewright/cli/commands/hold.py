"""`tablewright hold`: named states of a table that outlive expiry until a date."""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tablewright.cli import options
from tablewright.cli.once import OnceEach
from tablewright.cli.output import Column, OutputFormat

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata

    from tableformat.maintenance.holds import Hold
    from tablewright.cli.catalogs import AddressedTable

app = typer.Typer(
    no_args_is_help=True,
    help="Keep a table as it was at a time, whatever expiry would do, until a date.\n\n"
    "Example: tablewright hold list sales.payments --catalog lake",
)
_TIME = "%Y-%m-%dT%H:%M:%SZ"
HoldName = Annotated[str, typer.Argument(metavar="NAME", help="The hold's name, such as audit-2026q3.")]


@app.command("list", cls=OnceEach)
def list_holds(
    table: options.TableName,
    catalog: options.CatalogName = None,
    catalog_uri: options.CatalogUri = None,
    properties: options.Properties = None,
    folders: options.Folders = None,
    state: options.State = None,
    output: options.Output = OutputFormat.TABLE,
) -> None:
    """List a table's holds.

    Example: tablewright hold list sales.payments --catalog lake
    """
    from tablewright.cli.output import document_of, show

    found = _address(table, catalog, catalog_uri, properties, folders, state)
    metadata = found.load().metadata
    holds = _present(metadata)
    rows = [
        (hold.name, str(metadata.refs[hold.tag].snapshot_id), f"{hold.as_of:{_TIME}}", f"{hold.until:{_TIME}}")
        for hold in holds
    ]
    document = [document_of(hold) | {"snapshotId": str(metadata.refs[hold.tag].snapshot_id)} for hold in holds]
    show(output, (Column("NAME"), Column("SNAPSHOT"), Column("STATE OF"), Column("UNTIL")), rows, document)


@app.command(cls=OnceEach)
def place(
    table: options.TableName,
    name: HoldName,
    until: Annotated[str, typer.Option(help="When it ends, such as 2033-09-30T00:00:00Z.")],
    as_of: Annotated[str | None, typer.Option(help="The state of this time (default: the current one).")] = None,
    catalog: options.CatalogName = None,
    catalog_uri: options.CatalogUri = None,
    properties: options.Properties = None,
    folders: options.Folders = None,
    state: options.State = None,
) -> None:
    """Place a hold: the table's state of a time is kept until another. It never moves once it is placed.

    Example: tablewright hold place sales.payments audit-2026q3 --until 2033-09-30T00:00:00Z --catalog lake
    """
    from pydantic import ValidationError

    from tableformat.maintenance.holds import Hold, HoldRefused, place_hold
    from tablewright.cli.exits import InputError
    from tablewright.cli.output import echo
    from tablewright.cli.running import time_option

    now = datetime.now(UTC)
    end, start = time_option("until", until), now if as_of is None else time_option("as-of", as_of)
    if end <= now:
        raise InputError("--until is over already")
    if start > now:
        raise InputError("--as-of is still to come: declare the hold, or place it then")
    try:
        wanted = Hold(name=name, as_of=start, until=end)
    except ValidationError:
        raise InputError(f"{name!r} is no hold's name: use a-z, 0-9, - and .") from None
    found = _address(table, catalog, catalog_uri, properties, folders, state)
    _refuse_a_declared_one(name, found)
    try:
        held = place_hold(found.catalog, found.identifier, wanted, now=now)
    except HoldRefused as refused:
        raise InputError(str(refused)) from None
    echo(f"{found.name}: {name} holds snapshot {held} until {end:{_TIME}}")


@app.command(cls=OnceEach)
def release(
    table: options.TableName,
    name: HoldName,
    catalog: options.CatalogName = None,
    catalog_uri: options.CatalogUri = None,
    properties: options.Properties = None,
    folders: options.Folders = None,
    state: options.State = None,
) -> None:
    """Release a hold: expiry may take the snapshot then, if nothing else keeps it.

    Example: tablewright hold release sales.payments audit-2026q3 --catalog lake
    """
    from tableformat.maintenance.holds import release_hold
    from tablewright.api.admission.problems import did_you_mean
    from tablewright.cli.exits import InputError
    from tablewright.cli.output import echo

    found = _address(table, catalog, catalog_uri, properties, folders, state)
    _refuse_a_declared_one(name, found)
    if not release_hold(found.catalog, found.identifier, name, now=datetime.now(UTC)):
        names = [hold.name for hold in _present(found.load().metadata)]
        raise InputError(f"there is no hold {name!r}: {did_you_mean(name, names) if names else 'the table has none'}")
    echo(f"{found.name}: {name} is released")


def _refuse_a_declared_one(name: str, found: "AddressedTable") -> None:
    """What is declared is brought about by `apply`, which would undo whatever is done to it here."""
    from tablewright.cli.exits import InputError

    if found.policy is not None and any(hold.name == name for hold in found.policy.holds):
        raise InputError(f"the hold {name} is declared: change spec.retention.holds, and apply")


def _present(metadata: "TableMetadata") -> "list[Hold]":
    """The holds that the table has, by its tags. A tag of that name without an end is somebody else's."""
    from tableformat.maintenance.holds import Hold
    from tableformat.maintenance.holds.planning import PREFIX
    from tablewright.cli.exits import InputError

    made = {snapshot.snapshot_id: snapshot.timestamp_ms for snapshot in metadata.snapshots}
    holds = []
    for tag, ref in sorted(metadata.refs.items()):
        if not tag.startswith(PREFIX):
            continue
        if ref.max_ref_age_ms is None or ref.snapshot_id not in made:
            raise InputError(f"the tag {tag} has the name of a hold and no end: it is not ours; rename or remove it")
        since = datetime.fromtimestamp(made[ref.snapshot_id] / 1000, UTC)
        # Half a millisecond more, because the plan cuts times down to whole ones.
        until = since + timedelta(milliseconds=ref.max_ref_age_ms + 0.5)
        holds.append(Hold(name=tag.removeprefix(PREFIX), as_of=since, until=until))
    return holds


def _address(
    table: str, catalog: str | None, uri: str | None, properties: list[str] | None, folders: Any, state: Any
) -> "AddressedTable":
    from tablewright.cli.catalogs import AddressOptions, address

    return address(table, AddressOptions(catalog, uri, properties or (), folders or (), state))
