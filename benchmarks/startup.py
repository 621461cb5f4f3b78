"""How long a small run takes on a cluster, and with what: from the MaintenanceRun to its result, part by part.

    make bench-node

Runs on the node of the end-to-end suite. A small table is compacted several times, in the driver alone and with two
executors. Where each part begins and ends is told by the objects' own times and by the driver's log.
"""

import re
import statistics
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.e2e.place import ALONE, SPREAD, Place

RUNS = 3
_LINE = re.compile(r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(\d{3}) INFO (.*)$")


@pytest.mark.timeout(900)
@pytest.mark.parametrize("catalog_kind", ["configMap"], indirect=True)
@pytest.mark.parametrize(("name", "jobs"), [("in the driver alone", ALONE), ("with two executors", SPREAD)])
def test_the_parts_of_a_small_run(place: Place, name: str, jobs: dict[str, Any]) -> None:
    place.declare(jobs=jobs)
    measured = []
    for number in range(RUNS):
        place.write(first=number * 1000, commits=6, rows=40)
        run = place.ask_for("Compact")
        assert place.wait_for_run(run)["phase"] == "Succeeded"
        measured.append(parts_of(place, run))
    print(f"\n{name}, median of {RUNS} runs, in seconds:")
    for part in measured[0]:
        print(f"  {part:<40} {statistics.median(each[part] for each in measured):6.1f}")


def parts_of(place: Place, run: str) -> dict[str, float]:
    """Whole seconds where an object's own time is all that there is."""
    [created] = [each["metadata"] for each in place.objects.runs() if each["metadata"]["name"] == run]
    asked = datetime.fromisoformat(created["creationTimestamp"])
    driver = place.driver(run)
    started = driver.status.container_statuses[0].state.terminated.started_at
    ended = datetime.fromisoformat(place.run(run)["completionTime"])
    lines = _times(place.kubectl("logs", driver.metadata.name))
    begins = next(at for at, text in lines if text.endswith("begins"))
    planned = next(at for at, text in lines if "tasks=0/" in text)
    ready = next(at for at, text in lines if text == "Spark is ready")
    rewritten = [at for at, text in lines if re.search(r"tasks=(\d+)/\1 ", text)][-1]
    committed = lines[-1][0]
    return {
        "Job, scheduling, container": (started - asked).total_seconds(),
        "Python": (begins - started).total_seconds(),
        "plan": (planned - begins).total_seconds(),
        "Java, and the executors' order": (ready - planned).total_seconds(),
        "tasks (and the executors' start)": (rewritten - ready).total_seconds(),
        "commit": (committed - rewritten).total_seconds(),
        "end, until the run says so": (ended - committed).total_seconds(),
        "all": (ended - asked).total_seconds(),
    }


def _times(log: str) -> list[tuple[datetime, str]]:
    found = [match for line in log.splitlines() if (match := _LINE.match(line))]
    return [
        (datetime.strptime(f"{match[1]}.{match[2]}", "%Y-%m-%d %H:%M:%S.%f").replace(tzinfo=UTC), match[3])
        for match in found
    ]
