"""Sixteen processes commit to one table, with a sound server and with one whose connections keep breaking."""

import random
from pathlib import Path

import pytest

from tableformat.catalogs import CatalogConfig, ConfigMapConfig, DynamoDbConfig
from tests import crowd
from tests.servers.kubernetes import KubernetesAccess
from tests.servers.proxy import Answer, Break, Fault, FaultProxy, Request

pytestmark = pytest.mark.timeout(3600)

ONES_FOR_MANY = pytest.mark.parametrize("kind", ["configMap", "dynamoDB", "sql"], indirect=True)
ONES_WITH_A_SERVER = pytest.mark.parametrize("kind", ["configMap", "dynamoDB"], indirect=True)


@ONES_FOR_MANY
def test_sixteen_processes_commit_fifty_times_each_to_one_table(configuration: CatalogConfig) -> None:
    reports = crowd.commit_in_a_crowd(configuration, processes=16, commits=50)
    assert sum(len(report.applied) for report in reports) == 16 * 50
    assert not any(report.unknown for report in reports)
    crowd.check(configuration, reports)


@ONES_WITH_A_SERVER
def test_a_crowd_behind_breaking_connections_is_told_the_truth(
    configuration: ConfigMapConfig | DynamoDbConfig, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    chance = random.Random(20261116)

    def now_and_then(_: Request) -> bool:
        return chance.random() < 0.01

    actions: list[Break | Answer] = [
        Break.CUT_BEFORE, Break.CUT_DURING, Break.CUT_AFTER, Break.CUT_ANSWER,
        Answer(429), Answer(500), Answer(503, applied=True),
    ]  # fmt: skip
    faults = [Fault(now_and_then, action, times=None) for action in actions]
    if isinstance(configuration, ConfigMapConfig):
        kubernetes: KubernetesAccess = request.getfixturevalue("kubernetes")
        proxy = FaultProxy(kubernetes.server, kubernetes.certificate)
        kubeconfig = kubernetes.kubeconfig_with_token("admin-token", tmp_path / "proxied.json", server=proxy.url)
        proxied: CatalogConfig = configuration.model_copy(update={"kubeconfig": str(kubeconfig)})
    else:
        proxy = FaultProxy(str(configuration.endpoint))
        proxied = configuration.model_copy(update={"endpoint": proxy.url})
    proxy.faults[:] = faults
    with proxy:
        reports = crowd.commit_in_a_crowd(proxied, processes=6, commits=20)
    assert sum(fault.struck for fault in faults) > 20
    crowd.check(configuration, reports)
