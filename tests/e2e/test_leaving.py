"""Deleting a table does what its deletion policy says; deleting a namespace never hangs."""

import pytest
from pyiceberg.exceptions import NoSuchTableError

from tests.e2e.place import IDENTIFIER, TABLE, Place
from tests.servers.s3 import S3Access
from tests.waiting import eventually

pytestmark = pytest.mark.timeout(300)


def deleted_under(place: Place, policy: str) -> list[int]:
    place.declare(deletionPolicy=policy)
    written = place.write(commits=2, rows=8)
    place.objects.delete("ManagedTable", TABLE)
    eventually(lambda: place.objects.table(TABLE), lambda table: table is None)
    return written


def files(place: Place, s3: S3Access) -> list[str]:
    """Without the marks of empty folders, which PyArrow's deletions leave on S3."""
    listed = s3.client().list_objects_v2(Bucket=place.bucket).get("Contents", [])
    return [found["Key"] for found in listed if not found["Key"].endswith("/")]


def test_retain_leaves_everything(place: Place) -> None:
    written = deleted_under(place, "Retain")
    assert place.ids() == written


def test_drop_removes_the_pointer_and_leaves_the_files(place: Place, s3: S3Access) -> None:
    deleted_under(place, "Drop")
    with pytest.raises(NoSuchTableError):
        place.catalog().load_table(IDENTIFIER)
    assert any(key.endswith(".parquet") for key in files(place, s3))


def test_purge_removes_the_files_as_well(place: Place, s3: S3Access) -> None:
    deleted_under(place, "Purge")
    with pytest.raises(NoSuchTableError):
        place.catalog().load_table(IDENTIFIER)
    assert files(place, s3) == []


def test_a_namespace_goes_as_a_whole_with_its_tables_and_a_run_under_way(place: Place) -> None:
    place.declare(deletionPolicy="Drop")
    place.write(commits=6, rows=40)
    place.ask_for("Compact")
    place.wait_for_executors()
    place.kubectl("delete", "namespace", place.name, "--wait", "--timeout=120s")
