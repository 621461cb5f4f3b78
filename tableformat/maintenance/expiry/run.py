"""Runs an expiry: plan, record, commit, delete. Killed at any point and run again, it ends in the same state.

Files are deleted after the commit only, and only those that the table as it is then does not lead to. What an earlier
run committed and did not get to delete is in its record, and goes with this run's own.
"""

import logging
import time
import uuid
from collections.abc import Callable
from datetime import datetime, timedelta

from pydantic import BaseModel, ConfigDict
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table
from pyiceberg.typedef import Identifier

from tableformat.commits.change import Change, commit_change
from tableformat.maintenance.errors import DeletionIncomplete
from tableformat.maintenance.expiry.commit import expiry_change
from tableformat.maintenance.expiry.options import ExpiryOptions
from tableformat.maintenance.expiry.planning import ExpiryPlan, in_order, plan_files
from tableformat.maintenance.expiry.record import ExpiryRecord
from tableformat.maintenance.expiry.retention import plan_retention
from tableformat.maintenance.guards import read_again_if_changed, reading, require_deletable
from tableformat.maintenance.neighbours import require_no_other_name
from tableformat.maintenance.reachability import Known, Reachability, TableFile, key_of
from tableformat.maintenance.records import Records
from tableformat.storage import Deleted, FileStore, open_store

logger = logging.getLogger(__name__)

_RECORD_KIND = "expiry"
_UNCOMMITTED_RECORD_AGE = timedelta(days=1)
_DELETED_AT_A_TIME = 10_000


