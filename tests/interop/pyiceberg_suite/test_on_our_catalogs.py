"""PyIceberg's own tests, from the source distribution of the locked version, on each of our catalogs and a real server.

They run as they are, in a process of their own: `our_catalogs` replaces the catalogs in their fixtures, and
`expected_differences.toml` names each test that is expected to fail, with the reason. One of those that passes fails
the run, so the list can only get shorter.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers import binaries
from tests.servers.dynamodb import DynamoDbAccess
from tests.servers.kubernetes import KubernetesAccess

HERE = Path(__file__).parent
FEWEST = 300  # of some 330 in each run: fewer would mean that a file was not collected


def _run(tmp_path: Path, properties: dict[str, str]) -> tuple[str, dict[str, int]]:
    """What pytest says at the end, and how many tests ended how."""
    root = binaries.pyiceberg_tests()
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "PYICEBERG_"))}
    done = subprocess.run(
        [sys.executable, "-B", "-m", "pytest", "-c", str(HERE / "suite.ini"), f"--rootdir={root}"]
        + ["-p", "our_catalogs", f"--basetemp={tmp_path / 'pyiceberg'}"],
        cwd=root,
        env={
            **environment,
            "PYTHONPATH": str(HERE),
            "OUR_CATALOG": json.dumps(properties),
            "HOME": str(tmp_path),
            "COLUMNS": "160",
        },
        capture_output=True,
        text=True,
        timeout=580,
    )
    counts = {word: int(number) for number, word in re.findall(r"(\d+) (\w+)", done.stdout.splitlines()[-1])}
    return done.stdout + done.stderr, counts


@pytest.fixture(params=["ConfigMapCatalog", "JavaLayoutDynamoDbCatalog", "SharedSqlCatalog"])
def properties(request: pytest.FixtureRequest) -> dict[str, str]:
    if request.param == "ConfigMapCatalog":
        kubernetes: KubernetesAccess = request.getfixturevalue("kubernetes")
        return {
            "py-catalog-impl": "tableformat.catalogs.configmap.ConfigMapCatalog",
            "configmap.namespace": request.getfixturevalue("kube_namespace"),
            "configmap.kubeconfig": str(kubernetes.kubeconfig),
        }
    if request.param == "JavaLayoutDynamoDbCatalog":
        dynamodb: DynamoDbAccess = request.getfixturevalue("dynamodb")
        return {
            "py-catalog-impl": "tableformat.catalogs.dynamodb.JavaLayoutDynamoDbCatalog",
            "dynamodb.create-table": "true",
            "dynamodb.region": dynamodb.region,
            "dynamodb.endpoint": dynamodb.endpoint,
            "dynamodb.access-key-id": dynamodb.access_key,
            "dynamodb.secret-access-key": dynamodb.secret_key,
        }
    return {"py-catalog-impl": "tableformat.catalogs.sql.SharedSqlCatalog"}


@pytest.mark.timeout(600)
def test_pyicebergs_own_tests_pass_but_for_the_listed_differences(
    properties: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said, counts = _run(tmp_path, properties)
    with capsys.disabled():
        print(f"\nPyIceberg's tests on {properties['py-catalog-impl']}: {said.splitlines()[-1]}")
    assert counts.get("failed", 0) + counts.get("error", 0) + counts.get("errors", 0) == 0, said
    assert counts.get("passed", 0) >= FEWEST, said
