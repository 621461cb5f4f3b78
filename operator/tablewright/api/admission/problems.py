"""One thing that is wrong with an object, and where in it."""

from dataclasses import dataclass

from tableformat.suggestions import did_you_mean
from tablewright.api.objects import sentence

__all__ = ["Path", "Problem", "did_you_mean"]

Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Problem:
    path: Path
    message: str
    at_value: bool = True
    """Whether to point at the field's value; otherwise at its name, as for a field that should not be there."""

    def __str__(self) -> str:
        return sentence(self.path, self.message)
