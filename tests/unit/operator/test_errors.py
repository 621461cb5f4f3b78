"""What an object that cannot be understood is answered with: every field, what is wrong with it, and what to do."""

from typing import Any

import pytest

from tablewright.api.objects import InvalidObjectError, parse
from tablewright.api.policy import TablePolicy
from tests.unit.operator.values import managed_table

COLUMN = {"name": "id", "type": "long"}


@pytest.mark.parametrize(
    ("spec", "answer"),
    [
        ({"retentions": {}}, 'spec.retentions: unknown field "retentions"; did you mean "retention"?'),
        ({"qwerty": 1}, 'spec.qwerty: unknown field "qwerty"; no known name is like it'),
        (
            {"schema": {"columns": [{**COLUMN, "require": True}]}},
            'spec.schema.columns[0].require: unknown field "require"; did you mean "required"?',
        ),
        ({"schema": {"columns": [{"name": "id"}]}}, "spec.schema.columns[0].type is missing"),
        ({"schema": {"columns": [], "removedColumns": "Drop"}}, "should be a valid"),
        ({"compaction": {"coolDown": "10 minutes"}}, '"10 minutes" is not a duration; use 10m'),
        ({"layout": {"targetFileSize": "12 MB"}}, 'spec.layout.targetFileSize: "12 MB" is not a size; use 12Mi'),
        (
            {"windows": [{"start": "9:00", "duration": "1h"}]},
            'spec.windows[0].start: "9:00" is not a time of day; use 09:00',
        ),
        ({"windows": [{"start": "09:00", "duration": "8d"}]}, "is not a duration of up to a week"),
        ({"manifests": {"schedule": "61 * * * *"}}, 'spec.manifests.schedule: "61 * * * *" is not a cron expression'),
        ({"partitioning": [{"column": "id", "transform": "weekly"}]}, "is not a partition transform; use identity"),
        ({"catalogRef": {"name": "Lake"}}, 'spec.catalogRef.name: "Lake" is not an object name; use lake'),
        ({"identifier": {"namespace": "a/b", "name": "t"}}, 'spec.identifier.namespace: "a/b" is not a name'),
        ({"formatVersion": 1}, 'spec.formatVersion: unknown value "1"; expected one of 2, 3'),
        ({"runHistory": {"failed": 51}}, "spec.runHistory.failed should be less than or equal to 50"),
        (
            {"retention": {"holds": [{"name": "a", "asOf": "2026-01-02T00:00:00Z", "until": "2026-01-01T00:00:00Z"}]}},
            "spec.retention.holds[0]: until must be after asOf",
        ),
    ],
)
def test_an_answer_names_the_field_and_what_to_do(spec: dict[str, Any], answer: str) -> None:
    with pytest.raises(InvalidObjectError) as refusal:
        managed_table(**spec)
    assert answer in str(refusal.value)
    assert str(refusal.value).startswith("ManagedTable events: ")


def test_every_bad_field_is_in_one_answer() -> None:
    with pytest.raises(InvalidObjectError) as refusal:
        parse(TablePolicy, {"metadata": {"name": "p"}, "spec": {"priority": "high", "suspend": 7, "windows": [{}]}})
    for field in ("spec.priority", "spec.suspend", "spec.windows[0].start", "spec.windows[0].duration"):
        assert field in str(refusal.value)


def test_a_text_that_is_too_long_to_read_is_not_repeated_whole() -> None:
    with pytest.raises(InvalidObjectError) as refusal:
        managed_table(timeZone="x" * 10_000)
    assert len(str(refusal.value)) < 300
