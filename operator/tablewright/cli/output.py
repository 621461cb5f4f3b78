"""How results are shown: a table as kubectl prints it, or YAML or JSON for programs.

On a terminal some words have a colour; in a pipe, and where NO_COLOR is set, nothing has. Results go to standard
output, everything about the work itself to standard error.
"""

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, StrEnum
from typing import IO, Any


class OutputFormat(StrEnum):
    TABLE = "table"
    WIDE = "wide"
    YAML = "yaml"
    JSON = "json"


class ListFormat(StrEnum):
    """For commands that list things by name."""

    TABLE = "table"
    WIDE = "wide"
    YAML = "yaml"
    JSON = "json"
    NAME = "name"

    @property
    def as_output(self) -> OutputFormat:
        return OutputFormat(self.value)


@dataclass(frozen=True)
class Column:
    title: str
    wide_only: bool = False
    right: bool = False


Cell = str | int | None
_ID = re.compile(r"(.*snapshot[-_]?id|parent[-_]?id)", re.IGNORECASE)
_COLOURS = {
    "32": frozenset({"True", "Succeeded", "fine"}),
    "31": frozenset({"False", "Failed", "refused"}),
    "33": frozenset({"Unknown", "Running", "Pending", "due"}),
}


def echo(text: str = "") -> None:
    sys.stdout.write(text + "\n")


def tell(text: str) -> None:
    """A line about the work, for whoever watches; results are no such lines."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def has_colour(stream: IO[str]) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def painted(line: str, code: str) -> str:
    """In a colour, by its number among the terminal's own."""
    return f"\x1b[{code}m{line}\x1b[0m"


def show(form: OutputFormat, columns: Sequence[Column], rows: Sequence[Sequence[Cell]], document: Any) -> None:
    """The rows for people, or the document that they were made from, for programs."""
    if form is OutputFormat.JSON:
        echo(as_json(document))
    elif form is OutputFormat.YAML:
        echo(as_yaml(document).rstrip())
    else:
        echo(table_text(columns, rows, wide=form is OutputFormat.WIDE, colour=has_colour(sys.stdout)))


def document_of(value: Any) -> Any:
    """A result as programs get it: fields in camelCase as in the API, absent ones left out, snapshot ids as text.

    Snapshot ids have up to 19 digits, and many readers of JSON, jq 1.6 for one, round numbers of more than 15. The keys
    of a mapping are data, such as the names of refs, and stay as they are.
    """
    fields = _fields(value)
    if fields is not None:
        return {camel_case(name): _member(name, inner) for name, inner in fields.items() if inner is not None}
    if isinstance(value, Mapping):
        return {str(key): _member(str(key), inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [document_of(item) for item in value]
    if isinstance(value, Enum):
        return value.value
    return value.isoformat() if isinstance(value, datetime) else value


def camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.title() for word in others)


def _fields(value: Any) -> dict[str, Any] | None:
    """The fields of a dataclass or of a pydantic model; None for any other value."""
    names = getattr(type(value), "model_fields", None) or getattr(type(value), "__dataclass_fields__", None)
    return None if names is None else {name: getattr(value, name) for name in names}


def _member(name: str, value: Any) -> Any:
    return str(value) if isinstance(value, int) and _ID.fullmatch(name) else document_of(value)


def as_json(document: Any) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False, default=str)


def as_yaml(document: Any) -> str:
    import yaml

    text: str = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120)
    return text


def table_text(
    columns: Sequence[Column], rows: Sequence[Sequence[Cell]], *, wide: bool = False, colour: bool = False
) -> str:
    shown = [number for number, column in enumerate(columns) if wide or not column.wide_only]
    texts = [[columns[number].title for number in shown]]
    texts += [[_text(row[number]) for number in shown] for row in rows]
    widths = [max(len(line[place]) for line in texts) for place in range(len(shown))]
    lines = []
    for row, line in enumerate(texts):
        cells = [
            cell.rjust(width) if columns[number].right else cell.ljust(width)
            for cell, width, number in zip(line, widths, shown, strict=True)
        ]
        text = "   ".join(_coloured(cell) if colour and row else cell for cell in cells)
        lines.append(text.rstrip())
    return "\n".join(lines)


def size(count: int) -> str:
    from tablewright.api.quantities import readable_size  # brings the API's types, which `--help` must not wait for

    return readable_size(count)


def signed_size(count: int) -> str:
    return f"+{size(count)}" if count > 0 else size(count)


def _text(cell: Cell) -> str:
    return "-" if cell is None or cell == "" else f"{cell:,}" if isinstance(cell, int) else cell


def _coloured(cell: str) -> str:
    for code, words in _COLOURS.items():
        if cell.strip() in words:
            return painted(cell, code)
    return cell
