"""Reads files and folders of YAML, or standard input, into values, and reports everything that is wrong at once.

Objects of other kinds, which a GitOps folder is full of, are skipped and counted.

An object is judged twice: by the rules of the API server (`api.admission`), so that what passes here passes there, and
by the models, which also know what a CRD cannot say, such as whether a cron expression is one.
"""

import contextlib
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from tableformat.errors import PermanentError
from tableformat.plurals import plural
from tablewright.api.admission import Path as FieldPath
from tablewright.api.admission import Problem, admit, as_stored
from tablewright.api.admission.problems import did_you_mean
from tablewright.api.catalog import TableCatalog
from tablewright.api.objects import GROUP, InvalidObjectError, KubernetesObject, KubernetesResource, Metadata, parse
from tablewright.api.policy import TablePolicy
from tablewright.api.run import MaintenanceRun
from tablewright.api.table import CatalogReference, ManagedTable
from tablewright.decide.policy import selects
from tablewright.embedded.catalogs import EMBEDDED_CATALOG
from tablewright.embedded.documents import STANDARD_INPUT, BrokenYaml, Document, read_documents

_KINDS: dict[str, type[KubernetesResource]] = {
    kind.kind_name: kind for kind in (ManagedTable, TableCatalog, TablePolicy, MaintenanceRun)
}

_RUN_NOTE = "a MaintenanceRun is a cluster's to carry out: it is ignored here, use `tablewright run`"


class Judge(StrEnum):
    """Who would refuse it."""

    YAML = "YAML"
    API_SERVER = "APIServer"
    OPERATOR = "Operator"
    FOLDER = "Folder"


@dataclass(frozen=True)
class Finding:
    place: str
    """The file, with line and column where they are known."""
    message: str
    judge: Judge

    def __str__(self) -> str:
        return f"{self.place}: {self.message}"


class InvalidFolderError(PermanentError):
    """Some of the declarations cannot be used; `problems` has a line for each. Nothing was changed."""

    def __init__(self, findings: list[Finding]) -> None:
        super().__init__("\n".join(map(str, findings)))
        self.findings = findings

    @property
    def problems(self) -> list[str]:
        return [str(finding) for finding in self.findings]


@dataclass(frozen=True)
class Declarations:
    catalogs: tuple[TableCatalog, ...]
    policies: tuple[TablePolicy, ...]
    tables: tuple[ManagedTable, ...]
    sources: Mapping[tuple[str, str], Path]
    """For each table, the file or folder that was given and has it."""
    given: tuple[Path, ...]
    """The files and folders that were given: what is not in them any more is gone. Of standard input nobody knows."""
    notes: tuple[str, ...] = ()
    """What is there and is not for a folder, a line each."""


def read_folder(*paths: Path, strict: bool = False) -> Declarations:
    """What `apply` works from. `strict` refuses objects of other kinds.

    A type or a column that the table library cannot make sense of is not a finding here: it becomes a condition of its
    own table, and the others are served.
    """
    found = _read(paths, strict=strict)
    for document, problem in found.missing_catalogs():
        found.report(document, problem, Judge.FOLDER)
    if found.findings:
        raise InvalidFolderError(sorted(found.findings, key=_in_order))
    return Declarations(
        tuple(found.catalogs.values()),
        tuple(found.policies.values()),
        tuple(found.tables.values()),
        sources=found.sources,
        given=tuple(path.resolve() for path in paths if path != STANDARD_INPUT),
        notes=(
            *found.skipped_note(),
            *found.idle_policies(),
            *(f"{document.place(Problem(('kind',), ''))}: {_RUN_NOTE}" for document in found.runs),
        ),
    )


@dataclass(frozen=True)
class Validation:
    objects: int
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()
    """What a cluster may take, and `plan` and `apply` do not."""
    skipped: Mapping[str, int] = field(default_factory=dict)
    """Objects of other kinds: how many of each."""


