"""Which statistics the columns of a new file get, as the table's properties ask."""

import pytest
from pyiceberg.io.pyarrow import match_metrics_mode
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from tableformat.engine.statistics import leaf_columns

SCHEMA = Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "city", StringType(), required=False))


@pytest.mark.parametrize(
    ("properties", "modes"),
    [
        ({}, ["truncate(16)", "truncate(16)"]),
        ({"write.metadata.metrics.default": "counts"}, ["counts", "counts"]),
        (
            {"write.metadata.metrics.default": "counts", "write.metadata.metrics.column.city": "full"},
            ["counts", "full"],
        ),
        ({"write.metadata.metrics.default": "al"}, ["truncate(16)", "truncate(16)"]),
        ({"write.metadata.metrics.default": "none", "write.metadata.metrics.column.city": "fulll"}, ["none", "none"]),
    ],
)
def test_a_mode_that_nobody_knows_is_as_if_it_were_not_there(properties: dict[str, str], modes: list[str]) -> None:
    found = [leaf.mode for leaf in leaf_columns(SCHEMA, properties)]
    assert found == [match_metrics_mode(mode) for mode in modes]
