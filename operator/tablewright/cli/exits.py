"""What the command line tells scripts: its exit codes, and the errors that end it with one clear message."""

from enum import IntEnum

from tableformat.errors import PermanentError


class ExitCode(IntEnum):
    FINE = 0
    NOT_AS_WANTED = 1
    """It was carried out, and the outcome is not the wanted one: a table is not as declared, a run failed."""
    BAD_INPUT = 2
    """What was given cannot be used; nothing was changed."""
    CHANGES_DUE = 3
    """Only `plan --exit-code`: there is something to do."""
    UNREACHABLE = 4
    """A catalog, a storage or a cluster did not answer; try again later."""
    INTERRUPTED = 130


EXIT_CODES_HELP = (
    "Exit codes: 0 fine; 1 the outcome is not as wanted (a table is not as declared, a run failed); 2 the input cannot "
    "be used, and nothing was changed; 3 something is due (plan --exit-code); 4 a catalog, storage or cluster did not "
    "answer; 130 interrupted."
)


class InputError(PermanentError):
    """What somebody typed cannot be used; the message says what to type instead."""
