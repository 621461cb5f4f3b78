"""The cluster of the suite with the operator in it, installed by Helm, and S3 and DynamoDB servers for its pods."""

import subprocess
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from kubernetes import client

from tests.conftest import unique
from tests.e2e.cluster import ClusterChoice
from tests.e2e.place import SYSTEM, Place, restricted_namespace
from tests.servers import binaries
from tests.servers.dynamodb import DynamoDbAccess, DynamoDbServer
from tests.servers.kubernetes import KubernetesAccess, kubectl
from tests.servers.node import Node
from tests.servers.s3 import S3Access, S3Server

CHART = Path(__file__).parents[2] / "charts" / "tablewright"


@pytest.fixture(scope="session")
def choice() -> ClusterChoice:
    return ClusterChoice.from_environment()


@pytest.fixture(scope="session")
def node(choice: ClusterChoice, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node | None]:
    """The suite's own, where it has one."""
    if not choice.is_our_own:
        yield None
        return
    archives = [Path(archive) for archive in choice.archives]
    made = Node(
        tmp_path_factory.mktemp("node"),
        control_group=choice.control_group,
        pause_image=choice.pause_image,
        archives=archives,
    )
    yield made
    made.stop()


@pytest.fixture(scope="session")
def kubernetes(choice: ClusterChoice, node: Node | None) -> KubernetesAccess:
    if node is not None:
        return node.access
    return KubernetesAccess("", Path(), Path(choice.kubeconfig or ""))


@pytest.fixture(scope="session")
def s3_server(choice: ClusterChoice, node: Node | None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    server = S3Server(tmp_path_factory.mktemp("s3"), address=choice.address)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def s3(s3_server: S3Server) -> S3Access:
    return s3_server.access


@pytest.fixture(scope="session")
def dynamodb(
    choice: ClusterChoice, node: Node | None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[DynamoDbAccess]:
    server = DynamoDbServer(tmp_path_factory.mktemp("dynamodb"), address=choice.address)
    yield server.access
    server.stop()


@pytest.fixture(scope="session")
def operator(choice: ClusterChoice, kubernetes: KubernetesAccess, kube_api: client.ApiClient) -> Iterator[str]:
    """Two replicas of the operator's image, for the whole cluster; returns their namespace."""
    restricted_namespace(kube_api, SYSTEM)
    images = []
    for value, image in (("image", choice.operator_image), ("jobs.image", choice.jobs_image)):
        repository, _, tag = image.rpartition(":")
        images += ["--set", f"{value}.repository={repository}", "--set-string", f"{value}.tag={tag}"]
    where = ["--kubeconfig", str(kubernetes.kubeconfig), "--namespace", SYSTEM]
    _helm("install", "tablewright", str(CHART), *where, *images, "--wait", "--timeout", "3m")
    yield SYSTEM
    _helm("uninstall", "tablewright", *where, "--wait")
    kubectl(kubernetes, "delete", "namespace", SYSTEM, "--wait=false")


def _helm(*words: str) -> None:
    done = subprocess.run([str(binaries.helm()), *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.fixture(params=["configMap", "dynamoDB"])
def catalog_kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def place(
    request: pytest.FixtureRequest,
    operator: str,
    choice: ClusterChoice,
    kubernetes: KubernetesAccess,
    kube_api: client.ApiClient,
    s3: S3Access,
    dynamodb: DynamoDbAccess,
    catalog_kind: str,
) -> Iterator[Place]:
    """A namespace of the test's own, at the `restricted` Pod Security level, with a catalog in it."""
    made = Place(kubernetes, kube_api, unique("e2e"), choice, s3, dynamodb, catalog_kind)
    yield made
    if request.node.stash.get(_FAILED, False):
        print(made.describe())
        print(kubectl(kubernetes, "logs", "-n", operator, "-l", "app.kubernetes.io/name=tablewright", "--tail=60"))
    made.remove()


_FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call" and report.failed:
        item.stash[_FAILED] = True
    return report
