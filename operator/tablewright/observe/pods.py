"""Why a run's pod does not run, or ended without a word, as one reason that people and alerts can use.

From the status of the pod and of the Job, and, where there is no pod at all, from what the Job controller says of its
attempts to create one: nothing but an event tells of a quota that is used up, nor of a volume that is not there.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from tableformat.maintenance.job import OUT_OF_MEMORY
from tablewright.api.objects import KubernetesObject
from tablewright.decide.state import PodProblem

SLOW_AFTER = timedelta(minutes=10)  # a large image may take a while to come to a new node

_IMAGE = {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError"}
_CONFIGURATION = {"CreateContainerConfigError", "CreateContainerError", "RunContainerError"}


def pod_problem(pod: KubernetesObject) -> PodProblem | None:
    """What keeps the pod from running, or what ended it; None where it runs, or may yet."""
    status, name = pod.get("status") or {}, pod["metadata"]["name"]
    for container in status.get("containerStatuses") or []:
        state = container.get("state") or {}
        terminated, waiting = state.get("terminated") or {}, state.get("waiting") or {}
        if terminated.get("reason") == "OOMKilled":
            message = (
                f"pod {name} was killed for want of memory: raise jobs.resources.limits.memory if it happens again"
            )
            return PodProblem(OUT_OF_MEMORY, message)
        if waiting.get("reason") in _IMAGE:
            return PodProblem("ImageNotPulled", _said(f"pod {name}: image {container.get('image', '')}", waiting))
        if waiting.get("reason") in _CONFIGURATION:
            return PodProblem("PodNotStarted", _said(f"pod {name}", waiting))
    conditions = {condition["type"]: condition for condition in status.get("conditions") or []}
    disrupted = conditions.get("DisruptionTarget") or {}
    if status.get("reason") == "Evicted" or disrupted.get("status") == "True":
        return PodProblem("Evicted", _said(f"pod {name}", status if status.get("reason") == "Evicted" else disrupted))
    scheduled = conditions.get("PodScheduled") or {}
    if scheduled.get("status") == "False" and scheduled.get("reason") == "Unschedulable":
        return PodProblem("Unschedulable", _said(f"no node takes pod {name}", scheduled))
    return None


def slow_pod(pods: Sequence[KubernetesObject], now: datetime) -> str | None:
    """The newest pod, by name, if it should have started by now and its status does not say why it has not: of a volume
    that cannot be mounted, or a scheduler that is not there, only events tell, if anything does."""
    if not pods:
        return None
    newest = newest_first(pods)[0]
    conditions = (newest.get("status") or {}).get("conditions") or []
    gated = any(each.get("reason") == "SchedulingGated" for each in conditions)  # somebody else's to let it go
    created = newest["metadata"].get("creationTimestamp")
    if gated or has_begun(newest) or pod_problem(newest) is not None or created is None:
        return None
    return str(newest["metadata"]["name"]) if now >= datetime.fromisoformat(created) + SLOW_AFTER else None


def job_problem(
    job: KubernetesObject, pods: Sequence[KubernetesObject], events: Iterable[KubernetesObject], now: datetime
) -> PodProblem | None:
    """Of the newest pod; without any, why there is none. `events` are about the one or the other."""
    if (job.get("spec") or {}).get("suspend"):
        return PodProblem("Queued", "the Job is suspended until its queue admits it")
    slow = slow_pod(pods, now)
    if slow is not None:
        warnings = [event for event in events if event.get("type") == "Warning"]
        why = _said("", max(warnings, key=_time_of)) if warnings else "nothing tells why"
        since = newest_first(pods)[0]["metadata"]["creationTimestamp"]
        return PodProblem("PodNotStarted", f"pod {slow} was created at {since} and has not started: {why}")
    if pods:
        return pod_problem(newest_first(pods)[0])
    failed = [event for event in events if event.get("reason") == "FailedCreate"]
    if not failed:
        return None
    last = max(failed, key=_time_of)
    return PodProblem("PodsNotCreated", f"no pod can be created: {last.get('note') or 'no reason was given'}")


def has_ended(pod: KubernetesObject) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def has_begun(pod: KubernetesObject) -> bool:
    """Whether its driver runs or ran; what else is in the pod by somebody's admission writes to no table."""
    status = pod.get("status") or {}
    drivers = [each for each in status.get("containerStatuses") or [] if each.get("name") == "driver"]
    states = [each.get(state) or {} for each in drivers for state in ("state", "lastState")]
    return status.get("phase", "Pending") != "Pending" or any(
        "running" in state or "terminated" in state for state in states
    )


def newest_first(pods: Iterable[KubernetesObject]) -> list[KubernetesObject]:
    return sorted(pods, key=lambda pod: str(pod["metadata"].get("creationTimestamp")), reverse=True)


def _time_of(event: KubernetesObject) -> str:
    series = event.get("series") or {}
    times = (series.get("lastObservedTime"), event.get("deprecatedLastTimestamp"), event.get("eventTime"))
    return next((str(time) for time in times if time), "")


def _said(what: str, source: dict[str, Any]) -> str:
    said = source.get("message") or source.get("note")
    return ": ".join(str(text) for text in (what, source.get("reason"), said) if text)
