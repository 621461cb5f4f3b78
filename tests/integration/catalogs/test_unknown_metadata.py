"""Metadata of a newer Iceberg: keys that nobody here knows, in every object, through random commits of every kind."""

import gzip
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.sorting import SortField, SortOrder
from pyiceberg.table.statistics import BlobMetadata, PartitionStatisticsFile, StatisticsFile
from pyiceberg.table.update import SetPartitionStatisticsUpdate, SetStatisticsUpdate, UpgradeFormatVersionUpdate
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import ListType, LongType, NestedField, StringType, StructType

from tableformat.catalogs import SqlConfig, open_catalog
from tableformat.catalogs.format_v3 import WriteFormatV3Update
from tableformat.catalogs.pointer_catalog import PointerCatalog
from tableformat.maintenance import InProcessExecutor
from tableformat.maintenance.compaction import CompactionOptions, compact
from tableformat.maintenance.expiry import ExpiryOptions, expire_snapshots
from tableformat.maintenance.holds import Hold, place_hold
from tableformat.maintenance.manifests import ManifestOptions, rewrite_manifests
from tableformat.maintenance.rollback import RollbackOptions, roll_back

IDENTIFIER = ("db", "events")
SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "name", StringType(), required=False),
    NestedField(
        3,
        "items",
        ListType(4, StructType(NestedField(5, "sku", StringType(), required=False)), element_required=False),
        required=False,
    ),
    identifier_field_ids=[1],
)
SPEC = PartitionSpec(PartitionField(1, 1000, BucketTransform(2), "id_bucket"))
ORDER = SortOrder(SortField(source_id=1, transform=IdentityTransform()))
MAPS = {"properties", "summary", "refs"}
"""Whose keys are names, not words of the format."""
IDS = {
    "schemas": "schema-id",
    "partition-specs": "spec-id",
    "sort-orders": "order-id",
    "metadata-log": "metadata-file",
    "partition-spec": "field-id",
    "snapshot-log": "timestamp-ms",
}
"""Of the objects of a list; others have a snapshot's or a field's."""
PLANTED = "x-of-a-newer-version"

Path_ = tuple[object, ...]
unknown_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=3,
)


def objects(value: Any, path: Path_ = ()) -> Iterator[tuple[Path_, dict[str, Any]]]:
    """Every object of the metadata that the format describes, by where it is and its id."""
    if isinstance(value, list):
        for position, inner in enumerate(value):
            names = [IDS.get(str(path[-1]), ""), "snapshot-id", "id", "field-id", "source-id"]
            ids = [inner[name] for name in names if name in inner] if isinstance(inner, dict) else []
            yield from objects(inner, (*path, *(ids[:1] or [position])))
    if isinstance(value, dict):
        if not path or path[-1] not in MAPS:
            yield path, value
        for key, inner in value.items():
            if not key.startswith(PLANTED):
                yield from objects(inner, (*path, key))


def local(location: str) -> Path:
    return Path(location.removeprefix("file://"))


def rows(start: int) -> pa.Table:
    items = pa.list_(pa.struct([("sku", pa.string())]))
    return pa.table(
        {
            "id": pa.array([start, start + 1], pa.int64()),
            "name": pa.array(["a", None], pa.string()),
            "items": pa.array([[{"sku": "s"}], None], items),
        },
        schema=pa.schema([pa.field("id", pa.int64(), nullable=False), ("name", pa.string()), ("items", items)]),
    )


def populated(catalog: PointerCatalog, version: int) -> Table:
    catalog.create_namespace("db")
    properties = {"format-version": str(version)}
    table = catalog.create_table(IDENTIFIER, SCHEMA, partition_spec=SPEC, sort_order=ORDER, properties=properties)
    for start in (0, 10, 20):
        table.append(rows(start))
    snapshots = table.metadata.snapshots
    table.manage_snapshots().create_tag(snapshots[1].snapshot_id, "audit").commit()
    common = {"snapshot_id": snapshots[2].snapshot_id, "file_size_in_bytes": 1}
    blob = BlobMetadata(type="apache-datasketches-theta-v1", snapshot_id=1, sequence_number=1, fields=[1])
    statistics = StatisticsFile(
        statistics_path="file:///s", file_footer_size_in_bytes=1, blob_metadata=[blob], **common
    )
    of_partitions = PartitionStatisticsFile(statistics_path="file:///p", **common)
    updates = (
        SetStatisticsUpdate(statistics=statistics),
        SetPartitionStatisticsUpdate(partition_statistics=of_partitions),
    )
    catalog.commit_table(table, (), updates)
    return table.refresh()


