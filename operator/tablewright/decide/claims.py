"""Two objects that claim one table: the older one has it, and the younger one says so."""

from collections.abc import Iterable

from tablewright.api.table import ManagedTable


def older_claim(table: ManagedTable, others: Iterable[ManagedTable]) -> ManagedTable | None:
    """The object that has the table instead of this one, if there is one."""
    rivals = [
        other
        for other in others
        if other.metadata.uid != table.metadata.uid
        and other.metadata.namespace == table.metadata.namespace
        and other.spec.catalog_ref == table.spec.catalog_ref
        and other.identifier == table.identifier
    ]
    oldest = min([table, *rivals], key=_age)
    return None if oldest is table else oldest


def _age(table: ManagedTable) -> tuple[bool, str, bool, str]:
    """The API server's times are whole seconds: of two of the same second, the one that has the table keeps it."""
    created = table.metadata.creation_timestamp
    return created is None, created.isoformat() if created else "", table.status.identity is None, table.metadata.uid
