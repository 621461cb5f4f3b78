"""Reads files and folders of YAML, or standard input, into values, and reports everything that is wrong at once.

Objects of other kinds, which a GitOps folder is full of, are skipped and counted.

An object is judged twice: by the rules of the API server (`api.admission`), so that what passes here passes there, and
by the models, which also know what a CRD cannot say, such as whether a cron expression is one.
"""

import contextlib
import copy
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tableformat.errors import PermanentError
from tableformat.plurals import plural
from tableformat.suggestions import did_you_mean
from tablewright.api.admission import Path as FieldPath
from tablewright.api.admission import Problem, admit, as_stored
from tablewright.api.catalog import TableCatalog
from tablewright.api.objects import (
    GROUP,
    MISSING,
    InvalidObjectError,
    KubernetesObject,
    KubernetesResource,
    Metadata,
    parse,
)
from tablewright.api.policy import TableLayout, TablePolicy
from tablewright.api.run import MaintenanceRun
from tablewright.api.table import CatalogReference, ManagedTable, ManagementPolicy
from tablewright.decide.policy import effective_policy, selects
from tablewright.embedded.catalogs import EMBEDDED_CATALOG
from tablewright.embedded.documents import STANDARD_INPUT, BrokenYaml, Document, read_documents
from tablewright.embedded.entries import column_at, prune, spec_path, without_gaps

if TYPE_CHECKING:
    from tableformat.declaration import Refusal
    from tablewright.decide.feasibility import ImpossibleRun, TableFacts

_KINDS: dict[str, type[KubernetesResource]] = {
    kind.kind_name: kind for kind in (ManagedTable, TableCatalog, TablePolicy, MaintenanceRun)
}

