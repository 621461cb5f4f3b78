"""What can be wrong with a data file, so that a run fails with the file's name and the reason."""

from tableformat.errors import PermanentError, TransientError


class UnreadableDataFile(PermanentError):
    """A data file is missing, damaged, not as its manifest says, or holds what the table's schema cannot."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"data file {path}: {why}")
        self.path = path
        self.why = why

    def __reduce__(self) -> tuple[type["UnreadableDataFile"], tuple[str, str]]:
        """Pickle by the two parts: the error crosses process boundaries with the task that met it."""
        return type(self), (self.path, self.why)


class UnreachableDataFile(TransientError):
    """Storage did not hand a data file over. That says nothing of the file: it may do so the next time."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"data file {path} cannot be fetched: {why}")
        self.path = path
        self.why = why

    def __reduce__(self) -> tuple[type["UnreachableDataFile"], tuple[str, str]]:
        return type(self), (self.path, self.why)


class UnwritableDataFile(TransientError):
    """Storage does not take a new data file: it is full, or out of reach. The table is as it was."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"data file {path} cannot be written: {why}")
        self.path = path
        self.why = why

    def __reduce__(self) -> tuple[type["UnwritableDataFile"], tuple[str, str]]:
        return type(self), (self.path, self.why)


class NoPartitionForValue(PermanentError):
    """A row cannot move to the table's current spec, which has no partition for one of its values."""

    def __init__(self, field: str, why: str) -> None:
        super().__init__(
            f"partition field {field!r}: {why}, so Iceberg has no partition for it. Compact without useCurrentSpec, or "
            "partition the table by another transform"
        )
        self.field, self.why = field, why

    def __reduce__(self) -> tuple[type["NoPartitionForValue"], tuple[str, str]]:
        return type(self), (self.field, self.why)


class NoRoomToSort(TransientError):
    """Local disk cannot take what a sort has no memory for."""

    def __init__(self, folder: str, size_bytes: int, why: str) -> None:
        super().__init__(
            f"a sort could not put {size_bytes} bytes aside in {folder}: {why}. Give the job more local disk "
            "(TMPDIR says where), or a larger task_memory_bytes"
        )
        self.folder, self.size_bytes, self.why = folder, size_bytes, why

    def __reduce__(self) -> tuple[type["NoRoomToSort"], tuple[str, int, str]]:
        return type(self), (self.folder, self.size_bytes, self.why)
