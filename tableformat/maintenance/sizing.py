"""How large a job becomes: a pure function of its plan, of the limits that the policy sets, and of what went wrong.

A plan that one process can do stays in the driver, since every further pod costs seconds. Limits are never exceeded:
after a process was killed for want of memory, each task gets twice the share of it, and where the limit allows no more
memory, fewer tasks run at once. Rows are in the kernel's own memory, so Java's heap is small, and most of a container's
memory is Spark's "overhead".
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, PositiveInt

from tableformat.engine import RewriteTask
from tableformat.engine.deletes import held_bytes

MIB = 1024 * 1024
GIB = 1024 * MIB
HEAP_BYTES = 512 * MIB
JAVA_BYTES = HEAP_BYTES + 256 * MIB  # its classes, code and threads are outside of the heap
LEAST_TASK_BYTES = 512 * MIB  # Python with its libraries, and the batches of a task that streams
LEAST_EXECUTOR_BYTES = HEAP_BYTES + 64 * MIB  # with less, Java would have more than its container
MOST_DOUBLINGS = 6
_USUAL_DELETES_BYTES = 64 * MIB  # for which the least has room


class ExecutorLimits(BaseModel):
    """What a policy allows the executors of one job."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    most: int
    """How many; none where the driver has to do everything itself."""
    cores: PositiveInt
    cpu: str | None = None
    """What is asked of the cluster for each, as a quantity; as many processors as cores if none."""
    memory_bytes: PositiveInt
    """Of one executor's container, all in all."""
    bytes_each: PositiveInt
    """Of data, for one executor; a plan with no more than that stays in the driver."""


@dataclass(frozen=True)
class Workload:
    """What the sizing has to know of a plan."""

    bytes: int
    parts: int
    """How many pieces of work can be done side by side."""
    task_bytes: int
    """The memory that the largest task may hold."""

    @classmethod
    def of(cls, tasks: Sequence[RewriteTask]) -> "Workload":
        return cls(
            bytes=sum(task.source_bytes for task in tasks),
            parts=sum(_parts(task) for task in tasks),
            task_bytes=max((_task_bytes(task) for task in tasks), default=LEAST_TASK_BYTES),
        )


@dataclass(frozen=True)
class JobSize:
    executors: int
    """None: the driver does the tasks itself."""
    cores: int
    """Of an executor, or of the driver that does the tasks itself."""
    tasks_at_once: int
    """In one executor, or in the driver."""
    memory_bytes: int
    """Of an executor's container."""
    note: str = ""
    """What was made different after a process was killed for want of memory."""
    cpu: str | None = None
    """What is asked of the cluster for an executor, where it is not as many processors as cores."""
    at_limit: str = ""
    """What allows a task no more memory than it has here; empty where another attempt would give it more."""

    @property
    def cores_of_a_task(self) -> int:
        return self.cores // self.tasks_at_once


def size_job(
    work: Workload,
    limits: ExecutorLimits | None,
    *,
    driver_cores: int,
    driver_memory_bytes: int | None,
    out_of_memory: int = 0,
) -> JobSize:
    """`out_of_memory`: how often in a row this work has failed for want of memory."""
    share = work.task_bytes << min(out_of_memory, MOST_DOUBLINGS)
    executors = 0 if limits is None else _executors(work, limits)
    if limits is None or executors == 0:
        at_once = _at_once(share, driver_cores, driver_memory_bytes)
        at_limit = _at_limit(share, at_once, driver_memory_bytes, "jobs.resources.limits.memory")
        note = _note(out_of_memory, share, at_once, at_limit)
        return JobSize(0, driver_cores, at_once, driver_memory_bytes or 0, note, at_limit=at_limit)
    at_once = _at_once(share, limits.cores, limits.memory_bytes)
    memory = min(limits.memory_bytes, JAVA_BYTES + at_once * share)
    at_limit = _at_limit(share, at_once, limits.memory_bytes, "jobs.executors.memory")
    note = _note(out_of_memory, share, at_once, at_limit)
    return JobSize(executors, limits.cores, at_once, memory, note, limits.cpu, at_limit)


def _executors(work: Workload, limits: ExecutorLimits) -> int:
    if work.bytes <= limits.bytes_each:
        return 0
    wanted = min(math.ceil(work.bytes / limits.bytes_each), math.ceil(work.parts / limits.cores), limits.most)
    return wanted if wanted > 1 else 0  # one pod more would only do what the driver can do


def _at_once(share: int, cores: int, memory_bytes: int | None) -> int:
    """A divisor of the cores, so that no core is idle while a task could use it."""
    fitting = cores if memory_bytes is None else max(1, (memory_bytes - JAVA_BYTES) // share)
    return max(count for count in range(1, cores + 1) if cores % count == 0 and count <= fitting)


def _at_limit(share: int, at_once: int, memory_bytes: int | None, field: str) -> str:
    if memory_bytes is None or at_once > 1 or JAVA_BYTES + share < memory_bytes:
        return ""
    return f"all of the {memory_bytes // MIB} MiB that {field} allows"


def _note(out_of_memory: int, share: int, at_once: int, at_limit: str) -> str:
    if not out_of_memory:
        return ""
    shared = f"{share // MIB} MiB for each of {at_once} tasks at once"
    return f"after running out of memory: {f'one task at once, with {at_limit}' if at_limit else shared}"


def _parts(task: RewriteTask) -> int:
    """Sorts are divided into ranges; other tasks are done in one piece."""
    return 1 if task.order is None else max(1, task.source_bytes // max(1, task.target_file_bytes))


def _task_bytes(task: RewriteTask) -> int:
    rows = LEAST_TASK_BYTES if task.order is None else max(LEAST_TASK_BYTES, task.memory_bytes)
    return rows + max(0, held_bytes(task) - _USUAL_DELETES_BYTES)
