"""The words that a run can fail by are those of docs/jobs.md: people write alerts on them."""

import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import tableformat
import tablejobs
from tableformat.catalogs.outcomes import DeletionPendingError
from tableformat.errors import PermanentError, TablewrightError, TransientError
from tableformat.grammar import InvalidTypeError
from tableformat.inspection.history import NoSuchSnapshotError
from tableformat.maintenance.holds.run import HoldRefused
from tablejobs.failures import classify

ROOT = Path(__file__).parents[3]
NOT_OF_A_DRIVER = {
    *[TransientError, PermanentError],
    *[NoSuchSnapshotError, HoldRefused, DeletionPendingError, InvalidTypeError],
}
"""And those of declarations, which the operator applies itself."""


def documented() -> dict[str, str]:
    """By reason: whether the Job tries again."""
    rows = re.findall(r"^\| (`[A-Z].*?`) \| .* \| (.*?) \|$", (ROOT / "docs" / "jobs.md").read_text(), re.MULTILINE)
    return {word: tried for words, tried in rows for word in re.findall(r"`(\w+)`", words)}


def errors_of(kind: type[TablewrightError]) -> Iterator[type[TablewrightError]]:
    for each in kind.__subclasses__():
        yield each
        yield from errors_of(each)


def errors_of_a_driver() -> list[type[TablewrightError]]:
    for package in (tableformat, tablejobs):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    found = {
        each for each in errors_of(TablewrightError) if each.__module__.split(".")[0] in ("tableformat", "tablejobs")
    }
    ours = [each for each in found - NOT_OF_A_DRIVER if not each.__module__.startswith("tableformat.declaration")]
    return sorted(ours, key=lambda each: f"{each.__module__}.{each.__name__}")  # the same order in every process


def test_every_error_that_a_driver_can_end_with_is_in_the_table_with_what_follows_from_it() -> None:
    table, errors = documented(), errors_of_a_driver()
    assert len(errors) > 30
    assert {each.reason for each in errors} - table.keys() == set()
    for each in errors:
        assert table[each.reason].startswith("yes") == issubclass(each, TransientError), each.reason


def test_every_reason_in_the_table_exists() -> None:
    sources = [*(ROOT / "operator").rglob("*.py"), *(ROOT / "spark_images").rglob("*.py")]
    source = "\n".join(path.read_text() for path in sources)
    known = {each.reason for each in errors_of_a_driver()}
    assert [word for word in documented() if word not in known and f'"{word}"' not in source] == []


@pytest.mark.parametrize("kind", errors_of_a_driver())
def test_a_reason_is_a_word_for_people(kind: type[TablewrightError]) -> None:
    assert re.fullmatch(r"([A-Z][a-z]+)+", kind.reason)
    assert not kind.reason.endswith("Error")


def test_an_error_that_is_told_by_its_own_reason_keeps_it() -> None:
    class FarAwayError(TransientError):
        reason = "TooFar"

    class NearbyError(FarAwayError):
        pass

    assert (classify(FarAwayError("x")).reason, classify(NearbyError("x")).reason) == ("TooFar", "Nearby")
