"""A key becomes one pass over its object: tables and runs have modules of their own, policies and catalogs are here.

Runs in worker threads.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from tableformat.errors import TablewrightError
from tablewright.act.jobs import JobSettings
from tablewright.act.passes import CatalogNotUsableError
from tablewright.api.catalog import TableCatalog
from tablewright.api.conditions import READY, VALID, Condition
from tablewright.api.objects import InvalidObjectError, KubernetesObject, parse
from tablewright.api.policy import TablePolicy
from tablewright.api.run import MaintenanceRun
from tablewright.decide.validity import Problem, usability_status
from tablewright.observe.tables import HealthMemory
from tablewright.runtime.accounts import JobAccounts
from tablewright.runtime.catalogs import OpenCatalogs, parse_catalog
from tablewright.runtime.claims import Claims
from tablewright.runtime.cluster import Cluster
from tablewright.runtime.declared import Declared
from tablewright.runtime.keys import Key, place_of
from tablewright.runtime.line import RunLine
from tablewright.runtime.locations import KnownLocations
from tablewright.runtime.logs import brief
from tablewright.runtime.recorder import Recorder
from tablewright.runtime.run_passes import RunPasses
from tablewright.runtime.store import ObjectStore
from tablewright.runtime.table_passes import TablePasses

POLL_INTERVAL = timedelta(seconds=60)  # of catalogs that tell nobody of commits
UNUSABLE_SECONDS = 30.0  # nobody tells us when a Secret is there, or a server is back
CATALOG_SECONDS = 60.0  # nor when one is gone
_OF_KUBERNETES = {"foregroundDeletion", "orphan"}


class Reconciler:
    """`wake` is given what is to be looked at though no event says so."""

    def __init__(
        self,
        store: ObjectStore,
        claims: Claims,
        line: RunLine,
        cluster: Cluster,
        catalogs: OpenCatalogs,
        jobs: JobSettings,
        clock: Callable[[], datetime],
        *,
        wake: Callable[[Sequence[Key]], None],
        recorder: Recorder,
        locations: KnownLocations,
        memory: HealthMemory,
        poll_interval: timedelta = POLL_INTERVAL,
        lacking: Callable[[str], str | None] = lambda _: None,
        accounts: JobAccounts | None = None,
    ) -> None:
        self._store = store
        self._cluster = cluster
        self._clock = clock
        self._catalogs = catalogs
        self._accounts = accounts
        declared = Declared(store, claims)
        self._runs = RunPasses(
            store,
            declared,
            line,
            cluster,
            jobs,
            clock,
            wake=wake,
            recorder=recorder,
            lacking=lacking,
            accounts=accounts,
        )
        self._tables = TablePasses(
            store,
            declared,
            self._catalogs,
            cluster,
            clock,
            wake=wake,
            recorder=recorder,
            locations=locations,
            memory=memory,
            poll_interval=poll_interval,
        )

    def reconcile(self, key: Key) -> float | None:
        """One pass; returns in how many seconds the key wants the next one, if time alone can change the outcome."""
        obj = self._store.get(key.kind, key.namespace, key.name)
        if obj is None:
            return None
        being_deleted = bool(obj["metadata"].get("deletionTimestamp"))
        if key.kind == MaintenanceRun.kind_name:
            return None if being_deleted and not _is_kept(obj) else self._runs.reconcile(obj)
        if key.kind == TablePolicy.kind_name:
            return self._report_usability(TablePolicy, VALID, obj, lambda: parse(TablePolicy, obj))
        if key.kind == TableCatalog.kind_name:
            return self._report_usability(TableCatalog, READY, obj, lambda: self._use_catalog(obj))
        return self._tables.delete(obj) if being_deleted else self._tables.reconcile(obj)

    def _use_catalog(self, obj: KubernetesObject) -> None:
        """Its jobs' account is there before its first job is: people give it a role of their cloud's."""
        self._catalogs.probe(*place_of(obj))
        if self._accounts is not None:
            account = self._store.derived(parse_catalog, obj).spec.jobs.service_account_name
            self._accounts.ensure(place_of(obj)[0], account)

    def _report_usability(
        self, model: type[TablePolicy | TableCatalog], kind: str, obj: KubernetesObject, use: Callable[[], object]
    ) -> float | None:
        problem = None
        try:
            use()
        except InvalidObjectError as error:
            problem = Problem("Invalid", str(error))
        except CatalogNotUsableError as error:
            problem = Problem(error.reason, str(error))
        except TablewrightError as error:
            problem = Problem("NotOpened", brief(error))
        except Exception as error:  # whatever a catalog's client raises; its words may hold more than people should see
            problem = Problem("NotOpened", f"it cannot be opened: {type(error).__name__}")
        metadata, known = obj["metadata"], obj.get("status") or {}
        previous = [Condition.model_validate(each) for each in known.get("conditions") or ()]
        generation = metadata.get("generation", 1)
        status = usability_status(kind, problem, previous, generation=generation, now=self._clock())
        if status != known:
            self._cluster.apply_status(model.plural, model.kind_name, *place_of(obj), status)
        if problem is None:
            return CATALOG_SECONDS if model is TableCatalog else None
        return None if problem.reason in ("Invalid", "CatalogInvalid") else UNUSABLE_SECONDS


def _is_kept(obj: KubernetesObject) -> bool:
    """Whether an object that is being deleted stays for somebody's finalizer, not only until what it owns is gone."""
    return not set(obj["metadata"].get("finalizers") or ()) <= _OF_KUBERNETES
