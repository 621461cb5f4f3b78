"""Cases that seeds found, in the fewest steps that showed them. Each failed before its fix."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.differential.cases import stored_case
from tests.differential.machine import Machine

_FOUND = sorted((Path(__file__).parent / "found").glob("*.json"))


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    with Machine() as made:
        yield made


@pytest.mark.parametrize("file", _FOUND, ids=[file.stem for file in _FOUND])
def test_reference_sees_the_same_table_as_before(machine: Machine, file: Path) -> None:
    failure = machine.check(stored_case(file))
    assert failure is None, str(failure)
