"""What storage may answer instead of doing as it was told."""

from tableformat.errors import TransientError


class StorageUnavailable(TransientError):
    """The storage does not answer, or not as it should."""
