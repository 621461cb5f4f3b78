"""Metadata of format version 3, which PyIceberg reads and declines to write."""

import json

from pyiceberg.table import CommitTableRequest
from pyiceberg.table.metadata import TableMetadataV3
from pyiceberg.table.update import SetPropertiesUpdate, update_table_metadata

from tableformat.catalogs.format_v3 import WriteFormatV3Update
from tests.unit.declaration.tables import column, created, declare, with_a_row


def test_a_table_of_version_3_that_was_read_can_be_written_again() -> None:
    written = with_a_row(created(declare(column("a", "int", initial_default=1), format_version=3))).model_dump_json()
    read = TableMetadataV3.model_validate_json(written)
    after = update_table_metadata(read, (WriteFormatV3Update(), SetPropertiesUpdate(updates={"k": "v"})))
    document = json.loads(after.model_dump_json())
    assert document["properties"] == {"k": "v"}
    before = json.loads(written)
    for key in ("last-updated-ms", "properties"):
        del document[key], before[key]
    assert document == before


def test_an_upgrade_keeps_snapshots_and_begins_to_number_rows() -> None:
    after = update_table_metadata(with_a_row(created(declare(column("a")))), (WriteFormatV3Update(),))
    document = json.loads(after.model_dump_json())
    assert (document["format-version"], document["next-row-id"], document["last-sequence-number"]) == (3, 0, 1)
    assert [snapshot["snapshot-id"] for snapshot in document["snapshots"]] == [1]


def test_a_server_is_asked_for_the_plain_upgrade() -> None:
    identifier = {"namespace": ["db"], "name": "t"}
    request = CommitTableRequest.model_validate({"identifier": identifier, "updates": (WriteFormatV3Update(),)})
    assert json.loads(request.model_dump_json())["updates"] == [
        {"action": "upgrade-format-version", "format-version": 3}
    ]
