"""Why a driver's run failed: by type, and by what storage answers."""

import pytest
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    NoSuchTableError,
    ValidationException,
)

from tableformat.catalogs import CatalogAccessError, CatalogUnavailableError
from tableformat.maintenance.errors import TooYoung
from tableformat.storage.errors import StorageUnavailable
from tablejobs.failures import Failure, OutOfMemory, classify, of_code
from tablejobs.spark_errors import TaskFailed

REFUSED = Failure("BadCredentials", "refused", try_again=False)


@pytest.mark.parametrize(
    ("error", "reason", "try_again"),
    [
        (CatalogAccessError("x"), "CatalogAccessDenied", False),
        (NoSuchTableError("x"), "TableNotFound", False),
        (ValidationException("x"), "ValidationConflict", True),
        (CommitFailedException("x"), "CommitConflict", True),
        (PermissionError("x"), "BadCredentials", False),
        (TooYoung("x"), "TooYoung", False),
        (StorageUnavailable("x"), "StorageUnavailable", True),
        (OSError("x"), "StorageUnavailable", True),
        (FileNotFoundError("x"), "StorageUnavailable", True),
        (CommitStateUnknownException("x"), "CommitOutcomeUnknown", True),
        (CatalogUnavailableError("x"), "CatalogUnavailable", True),
        (ValueError("x"), "InternalError", True),
    ],
)
def test_a_type_has_its_reason(error: Exception, reason: str, try_again: bool) -> None:
    found = classify(error)
    assert (found.reason, found.message, found.try_again) == (reason, "x", try_again)
    assert found.is_foreseen == (reason != "InternalError")


class Untellable(Exception):
    def __str__(self) -> str:
        raise ConnectionRefusedError("there is no JVM to be asked any more")


def test_an_error_without_a_text_has_a_report_all_the_same() -> None:
    found = classify(Untellable())
    assert found.reason == "InternalError"
    assert "Untellable" in found.message


def test_what_followed_from_a_kill_for_memory_is_named_after_it() -> None:
    assert classify(ValueError("a worker vanished"), out_of_memory=True).reason == "OutOfMemory"
    assert classify(TaskFailed("a worker vanished"), out_of_memory=True).reason == "OutOfMemory"
    for on_purpose in (TooYoung("x"), StorageUnavailable("x"), CommitFailedException("x")):
        assert classify(on_purpose, out_of_memory=True) == classify(on_purpose)


@pytest.mark.parametrize("error", [OutOfMemory("x"), MemoryError("malloc failed"), TaskFailed("a worker vanished")])
def test_want_of_memory_is_tried_again_as_long_as_there_is_more(error: Exception) -> None:
    found = classify(error, out_of_memory=True)
    assert (found.reason, found.try_again) == ("OutOfMemory", True)
    assert found.message.endswith("; the next attempt gives each task more of it")
    found = classify(error, out_of_memory=True, at_limit="all of the 640 MiB that jobs.executors.memory allows")
    assert (found.reason, found.try_again) == ("OutOfMemory", False)
    assert found.message.endswith(
        ", though one task at once had all of the 640 MiB that jobs.executors.memory allows: raise it"
    )


def test_what_storage_says_itself_wins_over_what_a_library_made_of_it() -> None:
    for error in (OSError("x"), StorageUnavailable("x"), NoSuchTableError("x"), TooYoung("x"), ValueError("x")):
        assert classify(error, storage=REFUSED, out_of_memory=True) == REFUSED


def test_storage_that_does_not_answer_explains_only_what_nothing_else_does() -> None:
    away = Failure("StorageUnavailable", "away", try_again=True)
    assert classify(OSError("x"), storage=away) == away
    assert classify(TooYoung("x"), storage=away).reason == "TooYoung"
    assert classify(ValueError("x"), storage=away, out_of_memory=True).reason == "OutOfMemory"


@pytest.mark.parametrize(
    ("code", "reason", "try_again"),
    [
        ("SignatureDoesNotMatch", "BadCredentials", False),
        ("InvalidAccessKeyId", "BadCredentials", False),
        ("XAdminUserNotFound", "BadCredentials", False),
        ("NoSuchBucket", "BucketNotFound", False),
        ("AccessDenied", "AccessDenied", True),
    ],
)
def test_an_answer_of_storage_has_its_reason(code: str, reason: str, try_again: bool) -> None:
    found = of_code("lake", code)
    assert found is not None
    assert (found.reason, found.try_again) == (reason, try_again)
    assert "bucket lake" in found.message


def test_an_answer_that_blames_nobody_has_none() -> None:
    assert of_code("lake", "InternalError") is None
