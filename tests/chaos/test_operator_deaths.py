"""The operator killed after each of its writes in turn, and at random: a table's life ends the same every time."""

import random
from pathlib import Path

import pytest
from kubernetes import client
from pyiceberg.catalog import Catalog

from tests.integration.runtime.conftest import catalog, namespace, processes
from tests.lives import dying_operator, live
from tests.operators import Namespace, OperatorProcesses

__all__ = ["catalog", "namespace", "processes"]
pytestmark = pytest.mark.timeout(900)

WRITES = 28  # more than a life takes: the last ones show that nobody dies any more


def check(
    life_of: tuple[Namespace, OperatorProcesses, Catalog, client.ApiClient, Path], dies: object, deletion: str
) -> int:
    space, started, tables, api, folder = life_of
    assert callable(dies)
    with dying_operator(space, started, folder, dies=dies) as undertaker:
        life = live(space, tables, api, seconds=300, deletion=deletion)
    assert len(life.uuids) == 1
    assert (life.runs, life.jobs) == (1, 1)
    assert max(life.told.values()) == 1, life.told
    assert (life.files == 0) == (deletion == "Purge")
    return undertaker.deaths


@pytest.mark.parametrize("deletion", ["Drop", "Purge"])
@pytest.mark.parametrize("number", range(1, WRITES + 1))
def test_killed_after_its_nth_write(
    namespace: Namespace,
    processes: OperatorProcesses,
    catalog: Catalog,
    kube_api: client.ApiClient,
    tmp_path: Path,
    number: int,
    deletion: str,
) -> None:
    deaths = check((namespace, processes, catalog, kube_api, tmp_path), lambda write: write == number, deletion)
    assert deaths == 1 or number > 12


@pytest.mark.parametrize("deletion", ["Drop", "Purge"])
@pytest.mark.parametrize("seed", range(5))
def test_killed_at_random(
    namespace: Namespace,
    processes: OperatorProcesses,
    catalog: Catalog,
    kube_api: client.ApiClient,
    tmp_path: Path,
    seed: int,
    deletion: str,
) -> None:
    chance = random.Random(seed)
    check((namespace, processes, catalog, kube_api, tmp_path), lambda _: chance.random() < 0.4, deletion)