def validate_folder(*paths: Path, strict: bool = False) -> Validation:
    """Everything that somebody would refuse: the API server, or the operator once it reads the object."""
    from tableformat.declaration import InvalidDeclarationError
    from tablewright.api.declaration import declaration_of

    found = _read(paths, strict=strict)
    notes = [*found.skipped_note(), *found.idle_policies()]
    for document, problem in found.missing_catalogs():
        if found.has_catalogs:
            found.report(document, problem, Judge.FOLDER)
        else:  # they may be declared elsewhere, in the cluster's other folders
            notes.append(f"{document.place(problem)}: {problem.message}")
    found.report_shared_tables()
    for document, table in found.readable:
        try:
            declaration_of(table)
        except InvalidDeclarationError as error:
            for refusal in error.problems:
                place = _spec_path(document.value, refusal.field)
                if not found.is_said(document, place):
                    message = f"spec.{refusal.field}: {refusal.reason}. {refusal.remedy}."
                    found.findings.append(Finding(document.place(Problem(place, "")), message, Judge.OPERATOR))
    return Validation(found.objects, tuple(sorted(found.findings, key=_in_order)), tuple(notes), found.skipped)


@dataclass
class _Found:
    findings: list[Finding] = field(default_factory=list)
    objects: int = 0
    catalogs: dict[tuple[str, str], TableCatalog] = field(default_factory=dict)
    policies: dict[tuple[str, str], TablePolicy] = field(default_factory=dict)
    tables: dict[tuple[str, str], ManagedTable] = field(default_factory=dict)
    runs: list[Document] = field(default_factory=list)
    sources: dict[tuple[str, str], Path] = field(default_factory=dict)
    skipped: Counter[str] = field(default_factory=Counter)
    documents: dict[tuple[str, tuple[str, str]], Document] = field(default_factory=dict)
    readable: list[tuple[Document, ManagedTable]] = field(default_factory=list)
    """Every table, also one that is there twice or has no name, as far as it can be read."""
    _refused: dict[int, list[FieldPath]] = field(default_factory=dict)
    """What is refused already, by document."""

    def add(self, document: Document, source: Path, *, strict: bool) -> None:
        """Whatever the API server refuses is looked at further, so that one look finds everything that is wrong."""
        obj = document.value
        if isinstance(obj, dict) and obj.get("kind") == "List" and isinstance(obj.get("items"), list):
            for number in range(len(obj["items"])):
                self.add(document.part(("items", number)), source, strict=strict)
            return
        if _is_of_others(document):
            kind = str(obj.get("kind", "Kustomization"))
            self.skipped[kind] += 1
            if strict:
                message = f"kind: {kind} is not a kind of {GROUP}; leave out --strict to skip such objects"
                self.report(document, Problem(("kind",), message), Judge.FOLDER)
            return
        self.objects += 1
        if not isinstance(obj, dict):
            self.report(document, Problem((), "not a Kubernetes object: it has no apiVersion and no kind"))
            return
        problems = admit(obj)
        self._refused[id(document)] = [problem.path for problem in problems]
        for problem in problems:
            self.report(document, problem)
        if any(problem.path[:1] in (("apiVersion",), ("kind",)) for problem in problems):
            return
        stored = as_stored(obj)
        if any(problem.path[:1] == ("metadata",) for problem in problems):  # the rest can be judged without a name
            self._parsed(document, {**stored, "metadata": {"name": "unnamed"}})
            return
        is_first = self._is_first(document, stored)
        value = self._parsed(document, stored)
        if is_first and value is not None:
            self._take(document, value, source)

    def skipped_note(self) -> Iterator[str]:
        if count := self.skipped.total():
            kinds = ", ".join(f"{number} {kind}" for kind, number in sorted(self.skipped.items()))
            yield f"skipped {plural(count, 'object')} of other kinds: {kinds}"

    def _parsed(self, document: Document, obj: KubernetesObject) -> KubernetesResource | None:
        kind = _KINDS[obj["kind"]]
        try:
            value = parse(kind, obj)
        except InvalidObjectError as error:
            for path, message in error.fields:
                if not self.is_said(document, path):
                    self.report(document, Problem(path, message), Judge.OPERATOR)
            self._refused[id(document)] += [path for path, _ in error.fields]
            if kind is ManagedTable:
                self._read_the_rest(document, obj)
            return None
        if isinstance(value, ManagedTable):
            self.readable.append((document, value))
        return value

    def _read_the_rest(self, document: Document, obj: KubernetesObject) -> None:
        """Without the parts of its spec that are refused; without those that the others are judged by there is none."""
        refused = {part for path in self._refused[id(document)] for part in path[1:2] if path[0] == "spec"}
        if not isinstance(obj.get("spec"), dict) or refused & {"schema", "formatVersion"}:
            return
        spec = {part: value for part, value in obj["spec"].items() if part not in refused}
        with contextlib.suppress(InvalidObjectError):
            rest = parse(ManagedTable, {**obj, "spec": {"catalogRef": {"name": "unnamed"}, **spec}})
            self.readable.append((document, rest))

    def is_said(self, document: Document, path: FieldPath) -> bool:
        """Whether something is said about this field, or one around or inside it: once is enough."""
        return any(said[: len(path)] == path[: len(said)] for said in self._refused.get(id(document), ()))

    def idle_policies(self) -> Iterator[str]:
        """Where a folder has tables, a policy that selects none of them has a mistyped selector or namespace."""
        for key, policy in sorted(self.policies.items()) if self.tables else ():
            if not any(selects(policy, table) for table in self.tables.values()):
                place = self.documents[TablePolicy.kind_name, key].place(Problem(("spec", "selector"), ""))
                remedy = f"Compare spec.selector with the labels of the tables in namespace {key[0]}"
                yield f"{place}: TablePolicy {'/'.join(key)} selects no table of the folder. {remedy}."

    def _take(self, document: Document, value: KubernetesResource, source: Path) -> None:
        match value:
            case ManagedTable():
                self.tables[value.key], self.sources[value.key] = value, source
            case TableCatalog():
                self.catalogs[value.key] = value
            case TablePolicy():
                self.policies[value.key] = value
            case MaintenanceRun():
                self.runs.append(document)

    def _is_first(self, document: Document, obj: KubernetesObject) -> bool:
        metadata = Metadata.model_validate(obj["metadata"])
        key = metadata.namespace, metadata.name
        known = self.documents.setdefault((obj["kind"], key), document)
        if known is not document:
            first = known.place(Problem(("metadata", "name"), ""))
            message = f"{obj['kind']} {'/'.join(key)} is declared twice: it is in {first} already"
            self.report(document, Problem(("metadata", "name"), message), Judge.FOLDER)
        return known is document

    @property
    def has_catalogs(self) -> bool:
        return any(kind == TableCatalog.kind_name for kind, _ in self.documents)

    def missing_catalogs(self) -> Iterator[tuple[Document, Problem]]:
        """Where none is declared, a folder's tables are in the embedded one; otherwise each is in one of those."""
        declared = sorted(key for kind, key in self.documents if kind == TableCatalog.kind_name)
        place = ("spec", "catalogRef", "name")
        for (kind, (namespace, _)), document in self.documents.items():
            name = _catalog_named(document.value) if kind == ManagedTable.kind_name else None
            if name is None or self.is_said(document, place):
                continue
            message = f"spec.catalogRef.name: there is no TableCatalog {namespace}/{name} in the folder"
            if declared and (namespace, name) not in declared:
                near = [other for space, other in declared if space == namespace]
                hint = did_you_mean(name, near) if near else f"declared are {', '.join(map('/'.join, declared))}"
                yield document, Problem(place, f"{message}: {hint}")
            elif not declared and name != EMBEDDED_CATALOG:
                remedy = f'Declare it, or write "{EMBEDDED_CATALOG}" for the embedded catalog'
                yield document, Problem(place, f"{message}. {remedy}.")

    def report_shared_tables(self) -> None:
        """A folder is served all the same: the first by name has the table."""
        first: dict[tuple[str, CatalogReference, tuple[str, str]], ManagedTable] = {}
        for key, table in sorted(self.tables.items()):
            holder = first.setdefault((table.metadata.namespace, table.spec.catalog_ref, table.identifier), table)
            if holder is not table:
                document = self.documents[ManagedTable.kind_name, key]
                field = ("spec", "identifier") if table.spec.identifier is not None else ("metadata", "name")
                message = (
                    f"{'.'.join(field)}: the table {'.'.join(table.identifier)} is declared by ManagedTable "
                    f"{'/'.join(holder.key)} already: delete one of the two, or name another table"
                )
                self.report(document, Problem(field, message), Judge.FOLDER)

    def report(self, document: Document, problem: Problem, judge: Judge = Judge.API_SERVER) -> None:
        text = " ".join((problem.message if judge is Judge.FOLDER else str(problem)).split())
        self.findings.append(Finding(document.place(problem), text, judge))


