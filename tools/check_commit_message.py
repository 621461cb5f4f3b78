"""Checks a commit message: an imperative subject of at most 72 characters, an empty line, and a body that says why.

Usage: python tools/check_commit_message.py FILE
"""

import re
import sys
from pathlib import Path

LONGEST = 72
_MADE_BY_GIT = re.compile(r"(Merge|Revert|fixup!|squash!|amend!) ")
_NOT_IMPERATIVE = re.compile(r"\w+(ed|ing)")
_IMPERATIVE = frozenset({"Bring", "Embed", "Feed", "Need", "Seed", "Shed", "Speed", "String"})


def problems(message: str) -> list[str]:
    lines = [line for line in message.splitlines() if not line.startswith("#")]
    while lines and not lines[0].strip():
        lines.pop(0)
    subject, body = (lines[0], lines[1:]) if lines else ("", [])
    if _MADE_BY_GIT.match(subject):
        return []
    found = []
    if not subject:
        found.append("The subject is missing. Say what the commit does, for example: Reject empty column names")
    if len(subject) > LONGEST:
        found.append(f"The subject has {len(subject)} characters. Use at most {LONGEST}; the rest belongs in the body.")
    if subject.endswith("."):
        found.append("The subject ends with a full stop. Remove it.")
    if not subject[:1].isupper():
        found.append("The subject does not begin with a capital letter.")
    first = subject.split(" ")[0]
    if first not in _IMPERATIVE and _NOT_IMPERATIVE.fullmatch(first):
        found.append(f'The subject begins with "{first}". Use the imperative, for example "Add", not "Added".')
    if body and body[0].strip():
        found.append("The second line is not empty. Leave it empty, so that tools tell the subject from the body.")
    if not any(line.strip() for line in body):
        found.append("The body is missing. Say why, and what was seen.")
    return found


if __name__ == "__main__":
    found = problems(Path(sys.argv[1]).read_text())
    for problem in found:
        print(problem, file=sys.stderr)
    sys.exit(bool(found))
