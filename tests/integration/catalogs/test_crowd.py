"""Processes that commit to one table at the same time. `make chaos` has the larger crowd."""

import pytest

from tableformat.catalogs import CatalogConfig
from tests import crowd
from tests.integration.catalogs.conftest import DATABASES


@pytest.mark.parametrize("kind", ["configMap", "dynamoDB", "sql", *DATABASES], indirect=True)
def test_processes_that_commit_at_once_lose_nothing_and_apply_nothing_twice(configuration: CatalogConfig) -> None:
    reports = crowd.commit_in_a_crowd(configuration, processes=2, commits=8)
    assert sum(len(report.applied) for report in reports) == 16
    assert not any(report.unknown for report in reports)
    crowd.check(configuration, reports)
