"""How large a job becomes, and what Spark is told of it."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tableformat.engine import DeleteFile, RewriteTask
from tableformat.maintenance.job import JobReport
from tableformat.maintenance.sizing import (
    GIB,
    HEAP_BYTES,
    JAVA_BYTES,
    LEAST_TASK_BYTES,
    MIB,
    ExecutorLimits,
    JobSize,
    Workload,
    size_job,
)
from tablejobs import executor
from tablejobs.attempt import Attempt
from tablejobs.configuration import spark_configuration
from tablejobs.container import kills_for_memory, memory_limit, processors
from tablejobs.failures import DriverOutOfMemory, OutOfMemory, classify
from tablejobs.pods import DRIVER_LABEL, DriverPod, count_out_of_memory, killed

LIMITS = ExecutorLimits(most=4, cores=2, memory_bytes=4 * GIB, bytes_each=GIB)
TEMPLATE = {
    "metadata": {"labels": {"team": "sales"}},
    "spec": {"serviceAccountName": "jobs", "containers": [{"name": "executor", "image": "jobs:1"}]},
}
ENVIRONMENT = {
    "TABLEWRIGHT_EXECUTOR_POD": json.dumps(TEMPLATE),
    "TABLEWRIGHT_POD_NAME": "run-1-abcde",
    "TABLEWRIGHT_POD_NAMESPACE": "sales",
    "TABLEWRIGHT_POD_IP": "10.1.2.3",
    "KUBERNETES_SERVICE_HOST": "10.96.0.1",
    "KUBERNETES_SERVICE_PORT": "443",
}


UNORDERED = {"source_bytes": MIB, "target_file_bytes": MIB, "order": None}


def work(size: int, parts: int = 100, task_bytes: int = LEAST_TASK_BYTES) -> Workload:
    return Workload(bytes=size, parts=parts, task_bytes=task_bytes)


def sized(
    workload: Workload, limits: ExecutorLimits | None = LIMITS, *, memory: int | None = 4 * GIB, out_of_memory: int = 0
) -> JobSize:
    return size_job(workload, limits, driver_cores=2, driver_memory_bytes=memory, out_of_memory=out_of_memory)


@pytest.mark.parametrize(
    ("workload", "executors"),
    [
        (work(GIB), 0),
        (work(GIB + 1), 2),
        (work(3 * GIB), 3),
        (work(100 * GIB), 4),
        (work(100 * GIB, parts=5), 3),
        (work(100 * GIB, parts=2), 0),  # one executor could do no more than the driver
    ],
)
def test_executors_are_as_many_as_bytes_and_parts_ask_for_within_the_limit(workload: Workload, executors: int) -> None:
    assert sized(workload).executors == executors


def test_without_limits_the_driver_works_alone() -> None:
    assert sized(work(100 * GIB), None) == JobSize(0, 2, 2, 4 * GIB)


def test_executors_ask_for_what_their_tasks_need_and_no_more() -> None:
    assert sized(work(9 * GIB)).memory_bytes == JAVA_BYTES + 2 * LEAST_TASK_BYTES


def test_large_tasks_run_one_at_a_time_where_two_do_not_fit() -> None:
    size = sized(work(9 * GIB, task_bytes=2 * GIB))
    assert (size.tasks_at_once, size.cores_of_a_task, size.memory_bytes) == (1, 2, JAVA_BYTES + 2 * GIB)


def test_after_a_kill_for_memory_each_task_gets_twice_as_much_and_the_size_says_so() -> None:
    first, second, third, fourth = (sized(work(9 * GIB, task_bytes=GIB), out_of_memory=n) for n in range(4))
    assert (first.tasks_at_once, first.memory_bytes, first.note) == (2, JAVA_BYTES + 2 * GIB, "")
    assert (second.tasks_at_once, second.memory_bytes) == (1, JAVA_BYTES + 2 * GIB)
    assert second.note == "after running out of memory: 2048 MiB for each of 1 tasks at once"
    assert (third.tasks_at_once, third.memory_bytes) == (1, 4 * GIB)
    assert third.note == (
        "after running out of memory: one task at once, with all of the 4096 MiB that jobs.executors.memory allows"
    )
    assert fourth == third
    assert [size.at_limit for size in (first, second, third)] == [
        *["", "", "all of the 4096 MiB that jobs.executors.memory allows"]
    ]


def test_a_task_with_many_deletes_gets_memory_for_them() -> None:
    def asked(**deletes: tuple[DeleteFile, ...]) -> int:
        nothing: dict[str, tuple[DeleteFile, ...]] = {"position_deletes": (), "equality_deletes": ()}
        return Workload.of([cast("RewriteTask", SimpleNamespace(**UNORDERED, **(nothing | deletes)))]).task_bytes

    keys = DeleteFile("k", "PARQUET", 40 * MIB, 5_000_000, 2, equality_ids=(1,))
    positions = DeleteFile("p", "PARQUET", 40 * MIB, 10_000_000, 2)
    assert asked(equality_deletes=(replace(keys, records=1000, size_bytes=MIB),)) == LEAST_TASK_BYTES
    assert asked(equality_deletes=(keys,)) > LEAST_TASK_BYTES + 500 * MIB  # as measured with keys of 17 characters
    assert asked(equality_deletes=(keys, keys)) > LEAST_TASK_BYTES + 1000 * MIB
    assert asked(position_deletes=(positions,)) > LEAST_TASK_BYTES + 80 * MIB


def test_a_driver_alone_does_fewer_tasks_at_once_after_a_kill() -> None:
    assert sized(work(MIB, task_bytes=GIB)).tasks_at_once == 2
    again = sized(work(MIB, task_bytes=GIB), out_of_memory=1)
    assert (again.executors, again.tasks_at_once) == (0, 1)
    assert "2048 MiB for each of 1 tasks" in again.note


@given(
    size=st.integers(0, 1 << 50),
    parts=st.integers(0, 10_000),
    task_bytes=st.integers(LEAST_TASK_BYTES, 1 << 40),
    most=st.integers(1, 1000),
    cores=st.integers(1, 128),
    memory=st.integers(MIB, 1 << 42),
    failures=st.integers(0, 100),
)
def test_no_size_exceeds_its_limits(
    size: int, parts: int, task_bytes: int, most: int, cores: int, memory: int, failures: int
) -> None:
    limits = ExecutorLimits(most=most, cores=cores, memory_bytes=memory, bytes_each=GIB)
    found = sized(work(size, parts, task_bytes), limits, out_of_memory=failures)
    assert 0 <= found.executors <= most
    assert found.executors != 1
    assert 1 <= found.tasks_at_once <= found.cores
    if found.executors:
        assert found.memory_bytes <= memory
        assert found.cores == cores
    assert bool(found.note) == bool(failures)
    next_one = sized(work(size, parts, task_bytes), limits, out_of_memory=failures + 1)
    assert not found.at_limit or replace(next_one, note=found.note) == found, "where nothing more can be given"


def test_a_driver_alone_is_spark_in_local_mode(tmp_path: Path) -> None:
    found = spark_configuration(JobSize(0, 4, 3, 0), None, scratch=tmp_path, logging=tmp_path / "log4j2.properties")
    assert found["spark.master"] == "local[3,5]"
    assert found["spark.driver.host"] == "127.0.0.1"
    assert not [name for name in found if name.startswith(("spark.kubernetes", "spark.executor"))]


def test_executors_are_pods_that_belong_to_the_driver(tmp_path: Path) -> None:
    driver = DriverPod.from_environment(ENVIRONMENT)
    assert driver is not None
    size = JobSize(3, 4, 2, 3 * GIB, cpu="1500m")
    found = spark_configuration(size, driver, scratch=tmp_path, logging=tmp_path / "log4j2")
    assert {name: value for name, value in found.items() if "driver.pod" in name or "executor." in name} == {
        "spark.kubernetes.driver.pod.name": "run-1-abcde",
        "spark.kubernetes.authenticate.executor.serviceAccountName": "jobs",
        "spark.kubernetes.executor.podNamePrefix": "run-1-abcde",
        "spark.kubernetes.executor.podTemplateFile": str(tmp_path / "executor-pod.json"),
        "spark.kubernetes.executor.podTemplateContainerName": "executor",
        "spark.kubernetes.executor.disableConfigMap": "true",
        "spark.kubernetes.executor.deleteOnTermination": "false",
        "spark.executor.maxNumFailures": str((1 << 31) - 1),
        "spark.executor.instances": "3",
        "spark.executor.cores": "4",
        "spark.kubernetes.executor.request.cores": "1500m",
        "spark.executor.memory": f"{HEAP_BYTES // MIB}m",
        "spark.executor.memoryOverhead": f"{(3 * GIB - HEAP_BYTES) // MIB}m",
        "spark.executor.extraJavaOptions": "-XX:-UsePerfData -XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    }
    allocation = {name.rpartition(".")[2]: value for name, value in found.items() if "dynamicAllocation" in name}
    assert (allocation["initialExecutors"], allocation["maxExecutors"], allocation["minExecutors"]) == ("3", "3", "1")
    assert found["spark.master"] == "k8s://https://10.96.0.1:443"
    assert (found["spark.task.cpus"], found["spark.task.maxFailures"]) == ("2", "5")
    assert (found["spark.driver.host"], found["spark.kubernetes.namespace"]) == ("10.1.2.3", "sales")
    assert found["spark.kubernetes.container.image"] == "jobs:1"
    assert found["spark.authenticate"] == "true"


@pytest.mark.parametrize(
    ("pod", "prefix"),
    [
        ("run-1-abcde", "run-1-abcde"),
        ("sales.payments-compact-abcde", "sales-payments-compact-abcde"),
        ("p" * 41 + "-abcde", "p" * 41 + "-abcde"),
        ("p" * 57 + "-abcde", "p" * 41 + "-abcde"),
        ("p" * 40 + ".daily-0123456789-abcde", "p" * 40 + "-abcde"),
    ],
)
def test_executors_have_a_name_that_is_a_hostname_too_and_their_drivers_alone(
    pod: str, prefix: str, tmp_path: Path
) -> None:
    driver = DriverPod.from_environment({**ENVIRONMENT, "TABLEWRIGHT_POD_NAME": pod})
    found = spark_configuration(JobSize(2, 1, 1, GIB), driver, scratch=tmp_path, logging=tmp_path / "log4j2")
    assert found["spark.kubernetes.executor.podNamePrefix"] == prefix
    assert len(prefix) <= 47
    assert found["spark.kubernetes.driver.pod.name"] == pod


def test_the_template_is_told_whose_executors_they_are(tmp_path: Path) -> None:
    driver = DriverPod.from_environment(ENVIRONMENT)
    assert driver is not None
    written = json.loads(driver.write_template(tmp_path).read_text())
    assert written["metadata"]["labels"] == {"team": "sales", DRIVER_LABEL: "run-1-abcde"}
    assert written["spec"] == TEMPLATE["spec"]


def test_an_address_of_the_sixth_version_is_written_as_one(tmp_path: Path) -> None:
    told = {**ENVIRONMENT, "KUBERNETES_SERVICE_HOST": "fd00::1", "TABLEWRIGHT_POD_IP": "fd00::2"}
    found = spark_configuration(
        JobSize(2, 1, 1, GIB), DriverPod.from_environment(told), scratch=tmp_path, logging=tmp_path / "log4j2"
    )
    assert found["spark.master"] == "k8s://https://[fd00::1]:443"
    assert (found["spark.driver.host"], found["spark.driver.bindAddress"]) == ("[fd00::2]", "[fd00::2]")


@pytest.mark.parametrize("missing", ["TABLEWRIGHT_EXECUTOR_POD", "KUBERNETES_SERVICE_HOST"])
def test_a_driver_without_a_template_or_an_api_server_has_no_executors(missing: str) -> None:
    told = {name: value for name, value in ENVIRONMENT.items() if name != missing}
    assert DriverPod.from_environment(told) is None


def test_pods_are_counted_that_were_killed_for_memory() -> None:
    def ended(reason: str) -> dict[str, object]:
        return {"status": {"containerStatuses": [{"state": {"terminated": {"reason": reason}}}]}}

    running: dict[str, object] = {"status": {"containerStatuses": [{"state": {"running": {}}}]}}
    assert count_out_of_memory([ended("OOMKilled"), ended("Error"), running, {}, ended("OOMKilled")]) == 2


def test_a_driver_whose_last_word_is_want_of_memory_counts_too() -> None:
    def said(message: str) -> dict[str, object]:
        return {"status": {"containerStatuses": [{"state": {"terminated": {"reason": "Error", "message": message}}}]}}

    def word(reason: str) -> str:
        return JobReport(succeeded=False, reason=reason, message="ended").to_termination_message()

    pods = [said(word("OutOfMemory")), said(word("CommitConflict")), said("no report")]
    assert count_out_of_memory(pods) == 1
    assert not killed(pods), "that was a process of its own, or an executor"


@pytest.mark.parametrize(("memory", "killed_before", "ends"), [(GIB, 1, True), (GIB, 0, False), (8 * GIB, 1, False)])
def test_a_driver_that_was_killed_with_all_the_memory_there_is_for_one_task_is_the_last(
    memory: int, killed_before: int, ends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the kernel kills all of a container at once, nobody is left to report it: the next attempt does."""
    monkeypatch.setattr("tablejobs.attempt.memory_limit", lambda: memory)
    attempt = Attempt(
        None, None, cores=2, earlier_out_of_memory=killed_before, kills_before=0, driver_was_killed=killed_before > 0
    )
    if not ends:
        attempt.size(work(GIB))
        return
    with pytest.raises(OutOfMemory) as raised:
        attempt.size(work(GIB))
    failure = classify(raised.value, at_limit=attempt.at_limit)
    assert (failure.reason, failure.try_again) == ("OutOfMemory", False)
    assert "all of the 1024 MiB that jobs.resources.limits.memory allows: raise it" in failure.message


