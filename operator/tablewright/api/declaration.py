"""A ManagedTable as the table library's declaration: the one place where the two vocabularies meet."""

from collections.abc import Callable
from typing import TypeVar

from tableformat.declaration import (
    Column,
    InvalidDeclarationError,
    InvalidTypeError,
    PartitionColumn,
    Refusal,
    RefusalKind,
    RemovedColumns,
    SortColumn,
    TableDeclaration,
    parse_partition_transform,
    parse_type,
)
from tablewright.api.policy import Order, OrderStrategy
from tablewright.api.table import ManagedTable, ManagedTableSpec, TableSchema

TARGET_FILE_SIZE = "write.target-file-size-bytes"

Parsed = TypeVar("Parsed")


def declaration_of(table: ManagedTable) -> TableDeclaration:
    """Raises `InvalidDeclarationError` with every problem that can be seen without the table itself."""
    spec, problems = table.spec, list[Refusal]()

    def read(where: str, parse: Callable[[str], Parsed], text: str, otherwise: str) -> Parsed:
        try:
            return parse(text)
        except InvalidTypeError as error:
            problems.append(Refusal(RefusalKind.INVALID_DECLARATION, where, str(error), "Correct it"))
            return parse(otherwise)

    schema = spec.table_schema or TableSchema.model_construct(columns=())
    columns = tuple(
        Column(
            name=column.name,
            type=read(f"schema.columns[{column.name}].type", parse_type, column.type, "string"),
            required=column.required,
            doc=column.doc,
            previous_names=column.previous_names,
        )
        for column in schema.columns
    )
    partitioning = tuple(
        PartitionColumn(
            field.column,
            read(f"partitioning[{field.column}].transform", parse_partition_transform, field.transform, "identity"),
            field.name,
        )
        for field in spec.partitioning or ()
    )
    if problems:
        raise InvalidDeclarationError(problems)
    return TableDeclaration(
        identifier=table.identifier,
        columns=columns,
        identifier_columns=schema.identifier_columns,
        removed_columns=RemovedColumns(schema.removed_columns),
        partitioning=None if spec.partitioning is None else partitioning,
        sort_order=_sort_order(spec.layout.order),
        format_version=spec.format_version,
        properties=_properties(spec),
    )


def _sort_order(order: Order) -> tuple[SortColumn, ...] | None:
    """A sort is the table's own order, so that writers keep it too; a z-order is only compaction's business."""
    if order.strategy is not OrderStrategy.SORT:
        return None
    return tuple(SortColumn(column) for column in order.columns)


def _properties(spec: ManagedTableSpec) -> dict[str, str]:
    """A property that is declared in its own words wins over the field that stands for it."""
    target = spec.layout.target_file_size
    from_fields = {} if target is None else {TARGET_FILE_SIZE: str(target)}
    return {**from_fields, **spec.properties}
