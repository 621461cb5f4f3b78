"""What goes wrong on a cluster is said by its name, in the run's status and in an event; then it is put right."""

from typing import Any

import pytest

from tests.conftest import unique
from tests.e2e.place import ALONE, COLUMNS, SPREAD, Place
from tests.servers.s3 import S3Access
from tests.waiting import eventually

pytestmark = pytest.mark.timeout(600)
# What goes wrong here has nothing to do with where the pointer lives: each is shown with one kind of catalog.
with_config_maps = pytest.mark.parametrize("catalog_kind", ["configMap"], indirect=True)
with_dynamodb = pytest.mark.parametrize("catalog_kind", ["dynamoDB"], indirect=True)
WIDE = {"columns": [*COLUMNS, {"name": "payload", "type": "binary"}], "identifierColumns": ["txn_id"]}


def failed(place: Place, run: str) -> str:
    """The reason, which the event has too."""
    status = place.wait_for_run(run)
    assert status["phase"] == "Failed", status
    told = [event for event in place.objects.events() if event["reason"] == "RunFailed"]
    assert any(status["reason"] in event["note"] or status["message"] in event["note"] for event in told), told
    return str(status["reason"])


def waiting(place: Place, run: str, reason: str) -> dict[str, Any]:
    status = eventually(lambda: place.run(run), lambda status: status.get("reason") == reason, seconds=120)
    assert status["phase"] == "Pending"
    eventually(place.reasons, lambda reasons: "RunHeldUp" in reasons)
    return status


def limit(place: Place, hard: str) -> None:
    """A quota, which the API server heeds as soon as a controller has counted for it."""
    place.kubectl("create", "quota", "tight", f"--hard={hard}")
    eventually(lambda: place.kubectl("get", "quota", "tight", "-o", "jsonpath={.status.used}"), bool)


@with_dynamodb
def test_keys_that_storage_refuses(place: Place, s3: S3Access) -> None:
    place.declare(jobs=ALONE)
    written = place.write(commits=5, rows=8)
    place.write_keys("not-the-key")
    assert failed(place, place.ask_for("Compact")) == "BadCredentials"
    place.write_keys(s3.secret_key)
    assert place.wait_for_run(place.ask_for("Compact"))["phase"] == "Succeeded"
    assert place.ids() == written


@with_config_maps
def test_a_bucket_that_is_not_there(place: Place, s3: S3Access) -> None:
    place.declare(jobs=ALONE)
    client = s3.client()
    for found in client.list_objects_v2(Bucket=place.bucket).get("Contents", []):
        client.delete_object(Bucket=place.bucket, Key=found["Key"])
    client.delete_bucket(Bucket=place.bucket)
    assert failed(place, place.ask_for("Compact")) == "BucketNotFound"


@with_dynamodb
def test_an_image_that_cannot_be_pulled(place: Place) -> None:
    place.declare(jobs={**ALONE, "image": f"localhost/{unique('missing')}:1"})
    run = place.ask_for("Compact")
    status = waiting(place, run, "ImageNotPulled")
    assert "localhost/missing" in status["message"]

    place.declare(jobs=ALONE)
    status = place.wait_for_run(run)
    assert status["phase"] == "Succeeded", status
    assert "JobReplaced" in place.reasons()


@with_config_maps
def test_a_quota_with_room_for_the_driver_alone_is_told_of_until_there_is_more(place: Place) -> None:
    place.declare()
    written = place.write(commits=5, rows=8)
    limit(place, "pods=1")
    run = place.ask_for("Compact")
    found = "ExecutorsNotCreated"
    status = eventually(lambda: place.run(run), lambda status: status.get("reason") == found, seconds=240)
    assert status["phase"] == "Running"
    assert "exceeded quota: tight" in status["message"]
    eventually(place.reasons, lambda reasons: "RunHeldUp" in reasons)
    assert place.executors() == []

    place.kubectl("delete", "quota", "tight")
    status = place.wait_for_run(run)
    assert status["phase"] == "Succeeded", status
    assert "alone" not in status["message"], "executors came"
    assert place.ids() == written


def memory(limit: str) -> dict[str, Any]:
    return {"jobs": {**SPREAD, "executors": {**SPREAD["executors"], "memory": limit}}, "schema": WIDE}


@with_config_maps
def test_executors_without_enough_memory(place: Place) -> None:
    """Each row has much in memory and next to nothing on disk, so that no plan can foresee it."""
    place.declare(**memory("640Mi"))
    written = place.write(commits=6, rows=4, payload=96 << 20)
    starved = place.ask_for("Compact")
    assert failed(place, starved) == "OutOfMemory"
    assert "all of the 640 MiB that jobs.executors.memory allows: raise it" in place.run(starved)["message"]

    place.declare(**memory("6Gi"))
    status = place.wait_for_run(place.ask_for("Compact"))
    assert status["phase"] == "Succeeded", status
    assert "after running out of memory" in status["message"], "the next attempt gives each task more, and says so"
    ids = place.table().scan(selected_fields=("txn_id",)).to_arrow()["txn_id"].to_pylist()
    assert sorted(ids) == written


@with_dynamodb
def test_a_quota_that_has_no_room_makes_the_run_wait_until_it_has(place: Place) -> None:
    place.declare(jobs=ALONE)
    written = place.write(commits=5, rows=8)
    limit(place, "requests.memory=100Mi")
    run = place.ask_for("Compact")
    status = waiting(place, run, "PodsNotCreated")
    assert "quota" in status["message"]
    place.kubectl("delete", "quota", "tight")
    assert place.wait_for_run(run)["phase"] == "Succeeded"
    assert place.ids() == written
