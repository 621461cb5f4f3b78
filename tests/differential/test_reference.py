"""The reference answers, and says what it cannot do."""

import pytest

from tests.differential.reference import JavaError, Reference
from tests.servers import binaries


def test_reference_is_the_pinned_version_of_iceberg(reference: Reference) -> None:
    assert reference.ask("version") == binaries.ICEBERG_VERSION


def test_unknown_command_is_an_error_that_names_the_known_ones(reference: Reference) -> None:
    with pytest.raises(JavaError, match=r'unknown command "sing"; expected one of \[version'):
        reference.ask("sing")
