"""A declaration becomes a table, once; a table that is already as declared is not touched."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, MetastoreCatalog
from pyiceberg.exceptions import TableAlreadyExistsError
from pyiceberg.table.sorting import NullOrder, SortDirection

from tableformat.catalogs.format_v3 import create_table_v3
from tableformat.declaration import (
    Column,
    ManagementMode,
    PartitionColumn,
    RefusalKind,
    SortColumn,
    TableDeclaration,
    apply_declaration,
    parse_partition_transform,
    parse_type,
)
from tableformat.declaration.difference import new_table
from tests.integration.declaration.declaring import column, create, declare

PAYMENTS = TableDeclaration(
    identifier=("sales", "payments"),
    columns=(
        Column("txn_id", parse_type("string"), required=True, doc="the payment's id"),
        Column("amount", parse_type("decimal(10,2)")),
        Column("ts", parse_type("timestamptz")),
        Column("items", parse_type("list<struct<sku: string, qty: int>>")),
    ),
    identifier_columns=("txn_id",),
    partitioning=(PartitionColumn("ts", parse_partition_transform("day")),),
    sort_order=(SortColumn("txn_id", direction=SortDirection.DESC),),
    format_version=2,
    properties={"write.parquet.compression-codec": "zstd"},
)


def test_a_declared_table_is_created(catalog: Catalog) -> None:
    applied = apply_declaration(catalog, PAYMENTS, mode=ManagementMode.FULL, known_uuid=None)
    assert applied.created
    assert applied.in_sync
    assert [type(change).__name__ for change in applied.changes] == ["CreateTable"]
    metadata = catalog.load_table(("sales", "payments")).metadata
    assert metadata.format_version == 2
    assert set(metadata.schema().column_names) == {
        "txn_id", "amount", "ts", "items", "items.element", "items.element.sku", "items.element.qty",
    }  # fmt: skip
    assert [column.name for column in metadata.schema().columns] == ["txn_id", "amount", "ts", "items"]
    assert metadata.schema().find_field("txn_id").doc == "the payment's id"
    assert metadata.schema().identifier_field_names() == {"txn_id"}
    assert [(field.name, str(field.transform)) for field in metadata.spec().fields] == [("ts_day", "day")]
    (key,) = metadata.sort_order().fields
    assert (key.direction, key.null_order) == (SortDirection.DESC, NullOrder.NULLS_LAST)
    assert metadata.properties["write.parquet.compression-codec"] == "zstd"
    assert "format-version" not in metadata.properties


def test_a_second_apply_does_nothing_not_even_a_commit(catalog: Catalog) -> None:
    created = apply_declaration(catalog, PAYMENTS, mode=ManagementMode.FULL, known_uuid=None).table
    assert created is not None
    for known_uuid in (None, created.metadata.table_uuid):
        again = apply_declaration(catalog, PAYMENTS, mode=ManagementMode.FULL, known_uuid=known_uuid)
        assert again.in_sync
        assert (again.created, again.changes, again.pending) == (False, (), ())
        assert catalog.load_table(created.name()).metadata_location == created.metadata_location


def test_a_created_table_takes_rows(catalog: Catalog) -> None:
    declared = TableDeclaration(
        ("db", "rows"), (Column("a", parse_type("long")), Column("b", parse_type("string"))), format_version=2
    )
    table = apply_declaration(catalog, declared, mode=ManagementMode.FULL, known_uuid=None).table
    assert table is not None
    rows = pa.table({"a": pa.array([1, 2], pa.int64()), "b": ["x", None]})
    table.append(rows)
    assert table.scan().to_arrow().to_pylist() == rows.to_pylist()


def test_a_table_is_created_at_its_declared_location(catalog: Catalog, tmp_path: Path) -> None:
    location = f"file://{tmp_path}/elsewhere/t"
    declared = TableDeclaration(("db", "t"), (Column("a", parse_type("long")),), location=location + "/")
    table = apply_declaration(catalog, declared, mode=ManagementMode.FULL, known_uuid=None).table
    assert table is not None
    assert table.location() == location
    assert apply_declaration(catalog, declared, mode=ManagementMode.FULL, known_uuid=None).in_sync


def test_only_full_management_creates_a_table(catalog: Catalog) -> None:
    for mode in (ManagementMode.MAINTAIN_ONLY, ManagementMode.OBSERVE_ONLY):
        applied = apply_declaration(catalog, PAYMENTS, mode=mode, known_uuid=None)
        assert [refusal.kind for refusal in applied.refusals] == [RefusalKind.TABLE_MISSING]
        assert not catalog.table_exists(PAYMENTS.identifier)


def test_a_declaration_without_columns_creates_nothing(catalog: Catalog) -> None:
    declared = TableDeclaration(("db", "t"))
    applied = apply_declaration(catalog, declared, mode=ManagementMode.FULL, known_uuid=None)
    assert [refusal.kind for refusal in applied.refusals] == [RefusalKind.TABLE_MISSING]


def test_a_lost_creation_of_format_version_3_leaves_no_file_behind(catalog: Catalog, tmp_path: Path) -> None:
    winner = create(catalog, declare(column("a"), format_version=3))
    parts = new_table(declare(column("a"), format_version=3))
    assert isinstance(catalog, MetastoreCatalog)
    with pytest.raises(TableAlreadyExistsError):
        create_table_v3(
            catalog,
            winner.name(),
            schema=parts.schema,
            location=f"file://{tmp_path}/elsewhere",
            partition_spec=parts.spec,
            sort_order=parts.sort_order,
            properties={},
        )
    assert list((tmp_path / "elsewhere").rglob("*.json")) == []
    assert catalog.load_table(winner.name()).metadata_location == winner.metadata_location
