"""The catalogs of the integration suite, for the heavy version of its claims."""

from tests.integration.catalogs.conftest import catalog, configuration, kind, open_one

__all__ = ["catalog", "configuration", "kind", "open_one"]
