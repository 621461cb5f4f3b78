"""The operator's process: kopf watches, and every event only puts a key on the queue.

kopf's handlers, annotations, finalizers and timers are not used: they are edge-triggered, and decisions belong to
`decide`.
"""

import asyncio
import contextlib
import logging
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
from tablewright.api.run import MaintenanceRun
from tablewright.api.table import ManagedTable
from tablewright.runtime.cluster import Cluster
from tablewright.runtime.events import EventRouter
from tablewright.runtime.queue import WorkQueue
from tablewright.runtime.reconciler import Key, Reconciler
from tablewright.runtime.store import ObjectStore

logger = logging.getLogger(__name__)


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
    store = ObjectStore()
    reconciler = Reconciler(
        store,
        Cluster(settings.kubeconfig),
        settings.jobs,
        lambda: datetime.now(UTC).replace(microsecond=0),
        kubeconfig=settings.kubeconfig,
    )
    kopf.run(
        registry=_registry(store, reconciler, settings),
        standalone=True,
        clusterwide=not settings.namespaces,
        namespaces=list(settings.namespaces),
        liveness_endpoint=settings.liveness_endpoint,
    )


def _registry(store: ObjectStore, reconciler: Reconciler, settings: OperatorSettings) -> kopf.OperatorRegistry:
    registry = kopf.OperatorRegistry()
    pool = ThreadPoolExecutor(settings.concurrency, thread_name_prefix="pass")
    running: list[asyncio.Task[None]] = []

    async def work(key: Key) -> float | None:
        return await asyncio.get_running_loop().run_in_executor(pool, reconciler.reconcile, key)

    queue: WorkQueue[Key] = WorkQueue(work, concurrency=settings.concurrency)

    @kopf.on.login(registry=registry)
    def login(**kwargs: Any) -> kopf.ConnectionInfo | None:
        return kopf.login_via_client(**kwargs)  # the pod's own access, or a kubeconfig with all its plug-ins

    @kopf.on.startup(registry=registry)
    async def start(settings: kopf.OperatorSettings, **_: Any) -> None:
        settings.posting.enabled = False
        running.append(asyncio.create_task(queue.run()))

    @kopf.on.cleanup(registry=registry)
    async def stop(**_: Any) -> None:
        for task in running:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        pool.shutdown(wait=True)

    router = EventRouter(store)

    def watch(kind: str) -> Callable[..., Any]:
        async def on_event(event: Any, **_: Any) -> None:
            obj: KubernetesObject = dict(event["object"])
            if event["type"] == "DELETED":
                store.remove(kind, obj)
            else:
                store.put(kind, obj)
            for key in router.keys_of(kind, obj):
                queue.add(key)

        return on_event

    for model in (ManagedTable, TableCatalog, MaintenanceRun):
        kopf.on.event(GROUP, VERSION, model.plural, registry=registry)(watch(model.kind_name))
    kopf.on.event("batch", "v1", "jobs", labels={RUN_LABEL: kopf.PRESENT}, registry=registry)(watch("Job"))
    pointers = {LABEL_KIND: KIND_TABLE}
    kopf.on.event("", "v1", "configmaps", labels=pointers, registry=registry)(watch("ConfigMap"))
    return registry
