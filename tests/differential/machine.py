"""The differential machine: what Iceberg's own reader sees of a table must not change by what ours does to it.

The steps of a case run in their order. After each operation of ours the reference reads main and checks what the
manifests claim; after the last one it reads every ref and snapshot. What an operation is meant to change (expiry,
rollback, cherry-pick) the reference does as well, on a fork of the metadata, and its result is the expected one.
"""

import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table

from tableformat.catalogs import SqlConfig, open_catalog
from tests.differential import operations
from tests.differential.cases import OURS, Case, Step
from tests.differential.operations import IDENTIFIER
from tests.differential.reference import JavaError, Reference

MAIN = "ref main"
Contents = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Failure:
    case: Case
    kind: str
    text: str
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        steps = "\n".join(f"  {json.dumps(step)}" for step in self.case.steps)
        notes = "\n".join(f"  {note}" for note in self.notes)
        return (
            f"seed {self.case.seed}: {self.kind}: {self.text}\nsteps, at {self.case.location!r}:\n{steps}\n"
            f"what became of them:\n{notes}\nrun it again: python -m tests.differential --seed {self.case.seed}"
        )


class _Wrong(Exception):
    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


@dataclass
class _State:
    """A table between two steps, as the reference sees it."""

    contents: Contents
    """Of refs and snapshots; their errors where the reference cannot read them."""
    entries: dict[str, str]
    known: set[str] = field(default_factory=set)
    """Paths of what the reference wrote."""
    written: set[str] = field(default_factory=set)
    """Paths of what ours wrote."""
    broken: set[str] = field(default_factory=set)
    """Claims that files of the reference broke before ours did anything: rewritten, their rows still do."""
    errors: set[str] = field(default_factory=set)
    """What the reference said of what it could not read, before ours touched it or as expected."""


