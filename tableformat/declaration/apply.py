"""Bringing a table to what is declared: created, altered in one commit, or left exactly as it is, with the reasons.

Safe to repeat at any time and from several places at once: everything is computed from the table as it is found, a
commit carries the requirements of the state that it was computed for, and a lost race begins anew. A table that is
already as declared is not touched. A table that this declaration has never known (no uuid is recorded for it) is not
altered before its uuid was recorded, and one that has another uuid than recorded is never altered.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from pyiceberg.catalog import Catalog, MetastoreCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.schema import Schema
from pyiceberg.table import Table, TableProperties
from pyiceberg.typedef import Identifier

from tableformat.catalogs.format_v3 import create_table_v3
from tableformat.catalogs.locations import places_of
from tableformat.catalogs.pointer_catalog import PointerCatalog
from tableformat.declaration.changes import Change
from tableformat.declaration.columns import walk
from tableformat.declaration.difference import Difference, difference, new_table
from tableformat.declaration.locations import TableLocation, overlapping_table
from tableformat.declaration.refusals import Refusal, RefusalKind
from tableformat.declaration.table import ManagementMode, TableDeclaration
from tableformat.errors import TransientError

ATTEMPTS = 10
"""How often a lost race is begun anew. Writers of rows do not conflict with us; only others who alter the table do."""


class TableContendedError(TransientError):
    """Others kept altering the table while the declaration was applied."""


@dataclass(frozen=True)
class Drift:
    """One field of the declaration that the table does not follow though it did, or that it is not ours to change."""

    field: str
    declared: str | None
    found: str | None
    repaired: bool


@dataclass(frozen=True)
class Applied:
    """What was done. `pending` is what will be changed once the caller has recorded the table's uuid and comes back."""

    table: Table | None
    created: bool = False
    changes: tuple[Change, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    drift: tuple[Drift, ...] = ()
    pending: tuple[Change, ...] = ()

    @property
    def in_sync(self) -> bool:
        """Whether the table is now as declared."""
        return not self.refusals and not self.pending and all(drift.repaired for drift in self.drift)


# A place of another table that overlaps any of those that the table of this identifier would have.
Overlapping = Callable[[Catalog, Identifier, tuple[str, ...]], TableLocation | None]


def apply_declaration(
    catalog: Catalog,
    declaration: TableDeclaration,
    *,
    mode: ManagementMode,
    known_uuid: UUID | None,
    previously_declared_properties: frozenset[str] = frozenset(),
    declaration_in_force: bool = False,
    overlapping: Overlapping = overlapping_table,
    pause: Callable[[float], None] = time.sleep,
) -> Applied:
    """Makes the table as declared, as far as the mode allows and nothing is lost.

    `known_uuid` is what was recorded when the table was created or first seen; None if nothing was. With
    `declaration_in_force` the caller knows that this very declaration was applied before, so that whatever differs
    now was altered by somebody else. `overlapping` may answer from what the caller knows already.
    """
    lost: Exception | None = None
    for attempt in range(ATTEMPTS):
        if attempt:
            pause(min(2.0, 0.02 * 2**attempt))
        try:
            table = catalog.load_table(declaration.identifier)
        except NoSuchTableError:
            table = None
        try:
            if table is None:
                return _create(catalog, declaration, mode, known_uuid, overlapping)
            found = difference(
                declaration, table.metadata, previously_declared_properties=previously_declared_properties
            )
            return _bring_to(catalog, table, found, mode, known_uuid, declaration_in_force)
        except (TableAlreadyExistsError, CommitFailedException, CommitStateUnknownException) as error:
            lost = error  # whatever came of it, the table itself says so: it is loaded and compared anew
    message = f"table {declaration.name} was altered by others {ATTEMPTS} times in a row; it is tried again later"
    raise TableContendedError(message) from lost


def _create(
    catalog: Catalog,
    declaration: TableDeclaration,
    mode: ManagementMode,
    known_uuid: UUID | None,
    overlapping: Overlapping,
) -> Applied:
    if known_uuid is not None:
        reason = f"the table {known_uuid} was dropped by somebody else, or moved to another name"
        remedy = "Restore it, or forget the recorded uuid to let a new and empty table be created"
        return Applied(None, refusals=(Refusal(RefusalKind.TABLE_MISSING, "identifier", reason, remedy),))
    if mode != ManagementMode.FULL:
        reason = f"there is no such table, and with managementPolicy: {mode} it is not created"
        remedy = "Create it with the engine that owns it, correct the identifier, or declare managementPolicy: Full"
        return Applied(None, refusals=(Refusal(RefusalKind.TABLE_MISSING, "identifier", reason, remedy),))
    plan = difference(declaration, None)
    if plan.refusals:
        return Applied(None, refusals=plan.refusals)
    lost = _lost_defaults(catalog, declaration)
    if lost is not None:
        return Applied(None, refusals=(lost,))
    location = _location(catalog, declaration)
    taken = _overlap(catalog, declaration, location, overlapping)
    if taken is not None:
        return Applied(None, refusals=(taken,))
    return Applied(_new_table(catalog, declaration, location), created=True, changes=plan.changes)


def creation_refusals(catalog: Catalog, declaration: TableDeclaration) -> tuple[Refusal, ...]:
    """Why the table would not be created in this catalog, beside what the declaration itself says; writes nothing.

    Of a location that the catalog chooses nothing is told: some choose it when they create the table.
    """
    location = None if declaration.location is None else declaration.location.rstrip("/")
    found = _lost_defaults(catalog, declaration), _overlap(catalog, declaration, location, overlapping_table)
    return tuple(refusal for refusal in found if refusal is not None)


def _lost_defaults(catalog: Catalog, declaration: TableDeclaration) -> Refusal | None:
    if isinstance(catalog, MetastoreCatalog) or not any(field.has_default for field in walk(declaration.fields)):
        return None
    reason = "PyIceberg loses a column's default when it asks the server of a catalog to create a table"
    remedy = "Create the table with another engine, and declare it then"
    return Refusal(RefusalKind.UNSUPPORTED, "schema.columns", reason, remedy)


def _new_table(catalog: Catalog, declaration: TableDeclaration, location: str | None) -> Table:
    parts = new_table(declaration)
    if declaration.location is None and isinstance(catalog, PointerCatalog):
        location = None  # what was compared may have been taken since: the catalog looks when it writes
    if parts.format_version == 3 and isinstance(catalog, MetastoreCatalog):
        return create_table_v3(
            catalog,
            declaration.identifier,
            schema=parts.schema,
            location=location,
            partition_spec=parts.spec,
            sort_order=parts.sort_order,
            properties=parts.properties,
        )
    return catalog.create_table(
        declaration.identifier,
        schema=parts.schema,
        location=location,
        partition_spec=parts.spec,
        sort_order=parts.sort_order,
        properties={**parts.properties, TableProperties.FORMAT_VERSION: str(parts.format_version)},
    )


def _location(catalog: Catalog, declaration: TableDeclaration) -> str | None:
    """The new table's location, in a namespace that is there; None where only the catalog's server knows it."""
    if declaration.location is None and isinstance(catalog, PointerCatalog):
        try:
            return catalog.new_location(declaration.identifier)
        except NoSuchNamespaceError:  # the first table in it
            pass
    catalog.create_namespace_if_not_exists(declaration.identifier[:-1])
    if declaration.location is not None:
        return declaration.location.rstrip("/")
    if isinstance(catalog, PointerCatalog):
        return catalog.new_location(declaration.identifier)
    if isinstance(catalog, MetastoreCatalog):
        # How every such catalog chooses a location when it creates a table; here it is needed before, to compare it.
        return catalog._create_staged_table(declaration.identifier, Schema(), properties={}).location()
    return None


def _overlap(
    catalog: Catalog, declaration: TableDeclaration, location: str | None, overlapping: Overlapping
) -> Refusal | None:
    if location is None:
        return None
    taken = overlapping(catalog, declaration.identifier, places_of(location, dict(declaration.properties)))
    if taken is None:
        return None
    return Refusal(
        RefusalKind.LOCATION_OVERLAP,
        "location",
        f"{location} overlaps {taken.location}, which belongs to the table {'.'.join(taken.identifier)}",
        "Declare a location of the table's own: maintenance of one table would delete the other's files",
        declared=location,
        found=taken.location,
    )


def _bring_to(
    catalog: Catalog,
    table: Table,
    found: Difference,
    mode: ManagementMode,
    known_uuid: UUID | None,
    declaration_in_force: bool,
) -> Applied:
    uuid = table.metadata.table_uuid
    if known_uuid is not None and uuid != known_uuid:
        refusal = Refusal(
            RefusalKind.TABLE_REPLACED,
            "identifier",
            "somebody dropped the table and created another under its name, which is not silently taken for it",
            "Restore the table, or forget the recorded uuid to adopt the one that is there",
            declared=str(known_uuid),
            found=str(uuid),
        )
        return Applied(table, refusals=(refusal,))
    if mode != ManagementMode.FULL:
        return Applied(table, drift=_drift(found, repaired=False))
    drifted = declaration_in_force and known_uuid is not None
    if found.refusals:
        return Applied(table, refusals=found.refusals, drift=_drift(found, repaired=False) if drifted else ())
    if not found.updates:
        return Applied(table)
    if known_uuid is None:
        return Applied(table, pending=found.changes)
    altered = _commit(catalog, table, found)
    return Applied(altered, changes=found.changes, drift=_drift(found, repaired=True) if drifted else ())


def _commit(catalog: Catalog, table: Table, found: Difference) -> Table:
    try:
        answer = catalog.commit_table(table, found.requirements, found.updates)
    except KeyError as error:  # no requirement speaks of properties: PyIceberg fails to remove one that is gone by now
        raise CommitFailedException(f"Property {error} was removed by somebody else") from error
    return Table(table.name(), answer.metadata, answer.metadata_location, table.io, catalog)


def _drift(found: Difference, *, repaired: bool) -> tuple[Drift, ...]:
    changes = tuple(Drift(change.field, change.after, change.before, repaired) for change in found.changes)
    refused = tuple(
        Drift(refusal.field, refusal.declared, refusal.found, repaired=False)
        for refusal in found.refusals
        if all(refusal.field != change.field for change in found.changes)
    )
    return changes + refused
