"""Two objects that claim one table: the older one has it, and the younger one says so.

They may name the same catalog and identifier; or reach the same table through two catalogs, which its uuid tells.
"""

from collections.abc import Iterable

from tablewright.api.table import ManagedTable


def older_claim(table: ManagedTable, others: Iterable[ManagedTable]) -> ManagedTable | None:
    """The object that has the table instead of this one, if there is one."""
    rivals = [
        other
        for other in others
        if other.metadata.uid != table.metadata.uid and (_names_the_same(other, table) or _is_the_same(other, table))
    ]
    oldest = min([table, *rivals], key=_age)
    return None if oldest is table else oldest


def _names_the_same(one: ManagedTable, other: ManagedTable) -> bool:
    return (one.metadata.namespace, one.spec.catalog_ref, one.identifier) == (
        other.metadata.namespace,
        other.spec.catalog_ref,
        other.identifier,
    )


def _is_the_same(one: ManagedTable, other: ManagedTable) -> bool:
    found, known = one.status.identity, other.status.identity
    return found is not None and known is not None and found.uuid == known.uuid


def claimant(other: ManagedTable, *, seen_from: ManagedTable) -> str:
    """The other object, as people of the one's namespace would name it."""
    same = other.metadata.namespace == seen_from.metadata.namespace
    return other.metadata.name if same else "/".join(other.key)


def _age(table: ManagedTable) -> tuple[bool, str, bool, str]:
    """The API server's times are whole seconds: of two of the same second, the one that has the table keeps it."""
    created = table.metadata.creation_timestamp
    return created is None, created.isoformat() if created else "", table.status.identity is None, table.metadata.uid
