"""What the operator does not load: it would be in its memory for good."""

import subprocess
import sys

PROGRAM = """
import sys
import tablewright.runtime.operator
from kubernetes import client
from tableformat.catalogs.kube_store import ConfigMapStore
from tablewright.runtime.leadership import Leases

api = client.ApiClient(client.Configuration())
ConfigMapStore(api, "sales", timeout_seconds=1)
Leases(api, "sales", "lease", timeout=1)
print(*sys.modules)
"""


def test_neither_the_clients_classes_for_every_kind_of_object_nor_spark_nor_a_kernel_is_loaded() -> None:
    """The first alone take 80 MiB and seconds."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    assert "tablewright.runtime.operator" in loaded
    assert {"kubernetes.client.api.core_v1_api", "pyspark", "datafusion", "duckdb"}.isdisjoint(loaded)
