"""Source files as rows of a table are the same as source files as objects."""

import pickle

import numpy as np
import pytest

from tableformat.engine import SourceFile
from tableformat.maintenance.compaction.sources import SourceFiles
from tests.unit.inspection.files import live, snapshot_of

TABLE = snapshot_of([live(f"file:///{number}", size_bytes=number) for number in range(1000)]).data
CHOSEN = SourceFiles(TABLE, np.array([7, 3, 999]))


def source(number: int) -> SourceFile:
    return SourceFile(f"file:///{number}", "PARQUET", number, 10, 1, None)


def test_they_are_a_sequence_like_any_other() -> None:
    assert list(CHOSEN) == [source(7), source(3), source(999)]
    assert CHOSEN[1] == source(3)
    assert CHOSEN[-1] == source(999)
    assert CHOSEN[::2] == (source(7), source(999))
    assert [source(7), source(3), source(999)] == CHOSEN
    assert [source(7), source(3), source(4)] != CHOSEN
    assert source(3) in CHOSEN
    with pytest.raises(IndexError):
        CHOSEN[3]


def test_they_take_their_own_rows_along_and_no_others() -> None:
    sent = pickle.dumps(CHOSEN)
    assert pickle.loads(sent) == CHOSEN  # noqa: S301 - of our own making
    assert len(sent) < 3000 < TABLE.nbytes
