"""Passes over runs in a cluster: a run waits for its turn, gets its Job, and is followed to its end."""

import logging
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from kubernetes.client.exceptions import ApiException

from tablewright.act.jobs import JobSettings, RunNotPossibleError, build_job
from tablewright.api.catalog import TableCatalog
from tablewright.api.objects import InvalidObjectError, KubernetesObject, parse
from tablewright.api.outline import run_outline
from tablewright.api.run import MaintenanceRun
from tablewright.api.table import ManagedTable
from tablewright.decide.claims import claimant
from tablewright.decide.limits import Place
from tablewright.decide.requests import not_allowed
from tablewright.decide.runs import (
    POD_INTERVAL,
    REPLACED,
    Waiting,
    decide_run,
    runs_out_of_memory,
    waits_for,
    why_it_waits,
    without_replaced_job,
)
from tablewright.decide.state import JobObservation, RunDecision
from tablewright.observe.jobs import MADE_WITH_ANNOTATION, is_finished, is_settled, observe_job
from tablewright.observe.pods import has_ended, slow_pod
from tablewright.runtime.accounts import JobAccounts
from tablewright.runtime.catalogs import parse_catalog
from tablewright.runtime.cluster import AccessDeniedError, Cluster, NameTakenError, ObjectRefusedError, owners
from tablewright.runtime.declared import Declared
from tablewright.runtime.keys import Key, place_of, seconds_until
from tablewright.runtime.line import RunLine
from tablewright.runtime.logs import brief
from tablewright.runtime.recorder import Recorder
from tablewright.runtime.store import ObjectStore

logger = logging.getLogger(__name__)

JOB_INTERVAL = timedelta(seconds=30)  # of trying to create a Job that is not allowed


