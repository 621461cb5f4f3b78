"""kopf's part: it watches, in a thread and an event loop of its own, and tells of every event. It decides nothing.

kopf's handlers, annotations, finalizers and timers are not used: they are edge-triggered, and decisions belong to
`decide`. It is told not to look for kinds and namespaces by itself, so it needs no rights beyond the objects. When it
gives up (a server that answers 403 or 500 for a while is enough), it is started again: the store stays, and its new
listing brings what was missed.
"""

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import kopf
from kubernetes import client

from tableformat.catalogs.naming import KIND_TABLE, LABEL_KIND
from tableformat.errors import TransientError
from tablewright.act.jobs import RUN_LABEL
from tablewright.api.catalog import TableCatalog
from tablewright.api.objects import GROUP, VERSION, KubernetesObject
from tablewright.api.policy import TablePolicy
from tablewright.api.run import MaintenanceRun
from tablewright.api.table import ManagedTable
from tablewright.runtime.cluster import access
from tablewright.runtime.logs import brief

RESTART_SECONDS = 1.0
SETTLED_SECONDS = 15.0
LOOK_SECONDS = 0.5

logger = logging.getLogger(__name__)


# What is watched: group, version, plural, and the kind's name.
Watched = tuple[str, str, str, str]
OUR_KINDS: tuple[Watched, ...] = tuple(
    (GROUP, VERSION, model.plural, model.kind_name)
    for model in (TablePolicy, TableCatalog, ManagedTable, MaintenanceRun)
)
JOBS: Watched = ("batch", "v1", "jobs", "Job")
POINTERS: Watched = ("", "v1", "configmaps", "ConfigMap")


class WatchLostError(TransientError):
    """Some of the watches are not there (any more)."""


class Watches:
    """Watches some kinds. `notice` is called from kopf's thread: kind, object, and whether it was deleted.

    `namespaces` says where: None is the whole cluster. Where the answer changes, everything is listed and watched anew.
    `lost` is called when a watch failed: a right to it may be gone.
    """

    def __init__(
        self,
        watched: Sequence[Watched],
        namespaces: Callable[[], Sequence[str] | None],
        kubeconfig: str | None,
        notice: Callable[[str, KubernetesObject, bool], None],
        *,
        lost: Callable[[], None] = lambda: None,
    ) -> None:
        self._watched, self._namespaces, self._lost = watched, namespaces, lost
        self._registry = _registry(watched, notice, kubeconfig)
        self._ended: tuple[float, str] | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watches", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def is_alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def problem(self) -> str | None:
        """Why the watches ended, if that was a moment ago: they may be ending again and again."""
        if self._ended is None or time.monotonic() - self._ended[0] > SETTLED_SECONDS:
            return None
        return f"the watches ended: {self._ended[1]}"

    def stop(self) -> None:
        self._stopping.set()

    def join(self, seconds: float) -> bool:
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while not self._stopping.is_set():
            namespaces = self._namespaces()
            if namespaces is not None and not namespaces:
                self._stopping.wait(LOOK_SECONDS)
                continue
            try:
                asyncio.run(self._watch(namespaces))
            except Exception as error:  # whatever it was, watching goes on
                self._ended = time.monotonic(), str(error)
                logger.warning("the watches ended and are started again: %s", brief(error))
                with contextlib.suppress(Exception):  # the next look will tell
                    self._lost()
            self._stopping.wait(RESTART_SECONDS)

    async def _watch(self, namespaces: Sequence[str] | None) -> None:
        """Until it is told to stop, others are to be watched, or a watch is lost: kopf goes on without one that failed,
        and never says so."""
        stop = asyncio.Event()
        watching = asyncio.create_task(
            kopf.operator(
                registry=self._registry,
                settings=_settings(),
                standalone=True,
                clusterwide=namespaces is None,
                namespaces=namespaces or (),
                stop_flag=stop,
            )
        )
        wanted = len(self._watched) * max(1, len(namespaces or ()))
        deadline, complete = time.monotonic() + SETTLED_SECONDS, False
        while not watching.done() and not self._stopping.is_set() and self._namespaces() == namespaces:
            await asyncio.wait([watching], timeout=LOOK_SECONDS)
            running = sum(task.get_name().startswith("watcher for ") for task in asyncio.all_tasks())
            if running < wanted and (complete or time.monotonic() > deadline):
                stop.set()
                with contextlib.suppress(Exception):  # what the lost watch failed with; kopf logged it
                    await watching
                raise WatchLostError(f"{wanted - running} of {wanted} watches were lost, or their kinds are not there")
            complete = complete or running >= wanted
        stop.set()
        await watching


def _settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False  # our own events say what matters
    settings.scanning.disabled = True
    settings.networking.connect_timeout = 10
    settings.networking.error_backoffs = (0.1, 0.5, 1, 2, 5)
    settings.queueing.idle_timeout = 1.0  # its per-object workers only hand an event on
    settings.queueing.exit_timeout = 0.5
    settings.watching.label_selectors["configmaps"] = f"{LABEL_KIND}={KIND_TABLE}"
    settings.watching.label_selectors["batch", "jobs"] = RUN_LABEL
    return settings


def _registry(
    watched: Sequence[Watched], notice: Callable[[str, KubernetesObject, bool], None], kubeconfig: str | None
) -> kopf.OperatorRegistry:
    registry = kopf.OperatorRegistry()

    async def log_in(**_: Any) -> kopf.ConnectionInfo:
        """With the same access as all other requests; asked again when the server does not know us any more."""
        return _connection(access(kubeconfig))

    kopf.on.login(registry=registry)(log_in)

    def watch(kind: str) -> Callable[..., Any]:
        async def on_event(event: Any, **_: Any) -> None:
            notice(kind, dict(event["object"]), event["type"] == "DELETED")

        return on_event

    for group, version, plural, kind in watched:
        kopf.on.event(group, version, plural, registry=registry)(watch(kind))
    return registry


def _connection(configuration: client.Configuration) -> kopf.ConnectionInfo:
    header = configuration.get_api_key_with_prefix("BearerToken") or ""
    scheme, _, token = header.rpartition(" ")
    return kopf.ConnectionInfo(
        server=configuration.host,
        ca_path=configuration.ssl_ca_cert,
        insecure=not configuration.verify_ssl,
        username=configuration.username or None,
        password=configuration.password or None,
        scheme=scheme or None,
        token=token or None,
        certificate_path=configuration.cert_file,
        private_key_path=configuration.key_file,
    )
