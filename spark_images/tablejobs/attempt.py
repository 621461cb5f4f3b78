"""One attempt at a run: what this driver has to work with, and what earlier attempts say about how much it takes."""

import logging
from dataclasses import dataclass
from functools import cached_property

from tableformat.maintenance.job import MaintenanceJob
from tableformat.maintenance.sizing import MIB, ExecutorLimits, JobSize, Workload, size_job
from tablejobs.container import kills_for_memory, memory_limit, processors
from tablejobs.failures import DriverOutOfMemory, OutOfMemory
from tablejobs.pods import DriverPod, OwnPod, PodsOfJob, count_out_of_memory, killed
from tablejobs.shared_spark import SharedSpark

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
    driver_was_killed: bool = False
    """In an earlier attempt of the same Job, and so within the same limits."""
    beside_executors: bool = False
    """Whether that driver was killed though it had executors for its tasks."""
    at_limit: str = ""
    """What allows its tasks no more memory, if anything does; known when it has its size."""
    spark: SharedSpark | None = None
    """That it shares with others, where it does."""

    @classmethod
    def of(cls, job: MaintenanceJob, *, cores: int | None, spark: SharedSpark | None = None) -> "Attempt":
        driver, own = DriverPod.from_environment(), OwnPod.from_environment()
        pods = None if own is None else PodsOfJob(own)
        drivers = pods.drivers(job.run.name) if pods is not None and job.run is not None else ()
        ended = killed(drivers)
        return cls(
            driver=driver,
            limits=job.executors if driver is not None else None,
            cores=cores or processors(),
            earlier_out_of_memory=job.out_of_memory + count_out_of_memory(drivers),
            driver_was_killed=bool(ended),
            beside_executors=pods is not None and pods.had_executors(ended),
            kills_before=None if job.run is None else kills_for_memory(),
            spark=spark,
        )

    def size(self, work: Workload, *, alone: bool = False) -> JobSize:
        """`alone`: without executors, whatever is allowed.

        Raises `OutOfMemory` where the attempt before this one was killed with all the memory there is for one task, and
        `DriverOutOfMemory` where it was killed without doing any itself.
        """
        size = self._sized(work, alone=alone, out_of_memory=self.earlier_out_of_memory)
        self.at_limit = size.at_limit
        limit = memory_limit()
        if self.beside_executors and size.executors and limit is not None:  # without a limit, it was the node's memory
            had = f"{limit // MIB} MiB that jobs.resources.limits.memory allows: raise it"
            raise DriverOutOfMemory(
                f"the driver was killed for want of memory, though executors did its tasks: it had the {had}"
            )
        if self.driver_was_killed and not self.beside_executors and not size.executors:
            before = self._sized(work, alone=alone, out_of_memory=self.earlier_out_of_memory - 1)
            if before.at_limit:
                raise OutOfMemory
        return size

    def _sized(self, work: Workload, *, alone: bool, out_of_memory: int) -> JobSize:
        return size_job(
            work,
            None if alone else self.limits,
            driver_cores=self.cores,
            driver_memory_bytes=memory_limit(),
            out_of_memory=out_of_memory,
        )

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
