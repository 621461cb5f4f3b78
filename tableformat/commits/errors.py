"""Why a commit did not happen, or may have."""

from tableformat.errors import TransientError


class CommitConflict(TransientError):
    """The table changed in a way that the prepared files do not fit any more: plan anew. Nothing was committed."""


class CommitOutcomeUnknown(TransientError):
    """The commit may have happened and could not be looked up: its files must stay. Run again with the same run id."""
