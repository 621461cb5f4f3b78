"""Iceberg's Java library still answers the small worlds as it is recorded.

Questions for which Java writes many files take minutes together: of those, every sixth is asked.
"""

import pytest

from tests.differential.reference import Reference
from tests.differential.small_worlds import ask, questions, recorded


@pytest.mark.parametrize("topic", ["equality", "order", "transform", "bounds"])
def test_recorded_answers_are_java_s(reference: Reference, topic: str) -> None:
    answers = recorded()
    asked = [(name, request) for name, request in questions() if name.startswith(topic)]
    assert {name for name, _ in asked} == {name for name in answers if name.startswith(topic)}
    for name, request in asked[:: 6 if topic in ("equality", "bounds") else 1]:
        assert ask(reference, request) == answers[name], name
