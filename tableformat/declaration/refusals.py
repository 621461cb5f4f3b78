"""Why a table is not, or will not be, as declared: one value for each reason, with the field and the remedy.

The same value serves a declaration that contradicts itself and one that the table cannot follow without losing data,
because both end before the same person, who needs to know which line to change and to what.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from tableformat.errors import PermanentError


class RefusalKind(StrEnum):
    """What sort of obstacle it is, for programs; people read the reason."""

    INVALID_DECLARATION = "InvalidDeclaration"
    TABLE_MISSING = "TableMissing"
    TABLE_REPLACED = "TableReplaced"
    LOCATION_OVERLAP = "LocationOverlap"
    IMMUTABLE_FIELD = "ImmutableField"
    FORMAT_DOWNGRADE = "FormatDowngrade"
    FORMAT_TOO_OLD = "FormatTooOld"
    REMOVED_COLUMN = "RemovedColumn"
    COLUMN_IN_USE = "ColumnInUse"
    AMBIGUOUS_NAME = "AmbiguousName"
    TYPE_CHANGE = "TypeChange"
    REQUIRED_COLUMN = "RequiredColumn"
    MAP_KEY = "MapKey"
    PARTITION_NAME = "PartitionName"
    UNSUPPORTED = "Unsupported"


@dataclass(frozen=True)
class Refusal:
    """`field` is named as in the declaration, for example `schema.columns[city].type`.

    `declared` and `found` are what the declaration and the table say of that field, where both say something short.
    """

    kind: RefusalKind
    field: str
    reason: str
    remedy: str
    declared: str | None = None
    found: str | None = None
    nth: int = 0
    """Which of the entries that have this name, where several have it."""

    def __str__(self) -> str:
        return f"{self.field}: {self.reason}. {self.remedy}{'' if self.remedy.endswith('?') else '.'}"


class InvalidDeclarationError(PermanentError):
    """The declaration contradicts itself or Iceberg's rules, whatever the table looks like."""

    def __init__(self, problems: Iterable[Refusal]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


def column_field(path: tuple[str, ...], attribute: str = "") -> str:
    """How the declaration's reader finds a column, or a field inside one: `schema.columns[items.element.sku].type`."""
    return f"schema.columns[{'.'.join(path)}]{'.' if attribute else ''}{attribute}"