class RunPasses:
    """`wake` is given what is to be looked at though no event says so; `lacking` tells which rights are missing."""

    def __init__(
        self,
        store: ObjectStore,
        declared: Declared,
        line: RunLine,
        cluster: Cluster,
        jobs: JobSettings,
        clock: Callable[[], datetime],
        *,
        wake: Callable[[Sequence[Key]], None],
        recorder: Recorder,
        lacking: Callable[[str], str | None] = lambda _: None,
        accounts: JobAccounts | None = None,
    ) -> None:
        self._lacking = lacking
        self._accounts = accounts
        self._store = store
        self._declared = declared
        self._line = line
        self._cluster = cluster
        self._jobs = jobs
        self._clock = clock
        self._wake = wake
        self._recorder = recorder

    def reconcile(self, obj: KubernetesObject) -> float | None:
        run, now = run_outline(obj), self._clock()
        if run is None:
            logger.warning("run %s/%s: left alone, its table and operation cannot be read", *place_of(obj))
            return None
        is_going = run.metadata.deletion_timestamp is not None
        if is_going and run.status.job_name is None:
            return None  # it was cancelled while it waited
        if not run.status.is_finished and run.status.job_name is None and self._is_ahead_of_watches(run):
            return None  # the event that is to come brings the next pass
        table, catalog, refusal = self._targets(run)
        try:
            parse(MaintenanceRun, obj)
        except InvalidObjectError as error:  # one that has its Job is followed to its end all the same
            refusal = str(error)
        lacking = None if run.status.is_finished else self._lacking(run.metadata.namespace)
        if lacking is not None:
            return self._hold_up(run, table, refusal, lacking, now)
        job = self._job_of(run, now)
        if job is not None:
            decision = self._follow(run, table, catalog, refusal, job, now)
        elif is_going:
            decision = decide_run(run, refusal, None, now)
        elif run.status.reason == REPLACED and self._has_pods(run):
            return POD_INTERVAL.total_seconds()
        else:
            decision = self._begin(without_replaced_job(run), table, catalog, refusal, now)
        return self._write(run, table, decision, now)

    def _write(
        self, run: MaintenanceRun, table: ManagedTable | None, decision: RunDecision, now: datetime
    ) -> float | None:
        if decision.status != run.status:
            self._recorder.run_changed(run, table, decision.status)
            owned = decision.status.model_copy(update={"progress": None})  # the driver's to write
            self._cluster.apply_status(run.plural, run.kind_name, *run.key, owned.to_json())
        return seconds_until(decision.look_again_at, now)

    def _hold_up(
        self, run: MaintenanceRun, table: ManagedTable | None, refusal: str | None, lacking: str, now: datetime
    ) -> float | None:
        """Where the operator may not look at Jobs: a run that has none says so, and one that has goes on unseen."""
        if run.status.job_name is not None or run.metadata.deletion_timestamp is not None:
            logger.warning("run %s/%s: its Job cannot be followed: %s", *run.key, lacking)
            return JOB_INTERVAL.total_seconds()
        self._make_way(run)
        waiting = None if refusal is not None else Waiting(lacking, now + JOB_INTERVAL, "JobNotCreated")
        return self._write(run, table, decide_run(run, refusal, None, now, waiting=waiting), now)

    def _begin(
        self,
        run: MaintenanceRun,
        table: ManagedTable | None,
        catalog: TableCatalog | None,
        refusal: str | None,
        now: datetime,
    ) -> RunDecision:
        """Of a run that has no Job: it waits, gets one, or lost it."""
        is_new = refusal is None and not run.status.is_finished and run.status.job_name is None
        waiting = self._wait(run, table, now) if is_new and table is not None else None
        decision = decide_run(run, refusal, None, now, waiting=waiting)
        if decision.create_job is None or table is None or catalog is None:
            return decision
        try:
            self._create_job(run, table, catalog)
        except (RunNotPossibleError, ObjectRefusedError) as error:
            return decide_run(run, str(error), None, now)
        except (AccessDeniedError, NameTakenError, ApiException) as error:  # nobody tells us when that is mended
            self._make_way(run)
            return decide_run(run, None, None, now, waiting=Waiting(brief(error), now + JOB_INTERVAL, "JobNotCreated"))
        except Exception:  # whatever it is: others must not wait for it
            self._make_way(run)
            raise
        return decision

    def _follow(
        self,
        run: MaintenanceRun,
        table: ManagedTable | None,
        catalog: TableCatalog | None,
        refusal: str | None,
        job: JobObservation,
        now: datetime,
    ) -> RunDecision:
        """Of a run that has its Job. One whose pod does not start is replaced where it would be made otherwise now."""
        stays = run.metadata.deletion_timestamp is None
        may_replace = stays and refusal is None and job.problem is not None and not job.has_begun
        made_with = self._made_with_now(run, table, catalog) if may_replace else None
        decision = decide_run(run, refusal, job, now, made_with=made_with)
        if decision.delete_job is None:
            return decision
        try:
            self._cluster.delete_job(*run.key, decision.delete_job.version)
        except AccessDeniedError as error:
            return decide_run(run, refusal, job, now, made_with=made_with, undeletable=brief(error))
        return decision

    def _wait(self, run: MaintenanceRun, table: ManagedTable, now: datetime) -> Waiting | None:
        """What the run waits for: something of its table's, or its turn among all runs, which is taken if it came."""
        policy = self._declared.policy_of(table)
        ahead = waits_for(run, self._declared.runs_of(table), policy, now)
        own = why_it_waits(run, ahead, policy, self._declared.broken_policies(table), now)
        if own is not None:
            self._make_way(run)
            return own
        turn = self._line.ask(Place(*run.key))
        return None if turn is None else Waiting(turn)

    def _make_way(self, run: MaintenanceRun) -> None:
        """For runs that may wait for nothing else: no event tells them of it."""
        self._wake([Key(MaintenanceRun.kind_name, *place) for place in self._line.step_aside(Place(*run.key))])

    def _create_job(self, run: MaintenanceRun, table: ManagedTable, catalog: TableCatalog) -> None:
        try:
            failed = runs_out_of_memory(run, self._declared.runs_of(table))
            policy = self._declared.policy_of(table)
            job = build_job(run, table, policy, catalog, self._jobs, out_of_memory=failed)
            if self._accounts is not None:
                self._accounts.ensure(run.metadata.namespace, policy.jobs.service_account_name)
            self._cluster.create_job(job)
        except Exception:
            self._line.give_back(Place(*run.key), run.metadata.creation_timestamp or self._clock())
            raise

    def _made_with_now(
        self, run: MaintenanceRun, table: ManagedTable | None, catalog: TableCatalog | None
    ) -> str | None:
        """None where no Job could be made now, or not as its policies' authors mean it."""
        if table is None or catalog is None or self._declared.broken_policies(table):
            return None
        try:
            job = build_job(run, table, self._declared.policy_of(table), catalog, self._jobs)
        except RunNotPossibleError:
            return None
        return str(job["metadata"]["annotations"][MADE_WITH_ANNOTATION])

    def _has_pods(self, run: MaintenanceRun) -> bool:
        """Of a Job that is gone: somebody may have deleted it in another way than we do, and they may still run."""
        return not all(has_ended(pod) for pod in self._cluster.pods_of_job(*run.key))

    def _is_ahead_of_watches(self, run: MaintenanceRun) -> bool:
        """Whether the run's table or its catalog is there, and only no watch has told of it: each kind has its own."""
        namespace, name = run.metadata.namespace, run.spec.table_ref.name
        table = self._store.get(ManagedTable.kind_name, namespace, name)
        if table is None:
            return self._cluster.read(ManagedTable.plural, namespace, name) is not None
        catalog = table["spec"]["catalogRef"]["name"]
        known = self._store.get(TableCatalog.kind_name, namespace, catalog)
        return known is None and self._cluster.read(TableCatalog.plural, namespace, catalog) is not None

    def _targets(self, run: MaintenanceRun) -> tuple[ManagedTable | None, TableCatalog | None, str | None]:
        namespace, name = run.metadata.namespace, run.spec.table_ref.name
        table_obj = self._store.get(ManagedTable.kind_name, namespace, name)
        if table_obj is None:
            return None, None, f"spec.tableRef: there is no ManagedTable {name} in namespace {namespace}"
        try:
            table = parse(ManagedTable, table_obj)
        except InvalidObjectError as error:
            return None, None, str(error)
        rival = self._declared.older_claim(table)
        if rival is not None:
            return (
                table,
                None,
                f"the table is the older ManagedTable {claimant(rival, seen_from=table)}'s: make a run of that one",
            )
        refusal = not_allowed(table, run.spec.operation, dry_run=run.spec.dry_run)
        if refusal is not None:
            return table, None, refusal
        catalog_name = table.spec.catalog_ref.name
        catalog_obj = self._store.get(TableCatalog.kind_name, namespace, catalog_name)
        if catalog_obj is None:
            return table, None, f"ManagedTable {name}: there is no TableCatalog {catalog_name} in {namespace}"
        try:
            return table, self._store.derived(parse_catalog, catalog_obj), None
        except InvalidObjectError as error:
            return table, None, str(error)

    def _job_of(self, run: MaintenanceRun, now: datetime) -> JobObservation | None:
        namespace, name = run.key
        if run.status.is_finished:
            return None
        job = self._store.get("Job", namespace, name)
        if run.metadata.uid not in owners(job):  # deleted, or not seen yet: the store cannot tell, the server can
            job = self._cluster.read_job(namespace, name)
        if job is None or run.metadata.uid not in owners(job):  # a run of the same name may have had it before
            return None
        if is_settled(job) and not is_finished(job):
            return observe_job(job, (), now=now)
        pods = self._cluster.pods_of_job(namespace, name)
        slow = slow_pod(pods, now)
        if slow is not None:
            return observe_job(job, pods, self._cluster.events_about("Pod", namespace, slow), now=now)
        return observe_job(job, pods, () if pods else self._cluster.events_about("Job", namespace, name), now=now)
