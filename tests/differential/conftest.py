"""One process of the reference for all tests of a run."""

from collections.abc import Iterator

import pytest

from tests.differential.reference import Reference


@pytest.fixture(scope="session")
def reference() -> Iterator[Reference]:
    with Reference() as process:
        yield process
