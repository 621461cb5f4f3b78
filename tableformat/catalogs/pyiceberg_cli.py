"""PyIceberg's command line for catalogs that its configuration names by class.

PyIceberg 0.12 takes `py-catalog-impl` from the arguments of `load_catalog` alone, not from .pyiceberg.yaml or the
environment, and its command line has no option for it. So the configuration is passed as arguments here. Everything
else is PyIceberg's: `python -m tableformat.catalogs.pyiceberg_cli --catalog lake list`.
"""

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.cli import console
from pyiceberg.utils.config import Config


def load_configured(name: str | None = None, **properties: str | None) -> Catalog:
    """As PyIceberg's `load_catalog`, also for a `py-catalog-impl` of the configuration."""
    known = Config()
    name = name or known.get_default_catalog_name()
    configured = {key: str(value) for key, value in (known.get_catalog_config(name) or {}).items()}
    return load_catalog(name, **{**configured, **properties})


def main() -> None:
    console.load_catalog = load_configured  # type: ignore[attr-defined]
    console.run()


if __name__ == "__main__":
    main()
