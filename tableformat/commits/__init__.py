"""How a table's next snapshot is made and swapped in: validation, retry and unknown outcomes, in one place."""

from tableformat.commits.errors import CommitConflict, CommitOutcomeUnknown
from tableformat.commits.replace import commit_replacement
from tableformat.commits.replacement import AddedFile, Replacement
from tableformat.commits.runs import RUN_ID, RUN_NAME, snapshots_of_run

__all__ = [
    "RUN_ID",
    "RUN_NAME",
    "AddedFile",
    "CommitConflict",
    "CommitOutcomeUnknown",
    "Replacement",
    "commit_replacement",
    "snapshots_of_run",
]
