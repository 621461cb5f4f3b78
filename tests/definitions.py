"""The custom resource definitions, read for tests: by kind, and their schemas."""

from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tablewright.api.catalog import TableCatalog
from tablewright.api.objects import GROUP, KubernetesResource
from tablewright.api.policy import TablePolicy
from tablewright.api.run import MaintenanceRun
from tablewright.api.table import ManagedTable

KINDS: list[type[KubernetesResource]] = [TableCatalog, ManagedTable, TablePolicy, MaintenanceRun]
FOLDER = Path(__file__).parents[1] / "crds"

Schema = dict[str, Any]


@cache
def definition(kind: type[KubernetesResource]) -> Schema:
    loaded: Schema = yaml.safe_load((FOLDER / f"{kind.plural}.{GROUP}.yaml").read_text())
    return loaded


def version(kind: type[KubernetesResource]) -> Schema:
    [only] = definition(kind)["spec"]["versions"]
    return dict(only)


def schema(kind: type[KubernetesResource]) -> Schema:
    found: Schema = version(kind)["schema"]["openAPIV3Schema"]
    return found
