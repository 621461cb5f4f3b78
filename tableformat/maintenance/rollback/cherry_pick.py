"""Publishes a staged snapshot on main, as planned on the table that the commit is made on.

The source is recorded in the new snapshot's summary, by which a second pick is recognised.
"""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from pydantic import BaseModel, ConfigDict
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table
from pyiceberg.typedef import Identifier

from tableformat.commits.change import Change, commit_change, snapshots_still_there
from tableformat.commits.delta import snapshot_with_delta
from tableformat.commits.head import move_main, on_main
from tableformat.commits.memory import CommitMemory
from tableformat.commits.runs import summary_of_run
from tableformat.commits.written import WrittenFiles
from tableformat.maintenance.rollback.cherry_pick_planning import (
    CherryPickPlan,
    CherryPickRefused,
    Pick,
    pick_of,
    published_as,
)

logger = logging.getLogger(__name__)


class CherryPickResult(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    source_snapshot_id: int
    snapshot_id: int
    fast_forward: bool


def cherry_pick(
    catalog: Catalog,
    identifier: Identifier,
    snapshot_id: int,
    *,
    run_id: str | None = None,
    run_name: str = "",
    sleep: Callable[[float], None] = time.sleep,
    planned: Callable[[CherryPickPlan], None] = lambda _: None,
) -> CherryPickResult:
    """Publish the snapshot. Publishing it again says what was done before."""

    written = WrittenFiles()

    def prepare(table: Table) -> Change | None:
        pick = pick_of(table, snapshot_id)
        if pick.plan.is_empty:
            return None
        logger.info("%s", pick.plan, extra={"table": pick.plan.table, "run": run_id, "snapshot": snapshot_id})
        planned(pick.plan)
        return _change(table, pick, {} if run_id is None else summary_of_run(run_id, run_name), written)

    table = commit_change(catalog, identifier, prepare, sleep=sleep, written=written)
    published = published_as(table, snapshot_id)
    if published is None:
        raise CherryPickRefused(f"table {'.'.join(identifier)}: snapshot {snapshot_id} was published and is gone again")
    return CherryPickResult(
        source_snapshot_id=snapshot_id, snapshot_id=published, fast_forward=published == snapshot_id
    )


def _change(table: Table, pick: Pick, of_run: Mapping[str, str], written: WrittenFiles) -> Change:
    # It also has to be there at the swap: an expiry may be about to take it, and its files with it.
    still_there = snapshots_still_there(table, pick.plan.snapshot_id)
    if pick.delta is None:
        change = move_main(table, pick.plan.snapshot_id)
    else:
        delta = replace(pick.delta, summary={**pick.delta.summary, **of_run})
        memory = CommitMemory(table.metadata.new_snapshot_id(), written)
        change = on_main(table, snapshot_with_delta(table, table.current_snapshot(), delta, memory))
    return Change(change.updates, (*change.requirements, *still_there))