class ExpiryResult(BaseModel):
    """What a run did; JSON on the way to whoever asked for it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    snapshots_expired: int = 0
    refs_removed: tuple[str, ...] = ()
    snapshots_kept: int = 0
    files_deleted: int = 0
    bytes_deleted: int = 0
    runs_resumed: int = 0


def expire_snapshots(
    catalog: Catalog,
    identifier: Identifier,
    options: ExpiryOptions,
    *,
    now: datetime,
    store: FileStore | None = None,
    sleep: Callable[[float], None] = time.sleep,
    planned: Callable[[ExpiryPlan], None] = lambda _: None,
) -> ExpiryResult:
    """Expire the table's snapshots and delete what nothing leads to any more.

    Raises before any change `DeletionDisabled`, `ClockBehind`, `SharedLocation` or `UnreadableMetadata`, and after the
    commit `DeletionIncomplete` if files stayed behind: the next run deletes them.
    """
    run = _Run(catalog, identifier, options, now, store, planned)
    table = read_again_if_changed(lambda: commit_change(catalog, identifier, run.prepare, sleep=sleep))
    return read_again_if_changed(lambda: run.clean(table))


class _Run:
    def __init__(
        self,
        catalog: Catalog,
        identifier: Identifier,
        options: ExpiryOptions,
        now: datetime,
        store: FileStore | None,
        planned: Callable[[ExpiryPlan], None],
    ) -> None:
        self._catalog = catalog
        self._name = ".".join(identifier)
        self._options = options
        self._now = now
        self._store = store
        self._planned = planned
        self._plan: ExpiryPlan | None = None
        self._landed: list[ExpiryPlan] = []  # earlier plans whose answer was lost, and whose commit was not
        self._record: str | None = None  # where the plan's own is
        self._own: dict[str, ExpiryPlan] = {}  # this run's records, by their keys: a listing may spell them otherwise
        self._outcome = Deleted()
        self._bytes = 0
        self._resumed = 0

    def prepare(self, table: Table) -> Change | None:
        """The commit for the table as it is; its record is written before this returns."""
        require_deletable(table, now=self._now)
        retention = plan_retention(table.metadata, self._options, now=self._now)
        if retention.is_empty:
            self._settle(table)
            return None
        if self._plan is None or self._plan.retention != retention:
            self._settle(table)
            with reading(table):
                self._plan = plan_files(table, retention)
            logger.info("%s", self._plan, extra={"table": self._name})
            self._planned(self._plan)
            self._write_record(table, self._plan)
        return expiry_change(self._catalog, table.metadata, retention, self._options, now=self._now)

    def clean(self, table: Table) -> ExpiryResult:
        """Delete what is left of this run and of earlier ones. `table` is as the commit left it, or later."""
        table = table.refresh()  # others may have committed meanwhile, and what they need must stay
        records, reader = self._records(table), Reachability(self._name, table.io)
        for location, written_ms in list(records.locations()):
            record = self._read(records, location, written_ms, table)
            if record is None:
                continue
            own = self._own.get(key_of(location))
            known = own.known if own is not None else Known()
            files = {file.key: file for file in record.files}
            with reading(table):
                dead = reader.without_live(files, table.metadata, table.metadata_location, known=known)
            if own is None and dead:  # of a run that asked at another time
                require_no_other_name(table, self._catalog)
            deleted = self._delete(table, dead)
            sizes = {file.location: file.size_bytes for file in dead.values()}
            self._bytes += sum(sizes[gone] for gone in deleted.deleted)
            self._outcome = Deleted.merged((self._outcome, deleted))
            if not deleted.failed:
                records.remove(location)
                self._resumed += own is None
        if self._outcome.failed:
            raise DeletionIncomplete(self._name, len(self._outcome.deleted), self._outcome.failed)
        return self._result(table)

    def _delete(self, table: Table, dead: dict[str, TableFile]) -> Deleted:
        files = [file.location for file in in_order(dead.values())]
        store = self._opened(table)
        batches = (files[start : start + _DELETED_AT_A_TIME] for start in range(0, len(files), _DELETED_AT_A_TIME))
        return Deleted.merged(store.delete(batch) for batch in batches)

    def _settle(self, table: Table) -> None:
        """What was planned before goes another way; unless it is done: then its record is needed as much as ever."""
        if self._plan is not None and self._plan.retention.is_gone_from(table.metadata):
            self._landed.append(self._plan)
        elif self._record is not None:
            self._records(table).remove(self._record)
            del self._own[key_of(self._record)]
        self._plan = self._record = None

    def _write_record(self, table: Table, plan: ExpiryPlan) -> None:
        if plan.files:
            record = ExpiryRecord.of(table.metadata.table_uuid, plan)
            self._record = self._records(table).write(f"{uuid.uuid4()}.json.z", record.to_json())
            self._own[key_of(self._record)] = plan

    def _read(self, records: Records, location: str, written_ms: int, table: Table) -> ExpiryRecord | None:
        """The record, if its commit happened. Others stay for a while: their run may be about to commit."""
        content = records.read(location)
        record = None if content is None else ExpiryRecord.from_json(content)
        if record is not None and record.table_uuid != table.metadata.table_uuid:
            return None  # of a table that was here before; its files are not ours to judge
        if record is not None and record.committed(table.metadata):
            return record
        if self._now.timestamp() * 1000 - written_ms > _UNCOMMITTED_RECORD_AGE.total_seconds() * 1000:
            records.remove(location)
        return None

    def _records(self, table: Table) -> Records:
        return Records(table, _RECORD_KIND, self._opened(table))

    def _opened(self, table: Table) -> FileStore:
        self._store = self._store or open_store(table.io)
        return self._store

    def _result(self, table: Table) -> ExpiryResult:
        plans = self._landed if self._plan is None else [*self._landed, self._plan]
        result = ExpiryResult(
            snapshots_expired=sum(len(plan.retention.snapshots) for plan in plans),
            refs_removed=tuple(sorted(name for plan in plans for name in plan.retention.refs)),
            snapshots_kept=len(table.metadata.snapshots),
            files_deleted=len(self._outcome.deleted),
            bytes_deleted=self._bytes,
            runs_resumed=self._resumed,
        )
        logger.info("expired: %s", result, extra={"table": self._name})
        return result