class Machine:
    def __init__(self) -> None:
        self._reference = Reference()
        self._folder = Path(tempfile.mkdtemp(prefix="differential-"))
        self._catalog = open_catalog(
            SqlConfig(
                name="t", uri=f"sqlite:///{self._folder}/catalog.db", warehouse=f"file://{self._folder}/warehouse"
            )
        )
        self._catalog.create_namespace("db")
        self.refusals: Counter[str] = Counter()
        self.operations: Counter[str] = Counter()
        self.left_out: Counter[str] = Counter()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._catalog.close()
        self._reference.stop()
        shutil.rmtree(self._folder)

    def check(self, case: Case) -> Failure | None:
        notes: list[str] = []
        folder = self._folder / "case"
        try:
            self._check(case, folder, notes)
        except _Wrong as wrong:
            return Failure(case, wrong.kind, str(wrong), tuple(notes))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            with suppress(NoSuchTableError):
                self._catalog.drop_table(IDENTIFIER)
        return None

    def _check(self, case: Case, folder: Path, notes: list[str]) -> None:
        location, metadata = f"file://{folder}/{case.location}", None
        state = _State({}, {})
        for is_ours, steps in groupby(case.steps, key=lambda step: step["do"] in OURS):
            if not is_ours:
                asked = {"location": location, "folder": f"file://{folder}", "metadata": metadata, "steps": list(steps)}
                answer = self._reference.ask("steps", **asked)
                notes += answer["notes"]
                self.left_out.update(note.split(":")[0] for note in answer["notes"] if " left out: " in note)
                metadata = answer["metadata"]
                if metadata is None:
                    return
                state = self._look(metadata, state)
                self._register(metadata)
            elif metadata is not None:
                for step in steps:
                    metadata = self._operate(step, metadata, state, notes)
                self._compare_all(metadata, state)

    def _register(self, metadata: str) -> None:
        try:
            self._catalog.register_table(IDENTIFIER, metadata, overwrite=True)
        except Exception as error:
            raise _Wrong("not registered", f"{type(error).__name__}: {error}") from error

    def _look(self, metadata: str, before: _State) -> _State:
        contents = self._rows(metadata)
        files = set(self._reference.ask("files", metadata=metadata)["files"]) - before.written
        entries = self._reference.ask("claims", metadata=metadata, known=list(files | before.written))["entries"]
        return _State(
            contents,
            entries,
            files | before.known,
            before.written,
            before.broken,
            before.errors | _errors(contents),
        )

    def _rows(self, metadata: str, only: list[str] | None = None) -> Contents:
        contents: Contents = self._reference.ask("rows", metadata=metadata, only=only)
        # Rows of a table that was upgraded get their ids with the next commit: which have none is seen by the texts.
        anonymous = [key for key, rows in contents.items() if rows.get("without_id")]
        if anonymous:
            contents |= self._reference.ask("rows", metadata=metadata, only=anonymous, full=True)
        return contents

    def _operate(self, step: Step, metadata: str, state: _State, notes: list[str]) -> str:
        table = self._catalog.load_table(IDENTIFIER)
        now = operations.clock(table)
        expected = self._expected(step, metadata, state, now)
        outcome = operations.run(self._catalog, step, now=now)
        after = self._catalog.load_table(IDENTIFIER).metadata_location
        self.operations[step["do"]] += 1
        if outcome.refusal is not None:
            self.refusals[outcome.refusal.split("/")[0][:100]] += 1
        notes.append(f"{step['do']}: {outcome.refusal or outcome.failure or after}")
        if outcome.refused_as and "error" in state.contents.get(MAIN, {}):
            return after  # nobody can say what is in a table that the reference cannot read
        if outcome.failure is not None:
            raise _Wrong(f"{step['do']} failed", outcome.failure)
        if outcome.refusal is not None and after == metadata:
            return after
        if outcome.refusal is not None and not step.get("options", {}).get("commit_every_tasks"):
            raise _Wrong("refused and changed", outcome.refusal)
        if step["do"] == "delete expired rows":
            self._require_young(step, table, metadata, after, is_partial=outcome.is_partial)
            expected |= self._rows(after, [MAIN])
        state.contents = expected
        found = self._rows(after, [MAIN])
        lineage = step["do"] != "publish"
        _require_same(MAIN, expected.get(MAIN), found.get(MAIN), self._texts(metadata, after, MAIN), lineage=lineage)
        if step["do"] == "publish" and MAIN in found:
            state.contents[MAIN] = found[MAIN]
        state.errors |= _errors(expected) | _errors(found)
        self._check_claims(step, metadata, after, state)
        return after

    def _require_young(self, step: Step, table: Table, before: str, after: str, *, is_partial: bool) -> None:
        """All rows that are young enough are there; of the others, some only where files stayed as they are."""
        young = operations.young_rows(step, table)
        asked = {"only": [MAIN], "full": True}
        old = self._reference.ask("rows", metadata=before, **asked).get(MAIN, {})
        kept = self._reference.ask("rows", metadata=before, young=young, **asked).get(MAIN, {}) if young else old
        found = self._reference.ask("rows", metadata=after, **asked).get(MAIN, {})
        if "texts" not in old or "texts" not in kept:
            return
        if "texts" not in found:
            raise _Wrong("unreadable", f"{MAIN}: {found.get('error')}")
        # Rows that had no id yet get one.
        was, want, has = (
            Counter(map(_without_lineage, rows["texts"]) if old["without_id"] else rows["texts"])
            for rows in (old, kept, found)
        )
        if want - has or has - was or (has != want and not is_partial):
            lines = [*_lines("lost", want - has), *_lines("not expired", has - want)]
            raise _Wrong(
                "rows",
                f"{MAIN}: of {was.total()} rows {want.total()} are young, and {has.total()} are there\n"
                + "\n".join(lines),
            )

    def _expected(self, step: Step, metadata: str, state: _State, now: Any) -> Contents:
        """What the reference makes of the table by the same operation."""
        fork: Step | None = None
        table = self._catalog.load_table(IDENTIFIER)
        match step["do"]:
            case "expire snapshots":
                options = operations.expiry_options(step, table, now)
                assert options.max_snapshot_age_ms is not None
                before = int(now.timestamp() * 1000) - options.max_snapshot_age_ms
                fork = {"do": "expire", "before": before, "keep": options.min_snapshots_to_keep}
            case "roll back":
                target = operations.rollback_target(step, table)
                fork = {"do": "rollback", "snapshot": target}
            case "publish":
                staged = operations.staged_snapshot(step, table)
                fork = None if staged is None else {"do": "cherry-pick", "snapshot": staged}
        if fork is None:
            return dict(state.contents)
        answer = self._reference.ask("steps", metadata=metadata, steps=[fork])
        if " left out: " in answer["notes"][0]:
            return dict(state.contents)
        made = self._rows(answer["metadata"])
        # Of a snapshot that is committed for this, the reference's own has another id.
        return made if step["do"] == "expire snapshots" else {**state.contents, MAIN: made[MAIN]}

    def _check_claims(self, step: Step, before: str, metadata: str, state: _State) -> None:
        answer = self._reference.ask("claims", metadata=metadata, known=list(state.known))
        violations: list[str] = answer["violations"]
        if violations:  # Java's ORC library moves some times, and then its own files break the same claim
            own = self._reference.ask("claims", metadata=before, known=list(state.written))["violations"]
            state.broken |= set(map(_claim, own))
            violations = [text for text in violations if _claim(text) not in state.broken]
        violations = [text for text in violations if not any(error in text for error in state.errors)]
        if violations:
            raise _Wrong("claims", "\n".join(violations))
        entries: dict[str, str] = answer["entries"]
        if step["do"] not in ("publish", "roll back"):
            for path, claims in entries.items():
                before = state.entries.get(path, claims)
                if before not in (claims, claims.partition(" first row ")[0] + " first row null"):
                    raise _Wrong("entries", f"{path} was\n  {before}\nand is\n  {claims}")
        state.entries = entries
        state.written |= {path.partition(" at ")[0] for path in entries} - state.known

    def _compare_all(self, metadata: str, state: _State) -> None:
        found = self._rows(metadata)
        for key, expected in state.contents.items():
            if key not in found:
                raise _Wrong("lost", f"{key} is gone")
            _require_same(key, expected, found[key], lambda: "", lineage=True)
        for key in found.keys() - state.contents.keys():
            if key.startswith("ref ") and not key.startswith("ref tablewright-hold-"):
                raise _Wrong("not expired", f"{key} is still there")
            if not _errors({key: found[key]}) <= state.errors:
                raise _Wrong("unreadable", f"{key}: {found[key]['error']}")
        state.contents = found

    def _texts(self, before: str, after: str, key: str) -> Any:
        """How the rows differ, for whoever reads the failure."""

        def differences() -> str:
            texts = []
            for metadata in (before, after):
                try:
                    texts.append(
                        self._reference.ask("rows", metadata=metadata, only=[key], full=True)[key].get("texts", [])
                    )
                except (JavaError, KeyError):
                    return ""
            lost, new = Counter(texts[0]) - Counter(texts[1]), Counter(texts[1]) - Counter(texts[0])
            return "\n".join(_lines("lost", lost)) + "\n" + "\n".join(_lines("new", new))

        return differences


