"""The Lease on the API server, held and renewed by a thread of its own; `lease.py` decides.

A thread, because neither a busy event loop nor blocked passes may cost us the lease. Every write of the operator asks
`require` first: a leader that was cut off, stopped or starved finds there that its time is over, before somebody
else's begins.
"""

import logging
import socket
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kubernetes import client
from kubernetes.client.exceptions import ApiException

from tableformat.errors import TablewrightError
from tablewright.runtime.lease import (
    LeaseRecord,
    LeaseSettings,
    Seen,
    Stand,
    decide_lease,
    look,
    may_act,
    released,
)
from tablewright.runtime.logs import brief

POD_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")

logger = logging.getLogger(__name__)


class NotLeadingError(TablewrightError):
    """Another replica leads, or may lead: nothing is written."""


class SoleLeader:
    """One replica by promise: it always leads, until it stops."""

    def __init__(self) -> None:
        self._stopped = False

    @property
    def leads(self) -> bool:
        return not self._stopped

    def require(self) -> None:
        if self._stopped:
            raise NotLeadingError("the operator is stopping")

    def stop(self) -> None:
        self._stopped = True

    def is_alive(self) -> bool:
        return True


class LeaseHolder:
    """`changed` is called from the lease's thread whenever we begin or cease to lead."""

    def __init__(
        self,
        leases: "Leases",
        identity: str,
        settings: LeaseSettings,
        changed: Callable[[bool], None],
    ) -> None:
        self._leases, self._identity, self._settings, self._changed = leases, identity, settings, changed
        self._seen: Seen | None = None
        self._renewed_at: float | None = None
        self._told = False
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def leads(self) -> bool:
        return may_act(self._renewed_at, self._settings, boot_clock())

    def require(self) -> None:
        if not self.leads:
            raise NotLeadingError(f"{self._identity} does not hold the lease any more: nothing is written")

    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def stop(self) -> None:
        """Acts no more from now on, and lets the lease go, so that a standby takes over at once."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join()
        held, self._renewed_at = self._renewed_at, None
        record = self._seen.record if self._seen else None
        if held is None or record is None:
            return
        try:
            self._leases.write(released(record, datetime.now(UTC)))
            logger.info("released the lease")
        except Exception as error:  # it runs out by itself
            logger.warning("could not release the lease: %s", brief(error))

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._turn()
            except Exception as error:  # whatever it is, there is nothing to do but to try again in time
                logger.warning("could not %s the lease: %s", "renew" if self.leads else "look at", brief(error))
            self._tell()
            self._stopping.wait(self._settings.retry)

    def _turn(self) -> None:
        """One look, and a write if it is ours to write."""
        self._seen = look(self._seen, self._leases.read(), boot_clock())
        at = boot_clock()  # before the write is sent: the others count from when it arrives
        decided = decide_lease(self._identity, self._settings, self._seen, at, datetime.now(UTC))
        if isinstance(decided, Stand):
            self._renewed_at = None
            return
        written = self._leases.write(decided.record)
        if written is None:  # somebody was faster
            self._seen = None
            self._renewed_at = None
            return
        self._seen, self._renewed_at = Seen(written, at), at

    def _tell(self) -> None:
        leads = self.leads
        if leads != self._told:
            self._told = leads
            logger.info("this replica %s", "leads" if leads else "stands by")
            self._changed(leads)


class Leases:
    """Reads and writes one Lease object."""

    def __init__(self, api: client.ApiClient, namespace: str, name: str, *, timeout: float) -> None:
        self._api, self._namespace, self._name, self._timeout = client.CoordinationV1Api(api), namespace, name, timeout

    def read(self) -> LeaseRecord | None:
        try:
            found = self._api.read_namespaced_lease(self._name, self._namespace, _request_timeout=self._timeout)
        except ApiException as error:
            if error.status == 404:
                return None
            raise
        return _record(found)

    def write(self, record: LeaseRecord) -> LeaseRecord | None:
        """The record as written; None if somebody else wrote first."""
        metadata = {"name": self._name, "namespace": self._namespace}
        body = {
            "metadata": metadata,
            "spec": {
                "holderIdentity": record.holder,
                "leaseDurationSeconds": max(1, round(record.duration)),
                "leaseTransitions": record.transitions,
                "acquireTime": _micro_time(record.acquired),
                "renewTime": _micro_time(record.renewed),
            },
        }
        try:
            if not record.version:
                written = self._api.create_namespaced_lease(self._namespace, body, _request_timeout=self._timeout)
            else:
                metadata["resourceVersion"] = record.version
                written = self._api.replace_namespaced_lease(
                    self._name, self._namespace, body, _request_timeout=self._timeout
                )
        except ApiException as error:
            if error.status in (404, 409):
                return None
            raise
        return _record(written)


@dataclass(frozen=True)
class Election:
    """Where the Lease is, and as whom this replica holds it."""

    namespace: str
    identity: str
    name: str = "tablewright"
    lease: LeaseSettings = field(default_factory=LeaseSettings)


def default_identity() -> str:
    """Another one each time that a process starts: nobody takes our lease for his own."""
    return f"{socket.gethostname()}_{uuid.uuid4().hex[:12]}"


def default_lease_namespace(watched: Sequence[str]) -> str:
    """The pod's own; outside of a pod the first that is watched."""
    if POD_NAMESPACE.exists():
        return POD_NAMESPACE.read_text().strip()
    return watched[0] if watched else "default"


def boot_clock() -> float:
    """Goes on while the machine sleeps, and knows nothing of the time of day being set."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _record(lease: Any) -> LeaseRecord:
    spec = lease.spec
    return LeaseRecord(
        holder=spec.holder_identity or "",
        duration=float(spec.lease_duration_seconds or 0),
        acquired=spec.acquire_time,
        renewed=spec.renew_time,
        transitions=spec.lease_transitions or 0,
        version=lease.metadata.resource_version,
    )


def _micro_time(moment: datetime | None) -> str | None:
    return None if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