def _read(paths: Sequence[Path], *, strict: bool) -> _Found:
    found = _Found()
    seen: set[Path] = set()
    for path in paths:
        if path != STANDARD_INPUT and not path.exists():
            raise InvalidFolderError([Finding(str(path), "there is no such file or folder", Judge.FOLDER)])
        files = declaration_files(path)
        if not files and not (path / ".tablewright").is_dir():  # otherwise the last object was deleted: it is forgotten
            raise InvalidFolderError([Finding(str(path), "there is no .yaml or .yml file in it", Judge.FOLDER)])
        source = path if path == STANDARD_INPUT else path.resolve()
        for file in [file for file in files if file.resolve() not in seen]:
            seen.add(file.resolve())
            for document in read_documents(file):
                if isinstance(document, BrokenYaml):
                    found.findings.append(Finding(document.place, document.message, Judge.YAML))
                else:
                    found.add(document, source, strict=strict)
    return found


def _is_of_others(document: Document) -> bool:
    """A file for kustomize needs neither an apiVersion nor a kind. Our kind in another group is a typo in the group."""
    obj = document.value
    if not isinstance(obj, dict):
        return False
    version, kind = obj.get("apiVersion"), obj.get("kind")
    if version is None and kind is None:
        return document.file.stem == "kustomization"
    if not isinstance(version, str) or not isinstance(kind, str):
        return False
    return not version.startswith(f"{GROUP}/") and kind not in _KINDS


