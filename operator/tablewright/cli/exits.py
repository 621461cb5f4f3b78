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


def told(error: Exception) -> str:
    from strictyaml import YAMLError

    if isinstance(error, YAMLError):  # PyIceberg reads it when it is imported, whatever was typed
        return f"PyIceberg's configuration file .pyiceberg.yaml cannot be read: {' '.join(str(error).split())}"
    if isinstance(error, FileNotFoundError):
        return f"a file that the table needs is not there: {error}"
    return str(error)


def exit_code_of(error: Exception) -> ExitCode | None:
    """None for what nobody foresaw: that is ours to fix, and its trace helps."""
    from pyiceberg.exceptions import RESTError
    from strictyaml import YAMLError

    if isinstance(error, YAMLError):  # before the imports that would read the file again
        return ExitCode.BAD_INPUT
    from tableformat.errors import PermanentError, TransientError
    from tablewright.act.passes import CatalogNotUsableError

    if isinstance(error, PermanentError | CatalogNotUsableError | FileNotFoundError):
        return ExitCode.BAD_INPUT
    unreachable = (TransientError, RESTError, OSError)  # `requests` says it by an OSError of its own
    return ExitCode.UNREACHABLE if isinstance(error, unreachable) else None
