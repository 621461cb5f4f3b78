"""One attempt at a run: what this driver has to work with, and what earlier attempts say about how much it takes."""

import logging
from dataclasses import dataclass
from functools import cached_property

from tableformat.maintenance.job import MaintenanceJob
from tableformat.maintenance.sizing import ExecutorLimits, JobSize, Workload, size_job
from tablejobs.container import kills_for_memory, memory_limit, processors
from tablejobs.pods import DriverPod, OwnPod, PodsOfJob

logger = logging.getLogger("tablejobs")


@dataclass
class Attempt:
    driver: DriverPod | None
    """Where it may have executors: with a queue, for one, it may not."""
    limits: ExecutorLimits | None
    cores: int
    earlier_out_of_memory: int
    kills_before: int | None
    """In this container; None where the driver is no pod, since then the count is of other processes, too."""
    at_limit: str = ""
    """What allows its tasks no more memory, if anything does; known when it has its size."""

    @classmethod
    def of(cls, job: MaintenanceJob, *, cores: int | None) -> "Attempt":
        driver, own = DriverPod.from_environment(), OwnPod.from_environment()
        earlier = job.out_of_memory
        if own is not None and job.run is not None:
            earlier += PodsOfJob(own).earlier_attempts_out_of_memory(job.run.name)
        return cls(
            driver=driver,
            limits=job.executors if driver is not None else None,
            cores=cores or processors(),
            earlier_out_of_memory=earlier,
            kills_before=None if job.run is None else kills_for_memory(),
        )

    def size(self, work: Workload, *, alone: bool = False) -> JobSize:
        """`alone`: without executors, whatever is allowed."""
        size = size_job(
            work,
            None if alone else self.limits,
            driver_cores=self.cores,
            driver_memory_bytes=memory_limit(),
            out_of_memory=self.earlier_out_of_memory,
        )
        self.at_limit = size.at_limit
        return size

    def ran_out_of_memory(self) -> bool:
        """Whether a process of this attempt was killed for it, here or in an executor."""
        if self.kills_before is not None and kills_for_memory() > self.kills_before:
            return True
        return self._pods is not None and self._pods.executors_out_of_memory() > 0

    def remove_executors(self) -> None:
        if self._pods is not None:
            self._pods.remove_executors()

    @cached_property
    def _pods(self) -> PodsOfJob | None:
        return None if self.driver is None else PodsOfJob(self.driver)
