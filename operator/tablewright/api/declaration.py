"""A ManagedTable as the table library's declaration: the one place where the two vocabularies meet."""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from pyiceberg.table import TableProperties
from pyiceberg.types import (
    BooleanType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    StructType,
)

from tableformat.declaration import (
    Column,
    InvalidDeclarationError,
    InvalidTypeError,
    NestedAttributes,
    PartitionColumn,
    Refusal,
    RefusalKind,
    SortColumn,
    TableDeclaration,
    parse_partition_transform,
    parse_type,
)
from tableformat.declaration.columns import DefaultValue
from tablewright.api.policy import Order, OrderStrategy, WriteMode
from tablewright.api.table import Column as TableColumn
from tablewright.api.table import ManagedTable, ManagedTableSpec, ManagementPolicy, NestedField, TableSchema

TARGET_FILE_SIZE = "write.target-file-size-bytes"

_BOOLEANS = {"true": True, "false": False}
_WRITE_MODES = {WriteMode.COPY_ON_WRITE: "copy-on-write", WriteMode.MERGE_ON_READ: "merge-on-read"}
_WRITE_MODE_PROPERTIES = ("write.delete.mode", "write.update.mode", "write.merge.mode")

Parsed = TypeVar("Parsed")


def declaration_of(table: ManagedTable) -> TableDeclaration:
    """Raises `InvalidDeclarationError` with every problem that can be seen without the table itself."""
    spec, reader = table.spec, _Reader([])
    if spec.table_schema is None and spec.management_policy is ManagementPolicy.FULL:
        reason = "it is not said which columns the table has"
        remedy = "Declare them, or leave the table's definition to others with another managementPolicy"
        reader.refuse("schema", reason, remedy)
    schema = spec.table_schema or TableSchema.model_construct(columns=())
    seen = Counter[str]()
    columns = tuple(reader.column(column, seen) for column in schema.columns)
    partitioning = tuple(
        PartitionColumn(
            field.column,
            reader.read(
                f"partitioning[{field.column}].transform", parse_partition_transform, field.transform, "identity"
            ),
            field.name,
        )
        for field in spec.partitioning or ()
    )
    for problem in _contradictions(spec):
        reader.problems.append(problem)
    try:
        declaration = TableDeclaration(
            identifier=table.identifier,
            columns=columns,
            identifier_columns=schema.identifier_columns,
            removed_columns=frozenset(schema.removed_columns),
            partitioning=None if spec.partitioning is None else partitioning,
            sort_order=_sort_order(spec.layout.order),
            format_version=spec.format_version,
            properties=_properties(spec),
            location=spec.location,
        )
    except InvalidDeclarationError as error:
        found = [problem for problem in error.problems if not reader.is_about_unread(problem)]
        raise InvalidDeclarationError([*reader.problems, *found]) from None
    if reader.problems:
        raise InvalidDeclarationError(reader.problems)
    return declaration