def later(table: Table) -> datetime:
    return datetime.fromtimestamp(table.metadata.last_updated_ms / 1000, UTC) + timedelta(seconds=1)


def upgrade(table: Table) -> None:
    version = table.metadata.format_version
    if version == 1:
        table.catalog.commit_table(table, (), (UpgradeFormatVersionUpdate(format_version=2),))
    elif version == 2:
        table.catalog.commit_table(table, (), (WriteFormatV3Update(),))


def compacted(table: Table) -> None:
    options = CompactionOptions(min_input_files=1, target_file_bytes=2**20)
    compact(table.catalog, IDENTIFIER, options, executor=InProcessExecutor(), run_id="run", now=later(table))


def held(table: Table) -> None:
    now = later(table)
    hold = Hold(name="h", as_of=now, until=now + timedelta(days=1))
    place_hold(table.catalog, IDENTIFIER, hold, now=now)


def rolled_back(table: Table) -> None:
    snapshot = table.metadata.snapshots[0].snapshot_id
    options = RollbackOptions(snapshot_id=snapshot, allow_losing_commits=True)
    if any(entry.snapshot_id == snapshot for entry in table.metadata.snapshot_log):
        roll_back(table.catalog, IDENTIFIER, options, run_id="run", now=later(table))


COMMITS: dict[str, Callable[[Table], object]] = {
    "set a property": lambda table: table.transaction().set_properties(k=str(later(table))).commit_transaction(),
    "add a column": lambda table: (
        table.update_schema().add_column(f"c{len(table.schema().fields)}", LongType()).commit()
    ),
    "rename a nested column": lambda table: table.update_schema().rename_column("items.sku", "article").commit(),
    "drop a column": lambda table: table.update_schema().delete_column("name").commit(),
    "add a partition field": lambda table: table.update_spec().add_identity("id").commit(),
    "compact": compacted,
    "rewrite manifests": lambda table: rewrite_manifests(table.catalog, IDENTIFIER, ManifestOptions(), run_id="run"),
    "expire": lambda table: expire_snapshots(
        table.catalog, IDENTIFIER, ExpiryOptions(max_snapshot_age_ms=0, min_snapshots_to_keep=2), now=later(table)
    ),
    "hold": held,
    "roll back": rolled_back,
    "upgrade": upgrade,
}


@settings(max_examples=12, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(
    version=st.sampled_from([1, 2, 3]),
    value=unknown_values,
    compressed=st.booleans(),
    commits=st.lists(st.sampled_from(sorted(COMMITS)), min_size=1, max_size=4, unique=True),
)
def test_what_nobody_here_knows_is_in_the_metadata_after_any_commits(
    version: int, value: Any, compressed: bool, commits: list[str]
) -> None:
    with TemporaryDirectory() as folder:
        config = SqlConfig(name="lake", uri=f"sqlite:///{folder}/c.db", warehouse=f"file://{folder}/warehouse")
        catalog = open_catalog(config)
        assert isinstance(catalog, PointerCatalog)
        table = populated(catalog, min(version, 2))
        if version == 3:
            upgrade(table)
            table.refresh()
        raw = json.loads(local(table.metadata_location).read_text())
        for number, (_, each) in enumerate(list(objects(raw))):
            each[f"{PLANTED}-{number}"] = value
        ending = ".gz.metadata.json" if compressed else ".metadata.json"
        planted = f"{table.location()}/metadata/00099-{table.metadata.table_uuid}{ending}"
        content = json.dumps(raw).encode()
        local(planted).write_bytes(gzip.compress(content) if compressed else content)
        catalog.register_table(IDENTIFIER, planted, overwrite=True)

        for name in commits:
            COMMITS[name](catalog.load_table(IDENTIFIER))

        table = catalog.load_table(IDENTIFIER)
        written = json.loads(local(table.metadata_location).read_text())
        catalog.close()
    require_carried_over(raw, written)
    require_carried_over(current_schema(raw), current_schema(written))


def current_schema(metadata: dict[str, Any]) -> dict[str, Any]:
    """As a new schema has it that was made from it, too."""
    [found] = [each for each in metadata["schemas"] if each["schema-id"] == metadata["current-schema-id"]]
    return {"fields": found["fields"], PLANTED: None}


def require_carried_over(before: dict[str, Any], after: dict[str, Any]) -> None:
    """In every object that is still there."""
    found = dict(objects(after))
    for path, each in objects(before):
        if path in found:
            unknown = {key: inner for key, inner in each.items() if key.startswith(PLANTED)}
            assert unknown
            assert {key: found[path].get(key, "gone") for key in unknown} == unknown, path
    assert () in found
