"""Tables that Iceberg's own library wrote from seeds, maintained by ours and read by it again.

`TABLEWRIGHT_SEEDS` says how many seeds, or which (`1000..2000`). By default they are the same ones every time.
"""

import os

import pytest

from tests.differential.running import Report, run

_SEEDS = 300


def _seeds() -> range:
    first, dots, last = os.environ.get("TABLEWRIGHT_SEEDS", str(_SEEDS)).partition("..")
    return range(int(first), int(last)) if dots else range(int(first))


@pytest.mark.timeout(0)  # thousands of seeds take as long as they take
def test_reference_sees_the_same_table_after_operations_of_ours() -> None:
    total = Report()
    # One more than cores: while ours works, the reference of that process waits, and the other way round.
    for report in run(_seeds(), jobs=3, shrinking=True):
        total.add(report)
        assert not total.failures, "\n\n".join(map(str, total.failures))
    assert total.seeds == len(_seeds())
    # A machine whose tables are refused, or whose steps are left out, proves nothing.
    assert sum(total.refusals.values()) < 0.1 * sum(total.operations.values())