@pytest.mark.parametrize(
    ("memory", "beside_executors", "plan", "ends"),
    [
        (4 * GIB, True, 8 * GIB, True),
        (4 * GIB, False, 8 * GIB, False),
        (4 * GIB, True, GIB, False),
        (None, True, 8 * GIB, False),
    ],
    ids=["as before", "it worked alone, as none came", "what is left needs no executors", "the node had no more"],
)
def test_a_driver_that_was_killed_though_executors_did_its_tasks_is_the_last(
    memory: int | None, beside_executors: bool, plan: int, ends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More for each task, or fewer of them at once, would be in the executors: the driver would be killed as before."""
    monkeypatch.setattr("tablejobs.attempt.memory_limit", lambda: memory)
    attempt = Attempt(
        None,
        LIMITS,
        cores=2,
        earlier_out_of_memory=1,
        kills_before=0,
        driver_was_killed=True,
        beside_executors=beside_executors,
    )
    if not ends:
        attempt.size(work(plan, parts=8))
        return
    with pytest.raises(DriverOutOfMemory) as raised:
        attempt.size(work(plan, parts=8))
    failure = classify(raised.value, at_limit=attempt.at_limit)
    assert (failure.reason, failure.try_again) == ("OutOfMemory", False)
    assert "it had the 4096 MiB that jobs.resources.limits.memory allows: raise it" in failure.message
    assert "jobs.executors" not in failure.message


@pytest.mark.parametrize(
    ("files", "cores", "memory", "kills"),
    [
        (
            {"cpu.max": "50000 100000", "memory.max": "1073741824", "memory.events": "low 0\noom 3\noom_kill 2"},
            *(1, GIB, 2),
        ),
        (
            {
                "cpu/cpu.cfs_quota_us": "100000",
                "cpu/cpu.cfs_period_us": "100000",
                "memory/memory.limit_in_bytes": "2147483648",
                "memory/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 1",
            },
            *(1, 2 * GIB, 1),
        ),
        ({"cpu.max": "max 100000", "memory.max": "max"}, None, None, 0),
        ({"memory/memory.limit_in_bytes": "9223372036854771712", "cpu/cpu.cfs_quota_us": "-1"}, None, None, 0),
        ({}, None, None, 0),
    ],
)
def test_a_containers_grants_are_read_in_both_layouts(
    files: dict[str, str], cores: int | None, memory: int | None, kills: int, tmp_path: Path
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text + "\n")
    assert memory_limit(tmp_path) == memory
    assert kills_for_memory(tmp_path) == kills
    assert processors(tmp_path) == (cores or processors(tmp_path / "nothing-there"))


def test_work_that_stays_in_the_driver_is_sized_by_the_driver_whatever_its_executors_may_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An orphan scan has no executors, though its table's other runs may."""
    sizes: list[JobSize] = []

    def start(scratch: Path, size: JobSize, driver: DriverPod | None) -> SimpleNamespace:
        assert (scratch.is_dir(), driver) == (True, None)
        sizes.append(size)
        return SimpleNamespace(sparkContext=None)

    monkeypatch.setattr(executor, "start_session", start)
    monkeypatch.setattr(executor, "stop_session", lambda _: None)
    attempt = Attempt(None, LIMITS, cores=1, earlier_out_of_memory=0, kills_before=None)
    with executor.SparkExecutor(attempt.size) as scan:
        scan.context(work(3 * GIB))

    assert [(size.executors, size.cores, size.tasks_at_once) for size in sizes] == [(0, 1, 1)]
