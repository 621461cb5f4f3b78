"""Numbers with their nouns."""

import re
from pathlib import Path

import pytest

from tableformat.plurals import plural

ROOT = Path(__file__).parents[2]
# A number that is put in front of a plural noun, whatever the number: 1 becomes "1 files".
FIXED = re.compile(
    r"\{[^{}]*\} (?:(?:data|delete|small|orphan) )?"
    r"(?:files|rows|snapshots|commits|manifests|objects|tables|runs|partitions|requests)\b"
)


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 files"), (1, "1 file"), (2, "2 files"), (12_345, "12,345 files"), (-1, "-1 files")]
)
def test_one_is_singular_and_large_numbers_have_commas(number: int, text: str) -> None:
    assert plural(number, "file") == text


def test_a_plural_of_its_own_is_taken() -> None:
    assert [plural(count, "entry", "entries") for count in (1, 2)] == ["1 entry", "2 entries"]


def test_reports_and_plans_count_with_the_helper() -> None:
    """What drivers report and plans say is shown by every command, condition and event."""
    places = [
        *(ROOT / "tableformat" / "maintenance").rglob("*.py"),
        *(ROOT / "operator" / "tablewright" / "cli").rglob("*.py"),
        ROOT / "spark_images" / "tablejobs" / "operations.py",
    ]
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in places
        for line in path.read_text().splitlines()
        if FIXED.search(line)
    ]
    assert found == []
