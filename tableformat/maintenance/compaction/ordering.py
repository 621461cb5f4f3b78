"""Which order a compaction gives to rows: the columns of its options, or the table's own sort order."""

from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.sorting import NullOrder, SortDirection, SortOrder

from tableformat.engine import RowOrder, SortColumn
from tableformat.engine.deletes import column_path
from tableformat.engine.transforms import is_known
from tableformat.errors import PermanentError
from tableformat.maintenance.compaction.options import CompactionOptions, OrderColumn, Strategy
from tableformat.maintenance.errors import UnsupportedTable
from tableformat.suggestions import nearest


class UnknownOrder(PermanentError):
    """The order that was asked for cannot be had of this table."""


def row_order(table: Table, options: CompactionOptions) -> RowOrder | None:
    """The order of new files, or none. Raises before anything is written if a column cannot be ordered by."""
    if options.strategy == Strategy.BIN_PACK:
        return None
    if options.order:
        columns = tuple(_column(table, column) for column in options.order)
        if options.strategy == Strategy.Z_ORDER:
            return RowOrder(columns, z_order=True)
        # A declared order is named, and is the table's own: files say that they have it, and those without are sorted.
        is_own = columns == _columns(table.sort_order())
        return RowOrder(columns, sort_order_id=table.sort_order().order_id if is_own else None)
    return _of_table(table)


def why_not_ordered(schema: Schema, column: str) -> tuple[str, str] | None:
    """Why rows cannot be ordered by this column, and what to do; None if they can."""
    try:
        field = schema.find_field(column)
        column_path(schema, field.field_id)
    except ValueError:
        near = nearest(column, schema.column_names)
        remedy = f"Did you mean {near!r}?" if near else "Name a column of the table that is outside lists and maps"
        return f"there is no column {column!r} to order by", remedy
    if field.field_type.is_primitive:
        return None
    return f"column {column!r} is of type {field.field_type}", "Name a column of a primitive type"


def _column(table: Table, wanted: OrderColumn) -> SortColumn:
    why = why_not_ordered(table.schema(), wanted.name)
    if why is not None:
        raise UnknownOrder(f"table {'.'.join(table.name())}: order: {'. '.join(why)}")
    field = table.schema().find_field(wanted.name)
    nulls_first = (not wanted.descending) if wanted.nulls_first is None else wanted.nulls_first
    return SortColumn(field.field_id, wanted.descending, nulls_first)


def _of_table(table: Table) -> RowOrder:
    name, order = ".".join(table.name()), table.sort_order()
    if not order.fields:
        raise UnknownOrder(f"table {name} has no sort order: name the columns to order by")
    for field in order.fields:
        if not is_known(field.transform, table.schema().find_type(field.source_id)):
            raise UnsupportedTable(
                name,
                f"its sort order has the transform {field.transform}, which the kernel does not know",
                "Name the columns to order by",
            )
    return RowOrder(_columns(order), sort_order_id=order.order_id)


def _columns(order: SortOrder) -> tuple[SortColumn, ...]:
    return tuple(
        SortColumn(
            field.source_id,
            descending=field.direction == SortDirection.DESC,
            nulls_first=field.null_order == NullOrder.NULLS_FIRST,
            transform=field.transform,
        )
        for field in order.fields
    )
