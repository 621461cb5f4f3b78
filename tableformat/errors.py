"""The base of every error that is ours, so that callers tell what to retry from what to report by type alone.

An error says what was wrong, where, and what to do about it. PyIceberg's own domain errors (`NoSuchTableError`,
`CommitFailedException`, `CommitStateUnknownException` and their kin) are used as they are where they exist; these
are for what PyIceberg has no name for. Never decide by matching an error's text.
"""


class TablewrightError(Exception):
    """Something went wrong that the message explains: what, where, and what to do."""

    reason: str = "TablewrightError"
    """One CamelCase word for conditions and alerts, which people write rules on: the class's name, without `Error`."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "reason" not in cls.__dict__:
            cls.reason = cls.__name__.removesuffix("Error")


class TransientError(TablewrightError):
    """May get better by itself: try again later."""


class PermanentError(TablewrightError):
    """Will not get better by itself: somebody has to change something first."""
