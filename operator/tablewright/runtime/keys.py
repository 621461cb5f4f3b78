"""What the queue holds: the name of an object that wants a pass, and nothing of its content."""

from dataclasses import dataclass
from datetime import datetime

from tablewright.api.objects import KubernetesObject


@dataclass(frozen=True)
class Key:
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


def place_of(obj: KubernetesObject) -> tuple[str, str]:
    return obj["metadata"]["namespace"], obj["metadata"]["name"]


def seconds_until(time: datetime | None, now: datetime) -> float | None:
    """What a pass returns: in how many seconds its key wants the next one, if time alone can change the outcome."""
    return None if time is None else max(0.0, (time - now).total_seconds())