@dataclass(frozen=True)
class _Reader:
    """Reads text into the library's values, and collects what cannot be read. Something else stands in for that: the
    rest can be judged all the same."""

    problems: list[Refusal]

    def is_about_unread(self, problem: Refusal) -> bool:
        """Whether it is about something that stands in for what could not be read, rather than about what was said."""
        read = (each.field for each in self.problems if not each.field.startswith("properties["))
        unread = {name for field in read for name in re.findall(r"\[([^\]]+)\]", field)}
        return any(f"[{name}]" in problem.field or repr(name) in problem.reason for name in unread)

    def refuse(self, where: str, reason: str, remedy: str, nth: int = 0) -> None:
        self.problems.append(Refusal(RefusalKind.INVALID_DECLARATION, where, reason, remedy, nth=nth))

    def read(self, where: str, parse: Callable[[str], Parsed], text: str, otherwise: str, nth: int = 0) -> Parsed:
        try:
            return parse(text)
        except InvalidTypeError as error:
            reason = f"{error.problem} (at character {error.position + 1} of {error.text!r})"
            self.refuse(where, reason, "Correct it", nth)
            return parse(otherwise)

    def column(self, column: TableColumn, seen: "Counter[str]") -> Column:
        where = f"schema.columns[{column.name}]"
        kind = self.read(f"{where}.type", parse_type, column.type, "string", seen[column.name])
        seen[column.name] += 1
        return Column(
            name=column.name,
            type=kind,
            required=column.required,
            doc=column.doc,
            previous_names=column.previous_names,
            initial_default=self._default(f"{where}.initialDefault", kind, column.initial_default),
            write_default=self._default(f"{where}.writeDefault", kind, column.write_default),
            nested=tuple(self._nested(f"{where}.nested[{field.path}]", kind, field) for field in column.nested),
        )

    def _nested(self, where: str, column: IcebergType, field: NestedField) -> NestedAttributes:
        """A path that leads nowhere is the library's to refuse: it knows the whole tree."""
        path = tuple(field.path.split("."))
        kind = _type_at(column, path)
        return NestedAttributes(
            path=path,
            doc=field.doc,
            previous_names=field.previous_names,
            initial_default=self._default(f"{where}.initialDefault", kind, field.initial_default),
            write_default=self._default(f"{where}.writeDefault", kind, field.write_default),
        )

    def _default(self, where: str, kind: IcebergType | None, text: str | None) -> DefaultValue | None:
        """A default's text as the JSON value that Iceberg writes for the type."""
        if text is None:
            return None
        try:
            match kind:
                case BooleanType():
                    return _BOOLEANS[text]
                case IntegerType() | LongType():
                    return int(text)
                case FloatType() | DoubleType():
                    return float(text)
        except (KeyError, ValueError):
            self.refuse(where, f"{text!r} is no {kind}", "Write a value of that type, as text")
            return None
        return text


def _type_at(kind: IcebergType, path: tuple[str, ...]) -> IcebergType | None:
    for name in path:
        match kind:
            case StructType():
                found = [field.field_type for field in kind.fields if field.name == name]
                if not found:
                    return None
                kind = found[0]
            case ListType() if name == "element":
                kind = kind.element_type
            case MapType() if name == "value":
                kind = kind.value_type
            case _:
                return None
    return kind


def _sort_order(order: Order) -> tuple[SortColumn, ...] | None:
    """A sort is the table's own order, so that writers keep it too; a z-order is only compaction's business."""
    if order.strategy is not OrderStrategy.SORT:
        return None
    return tuple(SortColumn(column) for column in order.columns)


def _properties(spec: ManagedTableSpec) -> dict[str, str]:
    """Those that are declared, and those that fields stand for. Where both are there, they say the same."""
    layout = spec.layout
    from_fields = {} if layout.target_file_size is None else {TARGET_FILE_SIZE: str(layout.target_file_size)}
    if layout.write_mode is not None:
        from_fields |= dict.fromkeys(_WRITE_MODE_PROPERTIES, _WRITE_MODES[layout.write_mode])
    return {**from_fields, **spec.properties}


def _contradictions(spec: ManagedTableSpec) -> Iterator[Refusal]:
    """Fields, each with the property that says the same thing to engines, and says something else."""
    mode, age = spec.layout.write_mode, spec.retention.snapshots.max_age
    pairs: list[tuple[str, str, str, object]] = [
        ("layout.targetFileSize", TARGET_FILE_SIZE, "bytes", spec.layout.target_file_size),
        *(
            ("layout.writeMode", name, "", None if mode is None else _WRITE_MODES[mode])
            for name in _WRITE_MODE_PROPERTIES
        ),
        (
            "retention.snapshots.maxAge",
            TableProperties.MAX_SNAPSHOT_AGE_MS,
            "milliseconds",
            None if age is None else int(age.total_seconds() * 1000),
        ),
        (
            "retention.snapshots.minCount",
            TableProperties.MIN_SNAPSHOTS_TO_KEEP,
            "snapshots",
            spec.retention.snapshots.min_count,
        ),
    ]
    for field, name, unit, value in pairs:
        declared = spec.properties.get(name)
        if value is None or declared is None or declared.strip().lower() == str(value):
            continue
        said = f"{value} {unit}".rstrip()
        reason = f"it is {declared!r}, and spec.{field} says {said}; both are about the same thing"
        remedy = f"Remove properties[{name}], or make the two equal"
        yield Refusal(RefusalKind.INVALID_DECLARATION, f"properties[{name}]", reason, remedy)
