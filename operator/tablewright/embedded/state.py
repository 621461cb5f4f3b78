"""What the embedded path remembers between calls, in place of a cluster's etcd: statuses and runs, in one JSON file.

The file is replaced atomically, and a lock lets one process at a time work on a state folder. It also says where the
folder is: the tables of the embedded catalog name their files by absolute paths, so what is done through a copy of the
folder would be done to the files of the original.
"""

import contextlib
import fcntl
import json
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from tableformat.errors import PermanentError
from tableformat.secrets import KNOWN
from tablewright.api.objects import InvalidObjectError, KubernetesObject, Metadata, parse
from tablewright.api.run import MaintenanceRun, MaintenanceRunStatus
from tablewright.api.table import ManagedTable, ManagedTableSpec, ManagedTableStatus
from tablewright.decide.causes import RUN_ANNOTATION
from tablewright.embedded.catalogs import database
from tablewright.embedded.folder import Finding, InvalidFolderError, Judge

if TYPE_CHECKING:
    from tablewright.decide.state import StartRun

_FILE = "objects.json"
_LOCK = "lock"
_ENDED_RUNS = "ended-runs"


class CopiedStateError(PermanentError):
    """The folder's tables have their files in the folder that it is a copy of."""

    def __init__(self, folder: Path, origin: Path) -> None:
        super().__init__(
            f"{folder} was copied or moved from {origin}: its tables' files are named there, and would be deleted "
            f"there. Move the folder back, or use the one at {origin}, or start anew with another --state"
        )


class UnwritableStateError(PermanentError):
    """What is known of the tables cannot be written down."""

    def __init__(self, folder: Path, error: OSError) -> None:
        super().__init__(
            f"the state folder {folder} cannot be written: {error.strerror}. Name a folder that can be with --state; "
            "declarations may stay where they are"
        )


class BrokenStateError(PermanentError):
    """The file is not as it was written."""


def refuse_a_copy(folder: Path) -> None:
    """Raises `CopiedStateError` for a state folder with tables whose files are elsewhere."""
    _read(folder)


@dataclass(frozen=True)
class LockHolder:
    pid: int | None
    """Unknown for a moment after it got the lock."""
    since: datetime

    @property
    def is_running(self) -> bool:
        """Whether it is there itself; otherwise what it started still works."""
        try:
            os.kill(self.pid or 0, 0)
        except ProcessLookupError:
            return False
        except PermissionError:  # somebody else's
            return True
        return True