_LEVELS = {"policy": TablePolicy.kind_name, "catalog": TableCatalog.kind_name}
_MOST_PRUNINGS = 5  # what is wrong in what is left then is not worth another round
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
    tell: Callable[[], Iterable[str]] = tuple

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What people should know of it, a line each. Whoever does not show them does not wait for what finds them."""
        return tuple(self.tell())


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
        tell=found.notes,
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
    found = _read(paths, strict=strict)
    notes = [*found.skipped_note(), *found.idle_policies()]
    if not (found.objects or found.skipped or found.findings):
        notes.append(f"{', '.join(map(str, paths))}: there is no object in it")
    for document, problem in found.missing_catalogs():
        if found.has_catalogs:
            found.report(document, problem, Judge.FOLDER)
        else:  # they may be declared elsewhere, in the cluster's other folders
            notes.append(f"{document.place(problem)}: {problem.message}")
    found.report_shared_tables()
    for readable in found.readable:
        found.report_declaration(readable)
        for document, path, message in found.impossible_runs(readable):
            if not found.is_said(document, path):
                found.findings.append(Finding(document.place(Problem(path, "")), message, Judge.OPERATOR))
        unread = found.unread_numbers(readable)
        notes += [f"{document.place(Problem(path, ''))}: {message}" for document, path, message in unread]
    return Validation(found.objects, tuple(sorted(found.findings, key=_in_order)), tuple(notes), found.skipped)


@dataclass(frozen=True)
class _Readable:
    """A table, as far as it can be read."""

    document: Document
    table: ManagedTable
    unread: frozenset[str] = frozenset()
    """Columns of which something could not be read: what else is wrong with them cannot be said."""

    def is_unsure(self, refusal: "Refusal") -> bool:
        fields = (f"[{name}]" in refusal.field or f"[{name}." in refusal.field for name in self.unread)
        return any(fields) or any(repr(name) in refusal.reason for name in self.unread)


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
    readable: list["_Readable"] = field(default_factory=list)
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
        if any(problem.path[:1] == ("kind",) for problem in problems):
            return
        stored = as_stored(obj)
        if any(problem.path[:1] == ("metadata",) for problem in problems):  # the rest can be judged without a name
            self._parsed(document, {**stored, "metadata": {"name": "unnamed"}})
            return
        is_first = self._is_first(document, stored)
        value = self._parsed(document, stored)
        if is_first and value is not None:
            self._take(document, value, source)

    def notes(self) -> Iterator[str]:
        """What is there and is not for a folder, and what `apply` does and cannot succeed."""
        yield from self.skipped_note()
        yield from self.idle_policies()
        for readable in self.readable:
            for document, path, message in (*self.impossible_runs(readable), *self.unread_numbers(readable)):
                yield f"{document.place(Problem(path, ''))}: {message}"
        yield from (f"{document.place(Problem(('kind',), ''))}: {_RUN_NOTE}" for document in self.runs)

    def unread_numbers(self, readable: "_Readable") -> Iterator[tuple[Document, FieldPath, str]]:
        """No error: a table that is adopted has the properties that it has."""
        from tableformat.properties import unread_numbers

        for name, value in unread_numbers(readable.table.spec.properties):
            unit = " of bytes" if name.endswith("-bytes") else " of milliseconds" if name.endswith("-ms") else ""
            message = (
                f"spec.properties[{name}]: {value[:100]!r} is not a whole number{unit}, and engines may fail on it"
            )
            yield readable.document, ("spec", "properties", name), message

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
                    at_value = not message.startswith(("unknown field", MISSING))
                    self.report(document, Problem(path, message, at_value=at_value), Judge.OPERATOR)
            self._refused[id(document)] += [path for path, _ in error.fields]
            if kind is ManagedTable:
                self._read_the_rest(document, obj, error)
            return None
        if isinstance(value, ManagedTable):
            self.readable.append(_Readable(document, value))
        return value

    def _read_the_rest(self, document: Document, obj: KubernetesObject, error: InvalidObjectError) -> None:
        """Without the fields that are refused, and without what cannot be read without them."""
        rest, unread = copy.deepcopy(obj), set[str]()
        for _ in range(_MOST_PRUNINGS):
            for path, _message in error.fields:
                unread |= column_at(rest, path)
            pruned = [prune(rest, path) for path, _message in error.fields]
            if not all(pruned):
                return
            rest = without_gaps(rest)
            rest["spec"].setdefault("catalogRef", {"name": "unnamed"})
            try:
                self.readable.append(_Readable(document, parse(ManagedTable, rest), frozenset(unread)))
            except InvalidObjectError as next_error:
                error = next_error
            else:
                return

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

    def report_declaration(self, readable: _Readable) -> None:
        """What the table library refuses, whatever the table looks like."""
        from tableformat.declaration import InvalidDeclarationError
        from tablewright.api.declaration import declaration_of

        try:
            declaration_of(readable.table)
        except InvalidDeclarationError as error:
            for refusal in error.problems:
                document, path = readable.document, spec_path(readable.document.value, refusal.field, refusal.nth)
                if not self.is_said(document, path) and not readable.is_unsure(refusal):
                    self.findings.append(Finding(document.place(Problem(path, "")), f"spec.{refusal}", Judge.OPERATOR))
                    self._refused.setdefault(id(document), []).append(path)

    def impossible_runs(self, readable: _Readable) -> Iterator[tuple[Document, FieldPath, str]]:
        """What would let every run fail: each where it is declared, which may be a policy or the catalog."""
        from tablewright.decide.feasibility import impossible_runs, wanted_operations

        table = readable.table
        catalog = self.catalogs.get((table.metadata.namespace, table.spec.catalog_ref.name))
        policy = effective_policy(table, self.policies.values(), catalog)
        wanted, origins = wanted_operations(policy), {field.field: field.origin for field in policy.fields}
        if table.spec.management_policy is ManagementPolicy.OBSERVE_ONLY:
            return
        for each in impossible_runs(table, policy, _facts(table)):
            # A property or a column may be meant for others; a setting of maintenance is meant for its runs.
            is_setting = not each.field.startswith(("properties", "schema", "location"))
            origin = origins.get(each.field, "table")
            if each.operation in wanted or (is_setting and origin == "table"):
                yield self._declared_at(readable, each, origin)

    def _declared_at(self, readable: _Readable, each: "ImpossibleRun", origin: str) -> tuple[Document, FieldPath, str]:
        level, _, name = origin.partition("/")
        key = (readable.table.metadata.namespace, name)
        for kind, prefix in (("policy", ()), ("catalog", ("maintenance",))):
            document = self.documents.get((_LEVELS[kind], key)) if level == kind else None
            if document is not None:
                path = ("spec", *prefix, *each.field.split("."))
                table = f"ManagedTable {'/'.join(readable.table.key)}"
                return document, path, f"{'.'.join(path)}: for {table}: {each.reason}. {each.remedy}."
        return readable.document, spec_path(readable.document.value, each.field), f"spec.{each}"

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


def _facts(table: ManagedTable) -> "TableFacts":
    """What can be known of the table that is declared; wrong properties leave its columns to be judged."""
    from tableformat.declaration import InvalidDeclarationError
    from tablewright.api.declaration import declaration_of
    from tablewright.decide.feasibility import TableFacts

    columns = table.spec.model_copy(update={"properties": {}, "layout": TableLayout()})
    for each in (table, table.model_copy(update={"spec": columns})):
        with contextlib.suppress(InvalidDeclarationError):
            return replace(TableFacts.of_declaration(declaration_of(each)), properties=table.spec.properties)
    return TableFacts(None, table.spec.properties)


def _catalog_named(table: KubernetesObject) -> str | None:
    """By an object that may be wrong elsewhere, or here."""
    name: Any = table
    for part in ("spec", "catalogRef", "name"):
        name = name.get(part) if isinstance(name, dict) else None
    return name if isinstance(name, str) else None


def _in_order(finding: Finding) -> tuple[str, int, int]:
    place = re.fullmatch(r"(.*?)(?::(\d+):(\d+))?", finding.place, re.DOTALL)
    file, line, column = place.groups(0) if place else (finding.place, 0, 0)
    return str(file), int(line), int(column)
