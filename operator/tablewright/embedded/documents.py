"""YAML files as plain values, each with the line and column of every field, so that a problem can be pointed at.

Scalars mean what they mean to kubectl: `22:00` and `2026-09-30T23:59:59Z` are text, which PyYAML by itself would turn
into a number and a date. A key that is there twice in one mapping is an error, as it is to the API server.
"""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from tableformat.suggestions import quoted
from tablewright.api.admission import Path as FieldPath
from tablewright.api.admission import Problem

STANDARD_INPUT = Path("-")
_DEEPEST = 100
_MOST_FIELDS = 500_000


@dataclass(frozen=True)
class Position:
    line: int
    column: int


@dataclass(frozen=True)
class Document:
    """One document of a file: its value, and where its fields are."""

    file: Path
    value: Any
    names: dict[FieldPath, Position]
    values: dict[FieldPath, Position]

    def place(self, problem: Problem) -> str:
        """The problem's position, or that of the nearest field around it which is there."""
        path = problem.path
        positions = self.values if problem.at_value else self.names
        while path and path not in positions:
            path, positions = path[:-1], self.values
        position = positions.get(path, self.values[()])
        return f"{self.file}:{position.line}:{position.column}"

    def part(self, path: FieldPath) -> "Document":
        """The object at this path, as a document of its own."""
        value, deep = self.value, len(path)
        for step in path:
            value = value[step]
        names = {inner[deep:]: place for inner, place in self.names.items() if inner[:deep] == path}
        values = {inner[deep:]: place for inner, place in self.values.items() if inner[:deep] == path}
        return Document(self.file, value, names, values)


@dataclass(frozen=True)
class BrokenYaml:
    """A file, or a part of it, that cannot be read at all."""

    place: str
    message: str


class _Loader(yaml.SafeLoader):
    """Like PyYAML's safe loader, with Kubernetes' idea of what a plain scalar is."""

    yaml_implicit_resolvers = {}  # noqa: RUF012 - PyYAML's own attribute, which the calls below fill


_NUMBER = "-+0123456789"
_FLOAT = r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?|[-+]?\.inf|\.nan"
_INT = r"[-+]?0b[01_]+|[-+]?0o?[0-7_]+|[-+]?(?:0|[1-9][0-9_]*)|[-+]?0x[0-9a-fA-F_]+"
for _tag, _pattern, _first in (
    ("bool", r"yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF", "yYnNtTfFoO"),
    ("int", _INT, _NUMBER),
    ("float", _FLOAT, _NUMBER + "."),
    ("merge", r"<<", "<"),
    ("null", r"~|null|Null|NULL", "~nN"),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"^(?:{_pattern})$"), [*_first])
_Loader.add_implicit_resolver("tag:yaml.org,2002:null", re.compile(r"^$"), [""])


def read_documents(file: Path) -> Iterator[Document | BrokenYaml]:
    try:
        text = sys.stdin.read() if file == STANDARD_INPUT else file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        yield BrokenYaml(str(file), f"is not UTF-8 text (byte {error.start})")
        return
    except OSError as error:
        yield BrokenYaml(str(file), f"cannot be read: {error.strerror}")
        return
    try:
        loader = _Loader(text)
        while loader.check_node():
            node = loader.get_node()
            if node is None or (isinstance(node, ScalarNode) and node.tag == "tag:yaml.org,2002:null"):
                continue  # nothing between two separators
            yield _document(file, loader, node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"{file}:{mark.line + 1}:{mark.column + 1}" if mark else str(file)
        problem = f"{error.context}: {error.problem}" if error.context else str(error.problem)
        yield BrokenYaml(where, f"{problem}{_hint(problem)}")
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        yield BrokenYaml(f"{file}:{line}:1", f"{error.reason}: {chr(error.character)!r}")
    except RecursionError:
        yield BrokenYaml(str(file), "is nested too deeply to be read")
    except ValueError as error:
        yield BrokenYaml(str(file), str(error))


# What people mostly mean by what YAML's parser stumbles over.
_HINTS = {
    "scanning an alias": 'put text that begins with * in quotes, for example "*/30 * * * *"',
    "found character '\\t'": "indent with spaces; YAML takes no tabs",
    "mapping values are not allowed here": "look for a colon without a space after it, or for wrong indentation",
    "expected <block end>": "look at the indentation: entries of one list or object begin in one column",
    "constructor for the tag": "remove the tag",
    "found unexpected end of stream": "look for a quotation mark that is not closed",
}


def _hint(problem: str) -> str:
    return next((f"; {hint}" for words, hint in _HINTS.items() if words in problem), "")


def _document(file: Path, loader: _Loader, node: Node) -> Document:
    names: dict[FieldPath, Position] = {}
    values: dict[FieldPath, Position] = {}
    _find(node, (), names, values)
    return Document(file, loader.construct_document(node), names, values)


def _find(node: Node, path: FieldPath, names: dict[FieldPath, Position], values: dict[FieldPath, Position]) -> None:
    if len(path) > _DEEPEST or len(values) > _MOST_FIELDS:
        reason = "more than can be read; look for an alias that contains itself, or others many times over"
        raise yaml.constructor.ConstructorError("too deep or too large", None, reason, node.start_mark)
    values[path] = _position(node)
    if isinstance(node, MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            name = key.value if isinstance(key, ScalarNode) else str(key)
            if name in seen:
                reason = f"the field {quoted(name)} is there twice; remove one of the two"
                raise yaml.constructor.ConstructorError(None, None, reason, key.start_mark)
            seen.add(name)
            names[(*path, name)] = _position(key)
            _find(value, (*path, name), names, values)
        _find_merged(path, names, values)
    elif isinstance(node, SequenceNode):
        for number, item in enumerate(node.value):
            names[(*path, number)] = _position(item)
            _find(item, (*path, number), names, values)


def _find_merged(path: FieldPath, names: dict[FieldPath, Position], values: dict[FieldPath, Position]) -> None:
    """What `<<` brings into a mapping is among its fields, unless the mapping has one of that name itself."""
    merged, deep = (*path, "<<"), len(path)
    if merged not in values:
        return
    own = {inner[deep] for inner in names if len(inner) == deep + 1 and inner[:deep] == path}
    for positions in (names, values):
        for inner in [each for each in positions if each[: deep + 1] == merged]:
            rest = inner[deep + 1 :]
            rest = rest[1:] if rest and isinstance(rest[0], int) else rest  # of several mappings
            if rest and rest[0] not in own:
                positions.setdefault((*path, *rest), positions[inner])


def _position(node: Node) -> Position:
    return Position(node.start_mark.line + 1, node.start_mark.column + 1)
