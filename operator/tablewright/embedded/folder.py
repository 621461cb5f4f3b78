"""Reads a file or a folder of YAML into values, and reports everything that is wrong with it at once."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from tableformat.errors import PermanentError
from tablewright.api.catalog import TableCatalog
from tablewright.api.objects import API_VERSION, InvalidObjectError, KubernetesObject, Resource, parse
from tablewright.api.policy import TablePolicy
from tablewright.api.table import ManagedTable


class InvalidFolderError(PermanentError):
    """Some of the declarations cannot be used; `problems` has a line for each. Nothing was changed."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


@dataclass(frozen=True)
class Declarations:
    catalogs: tuple[TableCatalog, ...]
    policies: tuple[TablePolicy, ...]
    tables: tuple[ManagedTable, ...]


def read_folder(path: Path) -> Declarations:
    if not path.exists():
        raise InvalidFolderError([f"{path}: there is no such file or folder"])
    files = sorted(p for p in path.rglob("*") if p.suffix in (".yaml", ".yml")) if path.is_dir() else [path]
    problems: list[str] = []
    found = _Found()
    for file in files:
        for place, obj in _documents(file, problems):
            try:
                problems += found.add(obj, place)
            except InvalidObjectError as error:
                problems.append(f"{place}: {error}")
    if not files:
        problems.append(f"{path}: there is no .yaml or .yml file in it")
    if problems:
        raise InvalidFolderError(problems)
    return Declarations(tuple(found.catalogs.values()), tuple(found.policies.values()), tuple(found.tables.values()))


def _documents(file: Path, problems: list[str]) -> Iterator[tuple[str, KubernetesObject]]:
    try:
        documents = list(yaml.safe_load_all(file.read_text()))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"{file}:{mark.line + 1}:{mark.column + 1}" if mark else str(file)
        problems.append(f"{where}: {error.problem}")
        return
    for number, document in enumerate(documents, start=1):
        place = f"{file}, document {number}" if len(documents) > 1 else str(file)
        if document is None:
            continue
        if isinstance(document, dict):
            yield place, document
        else:
            problems.append(f"{place}: not a Kubernetes object")


class _Found:
    def __init__(self) -> None:
        self.catalogs: dict[tuple[str, str], TableCatalog] = {}
        self.policies: dict[tuple[str, str], TablePolicy] = {}
        self.tables: dict[tuple[str, str], ManagedTable] = {}

    def add(self, obj: KubernetesObject, place: str) -> list[str]:
        """Takes the object in; returns what is wrong with it."""
        kind, version = obj.get("kind"), obj.get("apiVersion")
        if version != API_VERSION:
            return [f"{place}: apiVersion is {version!r}; it must be {API_VERSION!r}"]
        if kind == ManagedTable.kind_name:
            return _put(self.tables, parse(ManagedTable, obj), place)
        if kind == TableCatalog.kind_name:
            return _put(self.catalogs, parse(TableCatalog, obj), place)
        if kind == TablePolicy.kind_name:
            return _put(self.policies, parse(TablePolicy, obj), place)
        return [f"{place}: kind is {kind!r}; it must be ManagedTable, TableCatalog or TablePolicy"]


def _put(known: dict[tuple[str, str], Resource], value: Resource, place: str) -> list[str]:
    if value.key in known:
        return [f"{place}: {value.kind_name} {'/'.join(value.key)} is declared twice"]
    known[value.key] = value
    return []
