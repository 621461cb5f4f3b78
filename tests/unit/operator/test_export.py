"""A table exported and declared again is the same table: over random schemas, partitionings and orders."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.sorting import NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform, TruncateTransform
from pyiceberg.types import LongType, NestedField, StringType, StructType, TimestamptzType

from tableformat.declaration import Column, TableDeclaration, difference
from tablewright.api.admission import admit
from tablewright.api.declaration import declaration_of
from tablewright.api.export import NotExportableError, export_table, object_names
from tablewright.api.objects import parse
from tablewright.api.table import ManagedTable
from tests.unit.declaration.strategies import declared_columns

TRANSFORMS: list[Any] = [IdentityTransform(), BucketTransform(16), TruncateTransform(4), DayTransform()]


@st.composite
def tables(draw: st.DrawFn) -> TableMetadata:
    columns = draw(declared_columns())
    docs = [draw(st.one_of(st.none(), st.text(min_size=1, max_size=8))) for _ in columns]
    columns = tuple(Column(c.name, c.type, c.required, doc) for c, doc in zip(columns, docs, strict=True))
    schema = TableDeclaration(("sales", "t"), columns).new_schema()
    plain = [field for field in schema.fields if field.field_type.is_primitive]
    spec: list[PartitionField] = []
    for field in draw(st.lists(st.sampled_from(plain), unique_by=lambda f: f.name)) if plain else []:
        usable = [each for each in TRANSFORMS if each.can_transform(field.field_type)]
        if usable:
            number = 1000 + len(spec)
            spec.append(PartitionField(field.field_id, number, draw(st.sampled_from(usable)), f"p{number}"))
    keys = [
        SortField(
            field.field_id,
            IdentityTransform(),
            draw(st.sampled_from(SortDirection)),
            draw(st.sampled_from(NullOrder)),
        )
        for field in (draw(st.lists(st.sampled_from(plain), unique_by=lambda f: f.name)) if plain else [])
    ]
    identifiers = [f.field_id for f in plain if f.required and str(f.field_type) not in ("float", "double")]
    chosen = draw(st.lists(st.sampled_from(identifiers), unique=True)) if identifiers else []
    size = draw(st.sampled_from(["1", str(128 << 20), "12345", "none", "0"]))
    return new_table_metadata(
        Schema(*schema.fields, identifier_field_ids=chosen),
        PartitionSpec(*spec),
        SortOrder(*keys, order_id=1 if keys else 0),
        "file:///warehouse/sales/t",
        {"format-version": "2", "write.target-file-size-bytes": size, "owner": draw(st.text(max_size=5))},
    )


@given(tables())
def test_a_table_exported_and_declared_again_is_as_declared(metadata: TableMetadata) -> None:
    exported = export_table(metadata, ("sales", "t"), catalog="lake")
    obj = json.loads(json.dumps(exported.manifest))
    assert admit(obj) == [], "an API server takes it"
    found = difference(declaration_of(parse(ManagedTable, obj)), metadata)
    assert found.is_empty, f"{found.changes} {found.refusals}"


def metadata_with(fields: list[NestedField], *keys: SortField, **properties: str) -> TableMetadata:
    order = SortOrder(*keys, order_id=1 if keys else 0)
    return new_table_metadata(Schema(*fields), PartitionSpec(), order, "file:///w/t", properties)


def test_what_the_api_has_no_words_for_is_left_to_the_table_and_named() -> None:
    inner = StructType(NestedField(3, "city", StringType(), required=False, doc="where"))
    metadata = metadata_with(
        [NestedField(1, "ts", TimestamptzType(), required=True), NestedField(2, "at", inner, required=False)],
        SortField(1, IdentityTransform(), SortDirection.DESC, NullOrder.NULLS_LAST),
        huge="x" * 5000,
    )
    exported = export_table(metadata, ("sales", "My_Table"), catalog="lake")
    assert len(exported.notes) == 3
    assert "order" not in exported.manifest["spec"].get("layout", {})
    assert exported.manifest["metadata"] == {"name": "my-table", "namespace": "sales"}
    assert difference(declaration_of(parse(ManagedTable, exported.manifest)), metadata).is_empty


def test_a_table_in_a_nested_namespace_is_refused() -> None:
    metadata = metadata_with([NestedField(1, "id", LongType(), required=True)])
    try:
        export_table(metadata, ("a", "b", "t"), catalog="lake")
    except NotExportableError as error:
        assert "a.b.t" in str(error)  # noqa: PT017 - the message is the claim
    else:
        raise AssertionError("a nested namespace was exported")


def test_names_of_objects_follow_from_the_tables_alone() -> None:
    one = [("sales", "events"), ("sales", "Big_Table")]
    assert list(object_names(one).values()) == ["events", "big-table"]
    several = object_names([*one, ("hr", "events")])
    assert list(several.values()) == ["sales-events", "sales-big-table", "hr-events"]
    mixed = [("sales", "a_b"), ("sales", "a-b"), ("sales", "c" * 90), ("sales", "C" * 90)]
    names = object_names(mixed)
    assert len({*names.values()}) == 4
    assert all(len(name) <= 63 for name in names.values())
    assert object_names(list(reversed(mixed))) == names


def test_a_table_whose_name_the_api_does_not_take_is_refused() -> None:
    schema = Schema(NestedField(1, "id", LongType(), required=False))
    plain = new_table_metadata(schema, PartitionSpec(), SortOrder(order_id=0), "file:///w/t", {"format-version": "2"})
    with pytest.raises(NotExportableError, match=r"^sales\.\w+: spec\.identifier"):
        export_table(plain, ("sales", "x" * 300), catalog="lake")
