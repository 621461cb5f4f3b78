"""The documentation's table of what may change is held to the tests that it names."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_every_row_of_what_may_change_names_a_test_that_is_there() -> None:
    text = (ROOT / "docs" / "declaring-tables.md").read_text()
    section = text.partition("## What may change")[2].partition("## How it is applied")[0]
    rows = [line for line in section.splitlines() if line.startswith("|")]
    named = [re.findall(r"`(test_\w+)`", row) for row in rows if "you declare" not in row and "---" not in row]
    assert len(named) > 40
    assert all(len(tests) == 1 for tests in named)
    suites = [*(ROOT / "tests/unit/declaration").glob("*.py"), *(ROOT / "tests/integration/declaration").glob("*.py")]
    defined = {name for suite in suites for name in re.findall(r"^def (test_\w+)\(", suite.read_text(), re.MULTILINE)}
    assert {test for tests in named for test in tests} <= defined
