"""The operator's process: kopf watches, and every event only puts a key on the queue.

kopf's handlers, annotations, finalizers and timers are not used: they are edge-triggered, and decisions belong to
`decide`.
"""

import asyncio
import contextlib
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import kopf

from tableformat.catalogs.naming import KIND_TABLE, LABEL_KIND
from tablewright.act.jobs import RUN_LABEL, JobSettings
from tablewright.api.catalog import TableCatalog
from tablewright.api.objects import GROUP, VERSION, KubernetesObject
from tablewright.api.policy import TablePolicy
from tablewright.api.run import MaintenanceRun
from tablewright.api.table import ManagedTable
from tablewright.runtime.claims import Claims
from tablewright.runtime.cluster import Cluster
from tablewright.runtime.events import EventRouter
from tablewright.runtime.queue import WorkQueue
from tablewright.runtime.reconciler import Key, Reconciler
from tablewright.runtime.store import ObjectStore


@dataclass(frozen=True)
class OperatorSettings:
    jobs: JobSettings
    namespaces: Sequence[str] = ()  # empty: the whole cluster
    kubeconfig: str | None = None
    concurrency: int = 4
    liveness_endpoint: str | None = None


def run_operator(settings: OperatorSettings) -> None:
    """Runs until it is told to stop by a signal."""
    if settings.kubeconfig is not None:
        os.environ["KUBECONFIG"] = settings.kubeconfig  # where kopf looks
    store, claims = ObjectStore(), Claims()
    reconciler = Reconciler(
        store,
        claims,
        Cluster(settings.kubeconfig),
        settings.jobs,
        lambda: datetime.now(UTC).replace(microsecond=0),
        kubeconfig=settings.kubeconfig,
    )
    workers = _Workers(reconciler, settings.concurrency)
    registry = kopf.OperatorRegistry()
    kopf.on.login(registry=registry)(_log_in)
    kopf.on.startup(registry=registry)(workers.start)
    kopf.on.cleanup(registry=registry)(workers.stop)
    _watch_all(registry, EventRouter(store, claims), workers.queue)
    kopf.run(
        registry=registry,
        standalone=True,
        clusterwide=not settings.namespaces,
        namespaces=list(settings.namespaces),
        liveness_endpoint=settings.liveness_endpoint,
    )


class _Workers:
    """The queue's workers, in kopf's event loop; passes block, so they run in threads."""

    def __init__(self, reconciler: Reconciler, concurrency: int) -> None:
        self._reconciler = reconciler
        self._pool = ThreadPoolExecutor(concurrency, thread_name_prefix="pass")
        self.queue: WorkQueue[Key] = WorkQueue(self._work, concurrency=concurrency)
        self._running: asyncio.Task[None] | None = None

    async def start(self, settings: kopf.OperatorSettings, **_: Any) -> None:
        settings.posting.enabled = False  # our own events say what matters
        self._running = asyncio.create_task(self.queue.run())

    async def stop(self, **_: Any) -> None:
        if self._running is not None:
            self._running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._running
        self._pool.shutdown(wait=True)

    async def _work(self, key: Key) -> float | None:
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._reconciler.reconcile, key)


def _log_in(**kwargs: Any) -> kopf.ConnectionInfo | None:
    """By the client library: the pod's own access, or a kubeconfig with all its plug-ins."""
    return kopf.login_via_client(**kwargs)


def _watch_all(registry: kopf.OperatorRegistry, router: EventRouter, queue: WorkQueue[Key]) -> None:
    def watch(kind: str) -> Callable[..., Any]:
        async def on_event(event: Any, **_: Any) -> None:
            obj: KubernetesObject = dict(event["object"])
            for key in router.notice(kind, obj, deleted=event["type"] == "DELETED"):
                queue.add(key)

        return on_event

    for model in (TablePolicy, TableCatalog, ManagedTable, MaintenanceRun):
        kopf.on.event(GROUP, VERSION, model.plural, registry=registry)(watch(model.kind_name))
    kopf.on.event("batch", "v1", "jobs", labels={RUN_LABEL: kopf.PRESENT}, registry=registry)(watch("Job"))
    pointers = {LABEL_KIND: KIND_TABLE}
    kopf.on.event("", "v1", "configmaps", labels=pointers, registry=registry)(watch("ConfigMap"))