def _without_lineage(text: str) -> str:
    return text.partition(" ")[2] if "@" in text.partition(" ")[0] else text


def _errors(contents: Contents) -> set[str]:
    return {rows["error"] for rows in contents.values() if "error" in rows}


def _claim(violation: str) -> str:
    """Without the file that breaks it."""
    return violation.partition("parquet: ")[2] or violation.partition("orc: ")[2] or violation.partition("avro: ")[2]


def _lines(what: str, rows: Counter[str]) -> Iterator[str]:
    for text in sorted(rows)[:5]:
        yield f"  {what}: {text[:600]}"
    if len(rows) > 5:
        yield f"  {what}: and {len(rows) - 5} more"


def _require_same(
    key: str, before: dict[str, Any] | None, after: dict[str, Any] | None, differences: Any, *, lineage: bool
) -> None:
    if before is None or "error" in before:
        return
    if after is None:
        raise _Wrong("lost", f"{key} is gone")
    if "error" in after:
        raise _Wrong("unreadable", f"{key}: {after['error']}\n{after['trace'][:1500]}")
    if (before["count"], before["rows"]) != (after["count"], after["rows"]):
        raise _Wrong("rows", f"{key} had {before['count']} rows and has {after['count']}\n{differences()}")
    if not lineage:
        return
    if not before["without_id"]:
        if before["lineage"] != after["lineage"]:
            raise _Wrong("lineage", f"{key}: row ids or last updates changed\n{differences()}")
        return
    identified = Counter(text for text in before["texts"] if not text.startswith("null@"))
    if "texts" in after and identified - Counter(after["texts"]):
        raise _Wrong("lineage", f"{key}: row ids or last updates changed\n{differences()}")
