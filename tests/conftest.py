"""Fixtures of all suites: the real servers, and a namespace, a bucket or a DynamoDB table of a test's own."""

import contextlib
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from kubernetes import client, config

from tests.servers.broker import ServerBroker, ask
from tests.servers.databases import DatabaseAccess
from tests.servers.dynamodb import DynamoDbAccess
from tests.servers.kubernetes import KubernetesAccess, kubectl
from tests.servers.s3 import S3Access
from tests.servers.spark import LocalSpark

# From the profile in force, which in CI is Hypothesis's own. How long an example takes tells how busy the machine is.
settings.register_profile("unhurried", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")

_BROKER = pytest.StashKey[ServerBroker]()
_ADDRESS = pytest.StashKey[str]()


def pytest_configure(config: pytest.Config) -> None:
    workerinput: dict[str, str] | None = getattr(config, "workerinput", None)
    if workerinput is not None:  # a worker of pytest-xdist: the broker is in the process that began the run
        config.stash[_ADDRESS] = workerinput["server_broker"]
        return
    broker = ServerBroker()
    config.stash[_BROKER] = broker
    config.stash[_ADDRESS] = broker.address
    config.add_cleanup(broker.stop)
    os.environ["KUBECACHEDIR"] = str(broker.folder / "kubectl")  # kubectl's is in the home folder otherwise


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: object) -> None:
    """pytest-xdist's: what each worker is told."""
    node.workerinput["server_broker"] = node.config.stash[_ADDRESS]  # type: ignore[attr-defined]


def unique(prefix: str) -> str:
    return f"{prefix}-{uuid.uuid4().hex[:10]}"


@pytest.fixture(scope="session")
def kubernetes(pytestconfig: pytest.Config) -> KubernetesAccess:
    access: KubernetesAccess = ask(pytestconfig.stash[_ADDRESS], "kubernetes")
    return access


@pytest.fixture(scope="session")
def s3(pytestconfig: pytest.Config) -> S3Access:
    access: S3Access = ask(pytestconfig.stash[_ADDRESS], "s3")
    return access


@pytest.fixture(scope="session")
def dynamodb(pytestconfig: pytest.Config) -> DynamoDbAccess:
    access: DynamoDbAccess = ask(pytestconfig.stash[_ADDRESS], "dynamodb")
    return access


@pytest.fixture(scope="session")
def postgresql(pytestconfig: pytest.Config) -> DatabaseAccess:
    access: DatabaseAccess = ask(pytestconfig.stash[_ADDRESS], "postgresql")
    return access


@pytest.fixture(scope="session")
def mariadb(pytestconfig: pytest.Config) -> DatabaseAccess:
    access: DatabaseAccess = ask(pytestconfig.stash[_ADDRESS], "mariadb")
    return access


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalSpark]:
    local = LocalSpark(tmp_path_factory.mktemp("spark"))
    yield local
    local.stop()


@pytest.fixture(scope="session")
def kube_api(kubernetes: KubernetesAccess) -> Iterator[client.ApiClient]:
    """The administrator's client."""
    with config.new_client_from_config(str(kubernetes.kubeconfig)) as api:
        yield api


@contextlib.contextmanager
def new_namespace(kube_api: client.ApiClient) -> Iterator[str]:
    core, name = client.CoreV1Api(kube_api), unique("test")
    core.create_namespace({"metadata": {"name": name}})
    yield name
    core.delete_namespace(name)


@pytest.fixture
def kube_namespace(kube_api: client.ApiClient) -> Iterator[str]:
    """A Kubernetes namespace of the test's own."""
    with new_namespace(kube_api) as name:
        yield name


@pytest.fixture(scope="module")
def shared_namespace(kube_api: client.ApiClient) -> Iterator[str]:
    """A Kubernetes namespace for the tests of a module, which keep apart by the names of their objects."""
    with new_namespace(kube_api) as name:
        yield name


@pytest.fixture
def s3_bucket(s3: S3Access) -> str:
    name = unique("bucket")
    s3.client().create_bucket(Bucket=name)
    return name


def with_definitions(access: KubernetesAccess) -> KubernetesAccess:
    folder = Path(__file__).parent.parent / "crds"
    kubectl(access, "apply", "--server-side", "-f", str(folder))
    kubectl(access, "wait", "--for=condition=Established", "--timeout=30s", "-f", str(folder))
    return access


@pytest.fixture(scope="session")
def crds(kubernetes: KubernetesAccess) -> KubernetesAccess:
    """The cluster with our custom resource definitions in it, as they are in the repository."""
    return with_definitions(kubernetes)