def declaration_files(path: Path) -> list[Path]:
    """What lies in hidden folders, such as the state's own, is nobody's declaration. They are not even looked into: a
    warehouse has a million files, and folders that come and go."""
    if not path.is_dir():
        return [path]
    found = []
    for folder, inner, names in os.walk(path):
        inner[:] = [name for name in inner if not name.startswith(".")]
        files = (Path(folder, name) for name in names if not name.startswith("."))
        found += [file for file in files if file.suffix in (".yaml", ".yml") and file.is_file()]
    return sorted(found)


def _spec_path(obj: KubernetesObject, field_text: str) -> tuple[str | int, ...]:
    """A refusal names a column by its name (`schema.columns[ts].type`); in the file it has a number."""
    path: list[str | int] = ["spec"]
    node = obj.get("spec")
    for name, _, key in re.findall(r"([A-Za-z]+)(\[([^\]]*)\])?", field_text):
        path.append(name)
        node = node.get(name) if isinstance(node, dict) else None
        if key and isinstance(node, list):
            names = (key, key.split(".")[0])  # a field inside a column has no line of its own
            number = next((n for n, item in enumerate(node) if {*_names_of(item)} & {*names}), None)
            if number is None:
                break
            path.append(number)
            node = node[number]
    return tuple(path)


def _catalog_named(table: KubernetesObject) -> str | None:
    """By an object that may be wrong elsewhere, or here."""
    name: Any = table
    for part in ("spec", "catalogRef", "name"):
        name = name.get(part) if isinstance(name, dict) else None
    return name if isinstance(name, str) else None


def _names_of(item: Any) -> tuple[Any, ...]:
    return (item.get("name"), item.get("column")) if isinstance(item, dict) else (item,)


def _in_order(finding: Finding) -> tuple[str, int, int]:
    place = re.fullmatch(r"(.*?)(?::(\d+):(\d+))?", finding.place, re.DOTALL)
    file, line, column = place.groups(0) if place else (finding.place, 0, 0)
    return str(file), int(line), int(column)
