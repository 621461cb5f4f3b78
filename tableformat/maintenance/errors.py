"""Why maintenance leaves a table alone."""

from tableformat.errors import PermanentError


class UnsupportedTable(PermanentError):
    """The table cannot be rewritten exactly, so it is not rewritten at all."""

    def __init__(self, table: str, reason: str, remedy: str) -> None:
        super().__init__(f"table {table} is left alone: {reason}. {remedy}")
        self.table = table
        self.reason = reason
        self.remedy = remedy
