"""The operator's process: puts the parts together, and takes them through start, leadership and stop.

    lease thread ──begins or ceases to lead──▶ event loop ──keys──▶ queue ──▶ passes, in worker threads
    watch thread ──events──▶ store, router ──keys──▶ ▲
    listing      ──what watches cannot tell──────────┘

A standby watches and remembers, and its queue is closed. A new leader lists everything anew before its first pass.
"""

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from tableformat.secrets import KnownSecrets, SecretFilter
from tablewright.act.jobs import JobSettings
from tablewright.api.catalog import TableCatalog
from tablewright.api.objects import KubernetesObject
from tablewright.api.policy import TablePolicy
from tablewright.api.run import MaintenanceRun
from tablewright.api.table import ManagedTable
from tablewright.observe.tables import HealthMemory
from tablewright.runtime.accounts import JobAccounts
from tablewright.runtime.catalogs import OpenCatalogs
from tablewright.runtime.claims import Claims
from tablewright.runtime.clock import LOOK_SECONDS, ClockWatch
from tablewright.runtime.cluster import Cluster, connect
from tablewright.runtime.endpoints import Endpoints
from tablewright.runtime.events import EventRouter
from tablewright.runtime.grants import RUNS, WATCH_JOBS, WATCH_POINTERS, Grants
from tablewright.runtime.keys import Key
from tablewright.runtime.leadership import Election, LeaseHolder, Leases, SoleLeader
from tablewright.runtime.line import RunLine
from tablewright.runtime.locations import KnownLocations
from tablewright.runtime.logs import brief
from tablewright.runtime.metrics import MOST_TABLES, Metrics
from tablewright.runtime.queue import WorkQueue
from tablewright.runtime.reconciler import POLL_INTERVAL, Reconciler
from tablewright.runtime.recorder import Recorder
from tablewright.runtime.store import ObjectStore
from tablewright.runtime.sync import AUDIT_SECONDS, Synchroniser
from tablewright.runtime.watching import JOBS, OUR_KINDS, POINTERS, Watches

SYNC_RETRY_SECONDS = 2.0
STUCK_SECONDS = 900.0  # a pass that takes longer than this will not end

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class OperatorSettings:
    jobs: JobSettings
    namespaces: Sequence[str] = ()  # empty: the whole cluster
    kubeconfig: str | None = None
    concurrency: int = 4
    most_runs: int = 20  # under way at once, of all tables
    poll_seconds: float = POLL_INTERVAL.total_seconds()
    host: str = "0.0.0.0"  # noqa: S104 - probes and Prometheus come from outside the pod
    port: int = 8080
    election: Election | None = None  # None: this is the only replica
    stop_seconds: float = 20.0
    most_tables_in_metrics: int = MOST_TABLES
    tables_role: str = "tablewright-tables"  # the ClusterRole that a RoleBinding grants in a namespace with tables
    jobs_role: str | None = None  # the ClusterRole that the accounts of jobs are bound to; None: others see to them


def run_operator(settings: OperatorSettings) -> None:
    """Runs until it is told to stop by a signal."""
    if not asyncio.run(_Operator(settings).run()):
        logging.shutdown()
        os._exit(0)  # a pass that hangs must not keep the process; it can write nothing any more


