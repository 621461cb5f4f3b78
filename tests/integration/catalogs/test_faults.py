"""Connections that break at every step of a commit: nothing is lost, nothing is applied twice, no live file is deleted.

A proxy stands between the catalog and its real server. What happened is read around the proxy, from the server itself.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from kubernetes import client
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException

from tableformat.catalogs import CatalogUnavailableError, ConfigMapConfig, DynamoDbConfig, SqlConfig, open_catalog
from tests.conftest import unique
from tests.integration.catalogs.test_tables import SCHEMA, ids, metadata_files, rows
from tests.servers.dynamodb import DynamoDbAccess
from tests.servers.kubernetes import KubernetesAccess
from tests.servers.proxy import Answer, Break, Fault, FaultProxy, Request
from tests.servers.s3 import S3Access

IMPATIENT = {
    "commit.retry.min-wait-ms": "1",
    "commit.retry.max-wait-ms": "5",
    "commit.status-check.min-wait-ms": "1",
    "commit.status-check.max-wait-ms": "5",
}
HASTY_SECONDS = 0.5  # less than a busy machine may take for a request: where nothing is delayed, nobody is so hasty
DELAY_SECONDS = 0.9

BREAKS: dict[str, Break | Answer] = {
    "cut-before": Break.CUT_BEFORE,
    "cut-during": Break.CUT_DURING,
    "cut-after": Break.CUT_AFTER,
    "cut-answer": Break.CUT_ANSWER,
    "delayed-past-the-timeout": Break.DELAY,
    "409": Answer(409),
    "429": Answer(429),
    "500": Answer(500),
    "503": Answer(503),
    "500-though-applied": Answer(500, applied=True),
    "503-though-applied": Answer(503, applied=True),
}


@dataclass(frozen=True)
class Broken:
    """A catalog behind the proxy, and the same one straight on its server."""

    catalog: Catalog
    hasty: Catalog
    """Behind the proxy, too, and given to timing out."""
    truth: Catalog
    proxy: FaultProxy
    steps: dict[str, Callable[[Request], bool]]  # of a commit, as they pass through the proxy

    def strike(self, step: str, action: Break | Answer, *, times: int | None = 1) -> Fault:
        fault = Fault(self.steps[step], action, times=times, seconds=DELAY_SECONDS)
        self.proxy.faults[:] = [fault]
        return fault

    def meets(self, action: Break | Answer) -> Catalog:
        """The catalog to which such a break is one."""
        return self.hasty if action is Break.DELAY else self.catalog


@pytest.fixture(scope="module", params=["configMap", "dynamoDB"])
def broken(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broken]:
    make: Callable[[pytest.FixtureRequest, Path], Iterator[Broken]] = {
        "configMap": _broken_kubernetes,
        "dynamoDB": _broken_dynamodb,
    }[request.param]
    yield from make(request, tmp_path_factory.mktemp("broken"))


def _broken_kubernetes(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Broken]:
    kubernetes: KubernetesAccess = request.getfixturevalue("kubernetes")
    core, namespace = client.CoreV1Api(request.getfixturevalue("kube_api")), unique("test")
    core.create_namespace({"metadata": {"name": namespace}})
    with FaultProxy(kubernetes.server, kubernetes.certificate) as proxy:
        kubeconfig = kubernetes.kubeconfig_with_token("admin-token", tmp_path / "proxied.json", server=proxy.url)
        straight = ConfigMapConfig(
            name="lake",
            warehouse=f"file://{tmp_path}/warehouse",
            namespace=namespace,
            kubeconfig=str(kubernetes.kubeconfig),
        )
        proxied = straight.model_copy(update={"kubeconfig": str(kubeconfig)})
        hasty = {"configmap.request-timeout-seconds": str(HASTY_SECONDS)}
        with open_catalog(straight) as truth:
            truth.create_namespace("db")
            with (
                open_catalog(proxied) as catalog,
                open_catalog(proxied.model_copy(update={"properties": hasty})) as hasty_catalog,
            ):
                yield Broken(
                    catalog,
                    hasty_catalog,
                    truth,
                    proxy,
                    {
                        "read": lambda request: request.method == "GET",
                        "swap": lambda request: request.method == "PUT",
                        "create": lambda request: request.method == "POST",
                        "drop": lambda request: request.method == "DELETE",
                    },
                )
    core.delete_namespace(namespace)


def _broken_dynamodb(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Broken]:
    dynamodb: DynamoDbAccess = request.getfixturevalue("dynamodb")

    def calls(action: str) -> Callable[[Request], bool]:
        return lambda request: request.headers.get("x-amz-target", "").endswith(f".{action}")

    with FaultProxy(dynamodb.endpoint) as proxy:
        straight = DynamoDbConfig(
            name="lake",
            warehouse=f"file://{tmp_path}/warehouse",
            table_name=unique("catalog"),
            region=dynamodb.region,
            endpoint=dynamodb.endpoint,
            create_table=True,
            properties={
                "dynamodb.access-key-id": dynamodb.access_key,
                "dynamodb.secret-access-key": dynamodb.secret_key,
            },
        )
        proxied = straight.model_copy(update={"endpoint": proxy.url})
        hasty = {**straight.properties, "dynamodb.request-timeout-seconds": str(HASTY_SECONDS)}
        with open_catalog(straight) as truth:
            truth.create_namespace("db")
            with (
                open_catalog(proxied) as catalog,
                open_catalog(proxied.model_copy(update={"properties": hasty})) as hasty_catalog,
            ):
                yield Broken(
                    catalog,
                    hasty_catalog,
                    truth,
                    proxy,
                    {
                        "read": calls("GetItem"),
                        "swap": calls("UpdateItem"),
                        "create": calls("PutItem"),
                        "drop": calls("DeleteItem"),
                    },
                )


@pytest.fixture
def name(broken: Broken) -> str:
    """A table's name of the test's own, and a proxy that lets everything through."""
    broken.proxy.faults[:] = []
    return f"db.{unique('t')}"


@pytest.mark.parametrize("action", BREAKS.values(), ids=BREAKS.keys())
@pytest.mark.parametrize("step", ["read", "swap"])
def test_a_commit_survives_a_break_and_is_applied_once(
    broken: Broken, name: str, step: str, action: Break | Answer
) -> None:
    broken.truth.create_table(name, SCHEMA, properties=IMPATIENT).append(rows(1))
    table = broken.meets(action).load_table(name)
    fault = broken.strike(step, action)
    table.append(rows(2))
    assert fault.struck == 1
    now = broken.truth.load_table(name)
    assert ids(now) == [1, 2]
    assert len(now.metadata.snapshots) == 2
    assert metadata_files(now) == {now.metadata_location} | {e.metadata_file for e in now.metadata.metadata_log}


@pytest.mark.parametrize("action", BREAKS.values(), ids=BREAKS.keys())
def test_a_creation_survives_one_break(broken: Broken, name: str, action: Break | Answer) -> None:
    fault = broken.strike("create", action)
    created = broken.meets(action).create_table(name, SCHEMA, properties=IMPATIENT)
    assert fault.struck == 1
    now = broken.truth.load_table(name)
    assert now.metadata.table_uuid == created.metadata.table_uuid
    assert metadata_files(now) == {now.metadata_location}


@pytest.mark.parametrize("action", BREAKS.values(), ids=BREAKS.keys())
def test_a_drop_survives_one_break(broken: Broken, name: str, action: Break | Answer) -> None:
    broken.truth.create_table(name, SCHEMA)
    fault = broken.strike("drop", action)
    broken.meets(action).drop_table(name)
    assert fault.struck == 1
    assert not broken.truth.table_exists(name)


@pytest.mark.parametrize("action", [Break.CUT_BEFORE, Break.CUT_AFTER, Answer(500), Answer(503, applied=True)], ids=str)
def test_a_commit_without_an_answer_is_not_called_failed(broken: Broken, name: str, action: Break | Answer) -> None:
    broken.truth.create_table(name, SCHEMA, properties=IMPATIENT).append(rows(1))
    table = broken.catalog.load_table(name)
    broken.proxy.faults[:] = [Fault(broken.steps["swap"], action, times=None)]
    try:
        table.append(rows(2))
        applied = True
    except CommitStateUnknownException:
        applied = False
    now = broken.truth.load_table(name)
    assert ids(now) == ([1, 2] if applied or not _never_applies(action) else [1])
    assert {now.metadata_location} | {e.metadata_file for e in now.metadata.metadata_log} <= metadata_files(now)


def _never_applies(action: Break | Answer) -> bool:
    return action is Break.CUT_BEFORE or action == Answer(500)


def test_a_commit_that_is_always_throttled_fails_for_certain_and_leaves_nothing(broken: Broken, name: str) -> None:
    broken.truth.create_table(name, SCHEMA, properties=IMPATIENT).append(rows(1))
    table = broken.catalog.load_table(name)
    before = metadata_files(table)
    broken.strike("swap", Answer(429), times=None)
    with pytest.raises(CommitFailedException):
        table.append(rows(2))
    now = broken.truth.load_table(name)
    assert ids(now) == [1]
    assert metadata_files(now) == before


def test_a_server_that_is_gone_is_called_unavailable(broken: Broken, name: str) -> None:
    broken.truth.create_table(name, SCHEMA)
    broken.strike("read", Break.CUT_BEFORE, times=None)
    with pytest.raises(CatalogUnavailableError):
        broken.catalog.load_table(name)


def test_a_lost_answer_is_found_in_the_history_when_others_have_committed_since(broken: Broken, name: str) -> None:
    broken.truth.create_table(name, SCHEMA, properties=IMPATIENT).append(rows(1))
    table = broken.catalog.load_table(name)

    def others_commit_meanwhile(request: Request) -> bool:
        if not broken.steps["read"](request):
            return False
        broken.proxy.faults[:] = []
        for number in (3, 4):
            broken.truth.load_table(name).append(rows(number))
        return False

    def answer_is_lost(request: Request) -> bool:
        if not broken.steps["swap"](request):
            return False
        broken.proxy.faults.append(Fault(others_commit_meanwhile, Break.CUT_BEFORE))
        return True

    broken.proxy.faults[:] = [Fault(answer_is_lost, Break.CUT_AFTER)]
    table.append(rows(2))
    now = broken.truth.load_table(name)
    assert ids(now) == [1, 2, 3, 4]
    assert len(now.metadata.snapshots) == 4


def test_a_delayed_swap_that_arrives_after_another_commit_takes_no_effect(broken: Broken, name: str) -> None:
    broken.truth.create_table(name, SCHEMA, properties=IMPATIENT).append(rows(1))
    table = broken.hasty.load_table(name)

    def another_commits_first(request: Request) -> bool:
        if not broken.steps["swap"](request):
            return False
        broken.truth.load_table(name).append(rows(3))
        return True

    broken.proxy.faults[:] = [Fault(another_commits_first, Break.DELAY, seconds=DELAY_SECONDS)]
    table.append(rows(2))
    now = broken.truth.load_table(name)
    assert ids(now) == [1, 2, 3]
    assert len(now.metadata.snapshots) == 3
    assert metadata_files(now) == {now.metadata_location} | {e.metadata_file for e in now.metadata.metadata_log}


def test_a_purge_whose_answer_is_lost_deletes_no_file(broken: Broken, name: str) -> None:
    broken.truth.create_table(name, SCHEMA).append(rows(1))
    table = broken.truth.load_table(name)
    broken.strike("drop", Break.CUT_AFTER)
    with pytest.raises(CommitStateUnknownException, match="its files stay"):
        broken.catalog.purge_table(name)
    assert ids(broken.truth.register_table(name, table.metadata_location)) == [1]


@pytest.mark.parametrize("action", [Break.CUT_AFTER, Break.CUT_BEFORE], ids=str)
def test_an_outcome_that_the_history_no_longer_tells_stays_unknown(broken: Broken, name: str, action: Break) -> None:
    short = {"write.metadata.previous-versions-max": "1"}
    broken.truth.create_table(name, SCHEMA, properties={**IMPATIENT, **short})
    table = broken.catalog.load_table(name)

    def answer_is_lost(request: Request) -> bool:
        if not broken.steps["swap"](request):
            return False
        broken.proxy.faults.append(Fault(others_commit_meanwhile, Break.CUT_BEFORE))
        return True

    def others_commit_meanwhile(request: Request) -> bool:
        if not broken.steps["read"](request):
            return False
        broken.proxy.faults[:] = []
        for number in range(3):
            broken.truth.load_table(name).append(rows(number))
        return False

    broken.proxy.faults[:] = [Fault(answer_is_lost, action)]
    with pytest.raises(CommitStateUnknownException):
        table.transaction().set_properties(owner="sales").commit_transaction()
    now = broken.truth.load_table(name)
    assert ids(now) == [0, 1, 2]
    assert ("owner" in now.properties) is (action is Break.CUT_AFTER)


@pytest.fixture
def on_s3(s3: S3Access, s3_bucket: str, tmp_path: Path) -> Iterator[tuple[Catalog, FaultProxy]]:
    """Pointers in SQLite, files behind a proxy."""
    with FaultProxy(s3.endpoint) as proxy:
        config = SqlConfig(
            name="lake",
            uri=f"sqlite:///{tmp_path}/catalog.db",
            warehouse=f"s3://{s3_bucket}/warehouse",
            properties={**s3.file_io_properties(), "s3.endpoint": proxy.url},
        )
        with open_catalog(config) as catalog:
            catalog.create_namespace("db")
            yield catalog, proxy


@pytest.mark.parametrize(
    "action", [Break.CUT_BEFORE, Break.CUT_DURING, Break.CUT_AFTER, Answer(500), Answer(503)], ids=str
)
def test_a_commit_survives_a_break_while_its_metadata_is_written(
    on_s3: tuple[Catalog, FaultProxy], action: Break | Answer
) -> None:
    catalog, proxy = on_s3
    table = catalog.create_table("db.t", SCHEMA)
    table.append(rows(1))
    proxy.faults[:] = [Fault(_writes_metadata, action)]
    table.append(rows(2))
    assert proxy.faults[0].struck == 1
    assert ids(catalog.load_table("db.t")) == [1, 2]


def test_a_commit_whose_metadata_cannot_be_written_changes_nothing(on_s3: tuple[Catalog, FaultProxy]) -> None:
    catalog, proxy = on_s3
    table = catalog.create_table("db.t", SCHEMA)
    table.append(rows(1))
    before = table.metadata_location
    proxy.faults[:] = [Fault(_writes_metadata, Answer(403), times=None)]
    with pytest.raises(OSError, match="metadata"):
        table.append(rows(2))
    proxy.faults[:] = []
    now = catalog.load_table("db.t")
    assert now.metadata_location == before
    now.append(rows(3))
    assert ids(catalog.load_table("db.t")) == [1, 3]


def _writes_metadata(request: Request) -> bool:
    return request.method in ("PUT", "POST") and ".metadata.json" in request.path
