"""What the commit hook accepts and rejects."""

import pytest

from tools.check_commit_message import problems

BODY = "\n\nCompaction lost a row.\n"


@pytest.mark.parametrize(
    "message",
    [
        "Match Java on null structs in equality deletes" + BODY,
        "# a comment of git\nSeed the generator" + BODY,
        "Merge branch 'main'",
        'Revert "Add a column"',
    ],
)
def test_message_with_imperative_subject_and_body_passes(message: str) -> None:
    assert problems(message) == []


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("", "The subject is missing"),
        ("Add a column", "The body is missing"),
        ("Add a column\n\n# only a comment", "The body is missing"),
        ("A" * 73 + BODY, "has 73 characters"),
        ("Added a column" + BODY, 'begins with "Added"'),
        ("Fixing a race" + BODY, 'begins with "Fixing"'),
        ("add a column" + BODY, "capital letter"),
        ("Add a column." + BODY, "full stop"),
        ("Add a column\nand another", "second line is not empty"),
    ],
)
def test_each_problem_is_named(message: str, said: str) -> None:
    assert any(said in problem for problem in problems(message))