class _Operator:
    def __init__(self, settings: OperatorSettings) -> None:
        self._settings = settings
        self._metrics = Metrics()
        self._store = ObjectStore()
        claims, line = Claims(), RunLine(self._store, settings.most_runs)
        memory = HealthMemory()
        locations = KnownLocations(self._store, memory.places_at)
        self._leader: LeaseHolder | SoleLeader = self._elect(settings.election)
        api = connect(settings.kubeconfig, counted=self._metrics.request)
        secrets = KnownSecrets()
        for handler in logging.getLogger().handlers:
            handler.addFilter(SecretFilter(secrets))
        cluster = Cluster(api, fence=self._leader.require, wrote=self._wrote, secrets=secrets)
        grants = Grants(cluster, self._scope, role=settings.tables_role, in_cluster=not settings.namespaces)
        catalogs = OpenCatalogs(
            self._store, cluster.read_secret, settings.kubeconfig, require=grants.require, learn=secrets.learn
        )
        self._router = EventRouter(self._store, claims, line, locations, catalogs)
        self._reconciler = Reconciler(
            self._store,
            claims,
            line,
            cluster,
            catalogs,
            settings.jobs,
            lambda: datetime.now(UTC).replace(microsecond=0),
            wake=self._enqueue_soon,
            recorder=Recorder(cluster, self._metrics, _identity(settings)),
            locations=locations,
            memory=memory,
            poll_interval=timedelta(seconds=settings.poll_seconds),
            lacking=lambda namespace: grants.lacking(namespace, RUNS),
            accounts=JobAccounts(cluster, own=settings.jobs.service_account_name, role=settings.jobs_role),
        )
        self._sync = Synchroniser(cluster, self._store, settings.namespaces, grants, self._notice)
        grants.list_anew = self._sync.synchronise_granted
        self._watches = self._watched(grants)
        self._pool = ThreadPoolExecutor(settings.concurrency, thread_name_prefix="pass")
        self._tasks: set[asyncio.Task[None]] = set()
        self._begun = False

    async def run(self) -> bool:
        """False if some thread had to be left behind."""
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self._stop.set)
        self._queue: WorkQueue[Key] = WorkQueue(
            self._work, concurrency=self._settings.concurrency, group_of=self._catalog_of
        )
        self._queue.close()
        self._runner = asyncio.create_task(self._queue.run())
        self._metrics.watch_queue(lambda: self._queue.depth, self._queue.longest_wait)
        self._metrics.watch_tables(
            self._store, lambda: self._leader.leads, most_tables=self._settings.most_tables_in_metrics
        )
        endpoints = Endpoints(self._metrics, unhealthy=self._unhealthy, unready=self._unready)
        port = await endpoints.start(self._settings.host, self._settings.port)
        logger.info("answering on port %s", port)
        working = [asyncio.create_task(self._begin()), asyncio.create_task(self._follow_clock(ClockWatch()))]
        await self._stop.wait()
        logger.info("stopping")
        for task in working:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        return await self._end(endpoints)

    def _scope(self) -> set[str]:
        """The namespaces that there is work in, or was: a run outlives its catalog."""
        return self._store.namespaces(TableCatalog.kind_name) | self._store.namespaces(MaintenanceRun.kind_name)

    def _watched(self, grants: Grants) -> list[Watches]:
        """Our own kinds everywhere, and what others have objects of, too, only where that is granted."""
        access, ours = self._settings.kubeconfig, list(self._settings.namespaces) or None
        return [
            Watches(OUR_KINDS, lambda: ours, access, self._notice),
            Watches([JOBS], lambda: grants.watchable(WATCH_JOBS), access, self._notice, lost=grants.refresh),
            Watches([POINTERS], lambda: grants.watchable(WATCH_POINTERS), access, self._notice, lost=grants.refresh),
        ]

    # -- start and stop

    def _elect(self, election: Election | None) -> LeaseHolder | SoleLeader:
        if election is None:
            return SoleLeader()
        api = connect(self._settings.kubeconfig, counted=self._metrics.request)
        leases = Leases(api, election.namespace, election.name, timeout=election.lease.renew_deadline / 2)
        return LeaseHolder(leases, election.identity, election.lease, self._leadership_changed)

    async def _begin(self) -> None:
        await self._synchronise()
        for watches in self._watches:
            watches.start()
        if isinstance(self._leader, LeaseHolder):
            self._leader.start()
        else:
            self._metrics.leader.set(1)
            self._take_up_work()
        self._begun = True
        while True:
            await asyncio.sleep(AUDIT_SECONDS)
            await self._synchronise()

    async def _follow_clock(self, clock: ClockWatch) -> None:
        """After a jump every timer would ring at another time than was meant: everything is looked at anew."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            jump = clock.jump()
            if jump is not None:
                logger.warning("the clock went %+.0f s from the time that passed: looking at everything anew", jump)
                self._enqueue(self._every_key())

    async def _synchronise(self) -> None:
        while True:
            try:
                await asyncio.to_thread(self._sync.synchronise)
                return
            except Exception as error:  # until the server answers, and whatever it was that it did not like
                logger.warning(
                    "could not list what is to be watched, again in %.0f s: %s", SYNC_RETRY_SECONDS, brief(error)
                )
                await asyncio.sleep(SYNC_RETRY_SECONDS)

    async def _end(self, endpoints: Endpoints) -> bool:
        """What is under way may finish, for a while; then nothing is written any more, and the lease goes."""
        self._queue.close()
        for watches in self._watches:
            watches.stop()
        drained = await self._queue.drain(self._settings.stop_seconds)
        if not drained:
            logger.warning("passes that did not end in time are abandoned")
        await asyncio.to_thread(self._leader.stop)
        self._runner.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._runner
        await endpoints.stop()
        alive = [watches for watches in self._watches if watches.is_alive()]
        ended = all([await asyncio.to_thread(watches.join, 5.0) for watches in alive])
        self._pool.shutdown(wait=False, cancel_futures=True)
        logger.info("stopped")
        return drained and ended

    # -- leadership

    def _leadership_changed(self, leads: bool) -> None:
        """Called in the lease's thread."""
        self._metrics.leader.set(1 if leads else 0)
        self._loop.call_soon_threadsafe(self._act_on_leadership, leads)

    def _act_on_leadership(self, leads: bool) -> None:
        self._queue.close()
        if leads and not self._stop.is_set():
            task = asyncio.create_task(self._take_over())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _take_over(self) -> None:
        """What the leader before us did last may not have reached our watches yet."""
        await self._synchronise()
        if self._leader.leads and not self._stop.is_set():
            self._take_up_work()

    def _take_up_work(self) -> None:
        self._queue.open()
        self._enqueue(self._every_key())

    def _every_key(self) -> Iterator[Key]:
        for model in (TableCatalog, TablePolicy, MaintenanceRun, ManagedTable):
            for obj in self._store.all(model.kind_name):
                yield Key(model.kind_name, obj["metadata"]["namespace"], obj["metadata"]["name"])

    # -- events and passes

    def _notice(self, kind: str, obj: KubernetesObject, deleted: bool) -> None:
        """Called in the threads of the watches and of the listing."""
        self._enqueue_soon(self._router.notice(kind, obj, deleted=deleted))

    def _wrote(self, kind: str, obj: KubernetesObject) -> None:
        """Called in a pass: the server's answer is as good as the event that follows, and sooner."""
        self._enqueue_soon(self._router.wrote(kind, obj))

    def _enqueue_soon(self, keys: Sequence[Key]) -> None:
        if keys:
            with contextlib.suppress(RuntimeError):  # the loop is closed: we have stopped
                self._loop.call_soon_threadsafe(self._enqueue, keys)

    def _enqueue(self, keys: Iterable[Key]) -> None:
        for key in keys:
            self._queue.add(key)

    def _catalog_of(self, key: Key) -> tuple[str, str] | None:
        """The catalog that a pass over the key may have to wait for. Passes over runs ask the API server alone."""
        if key.kind == TableCatalog.kind_name:
            return key.namespace, key.name
        obj = self._store.get(key.kind, key.namespace, key.name) if key.kind == ManagedTable.kind_name else None
        return None if obj is None else (key.namespace, obj["spec"]["catalogRef"]["name"])

    async def _work(self, key: Key) -> float | None:
        return await self._loop.run_in_executor(self._pool, self._pass, key)

    def _pass(self, key: Key) -> float | None:
        self._leader.require()
        return self._metrics.timed(key.kind, lambda: self._reconciler.reconcile(key))

    # -- probes

    def _unhealthy(self) -> list[str]:
        problems = []
        if self._runner.done():
            problems.append("the queue's workers have ended")
        if self._begun and not self._stop.is_set():
            if not all(watches.is_alive() for watches in self._watches):
                problems.append("the watches have ended")
            if not self._leader.is_alive():
                problems.append("the lease's thread has ended")
        stuck = self._queue.stuck(STUCK_SECONDS)
        if len(stuck) >= self._settings.concurrency:
            problems.append(f"every worker is stuck: {', '.join(map(str, stuck))}")
        return problems

    def _unready(self) -> list[str]:
        problems = [] if self._sync.done else ["the objects have not been listed yet"]
        problems += [watches.problem for watches in self._watches if watches.problem]
        return problems + (["stopping"] if self._stop.is_set() else [])


def _identity(settings: OperatorSettings) -> str:
    return settings.election.identity if settings.election else "tablewright"
