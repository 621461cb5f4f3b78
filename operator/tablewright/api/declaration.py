"""A ManagedTable as the table library's declaration: the one place where the two vocabularies meet."""

from pyiceberg.transforms import parse_transform
from tableformat.declaration import (
    Column,
    InvalidDeclarationError,
    InvalidTypeError,
    PartitionColumn,
    Refusal,
    RefusalKind,
    RemovedColumns,
    TableDeclaration,
    parse_type,
)

from tablewright.api import table as api

TARGET_FILE_SIZE = "write.target-file-size-bytes"


def declaration_of(table: api.ManagedTable) -> TableDeclaration:
    """Raises `InvalidDeclarationError` with every problem that can be seen without the table itself."""
    spec = table.spec
    return TableDeclaration(
        identifier=table.identifier,
        columns=_columns(spec.table_schema.columns),
        identifier_columns=spec.table_schema.identifier_columns,
        removed_columns=RemovedColumns(spec.table_schema.removed_columns),
        partitioning=tuple(
            PartitionColumn(field.column, parse_transform(field.transform), field.name) for field in spec.partitioning
        ),
        format_version=spec.format_version,
        # A property that is declared in its own words wins over the field that stands for it.
        properties={TARGET_FILE_SIZE: str(spec.layout.target_file_size), **spec.properties},
    )


def _columns(declared: tuple[api.Column, ...]) -> tuple[Column, ...]:
    columns, problems = [], []
    for column in declared:
        try:
            columns.append(
                Column(
                    name=column.name,
                    type=parse_type(column.type),
                    required=column.required,
                    doc=column.doc,
                    previous_names=column.previous_names,
                )
            )
        except InvalidTypeError as error:
            where = f"schema.columns[{column.name}].type"
            problems.append(Refusal(RefusalKind.INVALID_DECLARATION, where, str(error), "Use one of Iceberg's types"))
    if problems:
        raise InvalidDeclarationError(problems)
    return tuple(columns)