class EmbeddedState:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file = folder / _FILE
        self._tables: dict[str, KubernetesObject] = {}
        self._runs: dict[str, KubernetesObject] = {}
        self.lock_descriptors: tuple[int, ...] = ()
        """Of the lock, while it is held: a driver that keeps them open keeps the lock if its caller is killed."""

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Waits for whoever works on this folder, then reads what they left."""
        from tablewright.embedded.driver import SCRATCH_PREFIX

        with self._lock_file() as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            handle.truncate(0)
            handle.write(f"{os.getpid()}\n")
            handle.flush()
            self.lock_descriptors = (handle.fileno(),)
            for left in self.folder.glob(f"{SCRATCH_PREFIX}*"):  # by a call that was killed, whose driver has ended
                shutil.rmtree(left, ignore_errors=True)
            self._read()
            self._take_in()
            try:
                yield
            finally:
                handle.truncate(0)  # nobody works here any more, and what is there is as before

    def holder(self) -> "LockHolder | None":
        """Who works on this folder now, if anybody does."""
        with contextlib.suppress(FileNotFoundError), (self.folder / _LOCK).open() as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                since = datetime.fromtimestamp(os.fstat(handle.fileno()).st_mtime, UTC)
                number = handle.read().strip()
                return LockHolder(int(number) if number.isdigit() else None, since)
        return None

    def _lock_file(self) -> IO[str]:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            return (self.folder / _LOCK).open("a")
        except OSError as error:
            raise UnwritableStateError(self.folder, error) from error

    def look(self) -> None:
        """Reads what is remembered, without waiting for whoever works here: the file is only ever whole."""
        self._read()
        self._runs |= {self._run_key(run): run.to_json() for _, run in self._ended_runs()}

    def record_ended_run(self, run: MaintenanceRun) -> None:
        """A run that somebody carried out by hand. Without the lock, which an `apply` may hold for long: a file has it
        until the next `apply` takes it in."""
        file = self.folder / _ENDED_RUNS / f"{run.metadata.uid}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        scratch = file.with_suffix(".tmp")
        scratch.write_text(KNOWN.hide(json.dumps(run.to_json(), indent=1)))
        scratch.replace(file)

    def _ended_runs(self) -> Iterator[tuple[Path, MaintenanceRun]]:
        for file in sorted((self.folder / _ENDED_RUNS).glob("*.json")):
            with contextlib.suppress(FileNotFoundError):  # an `apply` has just taken it in
                try:
                    yield file, parse(MaintenanceRun, json.loads(file.read_text()))
                except (ValueError, TypeError, InvalidObjectError) as error:
                    raise BrokenStateError(f"{file} cannot be read ({error}): remove it") from error

    def _take_in(self) -> None:
        ended = list(self._ended_runs())
        for _, run in ended:
            self._runs[self._run_key(run)] = run.to_json()
        if ended:
            self._write()
        for file, _ in ended:
            file.unlink()

    def remembered(self, table: ManagedTable) -> ManagedTable:
        """The declared table with what is known of it, if anything; remembers nothing new."""
        known = self._tables.get("/".join(table.key))
        if known is None:
            return table
        given = {name: known[name] for name in ("uid", "creationTimestamp", "generation")}
        if known.get("spec") != table.spec.to_json():  # it was edited, as it has yet to be applied
            given["generation"] += 1
        annotations = dict(table.metadata.annotations)
        if annotations.get(RUN_ANNOTATION) == known.get("request"):  # it was acted on, or there is none
            annotations.pop(RUN_ANNOTATION, None)
        given["annotations"] = annotations
        metadata = Metadata.model_validate(table.metadata.model_dump(by_alias=True) | given)
        status = ManagedTableStatus.model_validate(known.get("status") or {})
        return table.model_copy(update={"metadata": metadata, "status": status})

    def runs(self) -> list[MaintenanceRun]:
        return [parse(MaintenanceRun, obj) for obj in self._runs.values()]

    def refuse_other_tables(self, tables: Iterable[ManagedTable]) -> None:
        """Raises `InvalidFolderError` where an object names another table than the one that it has."""
        findings = [finding for table in tables for finding in self._immutable(table)]
        if findings:
            raise InvalidFolderError(findings)

    def _immutable(self, table: ManagedTable) -> Iterator[Finding]:
        known = self._tables.get("/".join(table.key), {})
        if not known.get("status", {}).get("identity"):
            return
        before = table.model_copy(update={"spec": ManagedTableSpec.model_validate(known["spec"])})
        for field, was, wanted in (
            ("catalogRef.name", before.spec.catalog_ref.name, table.spec.catalog_ref.name),
            ("identifier", ".".join(before.identifier), ".".join(table.identifier)),
        ):
            if was != wanted:
                message = (
                    f"spec.{field} is immutable: it was {was}, and {wanted} would be another table; put it back, or "
                    "declare the other table by an object of another name"
                )
                yield Finding("/".join(table.key), message, Judge.API_SERVER)

    def gone(self, tables: Iterable[ManagedTable], given: Iterable[Path]) -> list[str]:
        """The objects that came from these files and folders and are not in them any more. What came from elsewhere may
        share the state, and is not among them."""
        declared = {"/".join(table.key) for table in tables}
        return [
            key
            for key, known in self._tables.items()
            if key not in declared and "source" in known and _is_within(Path(known["source"]), given)
        ]

    def forget_gone(self, tables: Iterable[ManagedTable], given: Iterable[Path]) -> list[str]:
        """Forgets the objects that are gone, with their runs."""
        gone = self.gone(tables, given)
        for key in gone:
            del self._tables[key]
            namespace, _, name = key.partition("/")
            for run in [run for run, obj in self._runs.items() if _table_of(obj) == (namespace, name)]:
                del self._runs[run]
        if gone:
            self._write()
        return gone

    def with_status(self, table: ManagedTable, now: datetime, source: Path) -> ManagedTable:
        """The declared table with the identity and status that it got here; what is new was created now."""
        created = {"uid": str(uuid.uuid4()), "creationTimestamp": now.isoformat(), "generation": 0}
        known = self._tables.setdefault("/".join(table.key), created)
        declared = table.spec.to_json()
        if known.get("spec") != declared:
            known |= {"spec": declared, "generation": known["generation"] + 1}
            self._write()
        if known.get("source") != str(source):
            known["source"] = str(source)
            self._write()
        if RUN_ANNOTATION not in table.metadata.annotations:  # the next that asks for it asks anew
            known.pop("request", None)
        return self.remembered(table)

    def save_status(self, table: ManagedTable, status: ManagedTableStatus) -> None:
        self._tables["/".join(table.key)]["status"] = status.to_json()
        self._write()

    def remember_request(self, table: ManagedTable) -> None:
        """The run that the table's annotation asks for was started."""
        self._tables["/".join(table.key)]["request"] = table.metadata.annotations[RUN_ANNOTATION]
        self._write()

    def runs_of(self, table: ManagedTable) -> list[MaintenanceRun]:
        return [parse(MaintenanceRun, obj) for obj in self._runs.values() if _table_of(obj) == table.key]

    def create_run(self, table: ManagedTable, start: "StartRun", now: datetime) -> MaintenanceRun:
        from tablewright.act.runs import cause_annotations  # with all of maintenance, which `get` does without

        metadata = {
            "name": start.name,
            "namespace": table.metadata.namespace,
            "uid": str(uuid.uuid4()),
            "creationTimestamp": now.isoformat(),
            "annotations": cause_annotations(start),
        }
        spec = {"tableRef": {"name": table.metadata.name}, "operation": start.operation.value}
        run = parse(MaintenanceRun, {"metadata": metadata, "spec": spec})
        self._runs[self._run_key(run)] = {"metadata": metadata, "spec": spec}
        self._write()
        return run

    def save_run(self, run: MaintenanceRun, status: MaintenanceRunStatus) -> None:
        self._runs[self._run_key(run)]["status"] = status.to_json()
        self._write()

    def delete_run(self, table: ManagedTable, name: str) -> None:
        self._runs.pop(f"{table.metadata.namespace}/{name}", None)
        self._write()

    @staticmethod
    def _run_key(run: MaintenanceRun) -> str:
        return "/".join(run.key)

    def _read(self) -> None:
        content = _read(self.folder)
        if content is not None:
            self._tables, self._runs = content["tables"], content["runs"]

    def _write(self) -> None:
        scratch = self._file.with_suffix(".tmp")
        with scratch.open("w") as handle:
            content = {"folder": str(self.folder.resolve()), "tables": self._tables, "runs": self._runs}
            handle.write(KNOWN.hide(json.dumps(content, indent=1)))
            handle.flush()
            os.fsync(handle.fileno())
        scratch.replace(self._file)


def _is_within(source: Path, given: Iterable[Path]) -> bool:
    return any(source.is_relative_to(path) for path in given)


def _table_of(run: KubernetesObject) -> tuple[str, str]:
    """Told before the run is parsed: of a fleet's runs, each table wants its own."""
    return run["metadata"]["namespace"], run["spec"]["tableRef"]["name"]


def _read(folder: Path) -> dict[str, Any] | None:
    """What the folder's file says; None where there is none yet."""
    file = folder / _FILE
    if not file.exists():
        return None
    try:
        content: dict[str, Any] = json.loads(file.read_text())
        origin = Path(content.get("folder", folder))
        _ = content["tables"].keys(), content["runs"].keys()
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BrokenStateError(
            f"{file} cannot be read ({type(error).__name__}: {error}): restore it, or remove it and apply again; the "
            "tables stay as they are, and what is remembered of their runs is lost"
        ) from error
    # A link that was left at the old place still leads here, and so do the paths of the files.
    if database(folder).exists() and origin.resolve() != folder.resolve():
        raise CopiedStateError(folder, origin)
    return content
