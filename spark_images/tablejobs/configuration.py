"""What Spark is told: a pure function of the job's size and of where the driver runs.

Without executors Spark works inside the driver. With them it is in client mode: executors are pods that Spark creates
by way of the API server, and that find the driver by its pod's address.
"""

from pathlib import Path

from tableformat.maintenance.sizing import HEAP_BYTES, MIB, JobSize
from tablejobs.pods import DriverPod, in_url

ATTEMPTS = 4  # at a task
_TRIES = ATTEMPTS + 1  # of Spark's: one more, which only tells that none came to an end (see executor.py)
_NO_LIMIT = (1 << 31) - 1
IDLE_SECONDS = 30
_LONGEST_PREFIX = 47  # Spark refuses a longer one: "-exec-" and a number must fit into a label after it
_RANDOM_END = 5  # of a pod's name, by the Job controller
# Java plans and moves bytes, and Python computes: a compiler that thinks longer takes more time than it gives back.
_QUIET_JAVA = "-XX:-UsePerfData -XX:+UseSerialGC -XX:TieredStopAtLevel=1"


def spark_configuration(size: JobSize, driver: DriverPod | None, *, scratch: Path, logging: Path) -> dict[str, str]:
    """`scratch` is for Spark's own temporary files; the executors' template is in it, where there are executors."""
    if size.executors and driver is not None:
        place = _in_pods(size, driver, scratch / "executor-pod.json")
    else:
        place = _in_the_driver(size)
    return {
        **place,
        "spark.app.name": "tablewright",
        "spark.driver.memory": _spark_memory(HEAP_BYTES),
        # Java's own temporary files go with the others: it does not look at TMPDIR, and a killed one removes nothing.
        "spark.driver.extraJavaOptions": (
            f"{_QUIET_JAVA} -Djava.io.tmpdir={scratch} -Dlog4j2.configurationFile=file:{logging}"
        ),
        "spark.local.dir": str(scratch),
        # Or ranges of a sort that are joined into one file would not be neighbours.
        "spark.shuffle.reduceLocality.enabled": "false",
        "spark.task.maxFailures": str(_TRIES),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


def _in_the_driver(size: JobSize) -> dict[str, str]:
    return {
        # The second number is how often a task is tried: in local mode the setting for it is not heeded.
        "spark.master": f"local[{size.tasks_at_once},{_TRIES}]",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.scheduler.mode": "FAIR",  # between the runs that share it
    }


def _in_pods(size: JobSize, driver: DriverPod, template: Path) -> dict[str, str]:
    return {
        "spark.master": f"k8s://{driver.api_server}",
        "spark.submit.deployMode": "client",
        "spark.driver.host": in_url(driver.ip),
        "spark.driver.bindAddress": in_url(driver.ip),
        "spark.authenticate": "true",  # what executors send is unpickled, and the driver's ports are open to all pods
        "spark.kubernetes.namespace": driver.namespace,
        "spark.kubernetes.driver.pod.name": driver.name,  # the owner of the executors' pods
        "spark.kubernetes.container.image": driver.image,
        "spark.kubernetes.authenticate.executor.serviceAccountName": driver.service_account,
        "spark.kubernetes.executor.podNamePrefix": _name_prefix(driver.name),
        "spark.kubernetes.executor.podTemplateFile": str(template),
        "spark.kubernetes.executor.podTemplateContainerName": "executor",
        "spark.kubernetes.executor.disableConfigMap": "true",
        "spark.kubernetes.executor.deleteOnTermination": "false",  # their end is looked at first
        "spark.kubernetes.driver.service.deleteOnTermination": "false",  # there is no such service, nor claims
        "spark.kubernetes.driver.ownPersistentVolumeClaim": "false",
        "spark.kubernetes.driver.reusePersistentVolumeClaim": "false",
        # Spark would end its JVM, and the driver with it, after as many executors as a long run on nodes that come and
        # go may well lose. What keeps executors is watched over by the driver itself.
        "spark.executor.maxNumFailures": str(_NO_LIMIT),
        **_coming_and_going(size.executors),
        "spark.executor.cores": str(size.cores),
        "spark.kubernetes.executor.request.cores": size.cpu or str(size.cores),
        "spark.task.cpus": str(size.cores_of_a_task),
        "spark.executor.memory": _spark_memory(HEAP_BYTES),
        "spark.executor.memoryOverhead": _spark_memory(size.memory_bytes - HEAP_BYTES),
        "spark.executor.extraJavaOptions": _QUIET_JAVA,
    }


def _name_prefix(pod: str) -> str:
    """The executors' hostnames begin with it, too, and Spark writes `_` there for a dot, which no hostname may have.

    Of a name that is too long, the end is kept: it is what tells the pods of one Job apart.
    """
    name = pod.replace(".", "-")
    if len(name) <= _LONGEST_PREFIX:
        return name
    end = name[-_RANDOM_END:]
    return f"{name[: _LONGEST_PREFIX - 1 - len(end)].rstrip('-')}-{end}"


def _coming_and_going(executors: int) -> dict[str, str]:
    """All of them at once, since the plan is known; work begins with the first, and who has none any more goes."""
    return {
        "spark.executor.instances": str(executors),
        "spark.scheduler.minRegisteredResourcesRatio": "0",
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.minExecutors": "1",
        "spark.dynamicAllocation.initialExecutors": str(executors),
        "spark.dynamicAllocation.maxExecutors": str(executors),
        "spark.dynamicAllocation.executorIdleTimeout": f"{IDLE_SECONDS}s",
        "spark.dynamicAllocation.shuffleTracking.enabled": "true",  # whoever holds a part of a shuffle stays
    }


def _spark_memory(size: int) -> str:
    return f"{size // MIB}m"
