"""docs/api.md is what the definitions say today."""

import importlib.util
from pathlib import Path
from types import ModuleType

import yaml

from tests.definitions import KINDS, schema

ROOT = Path(__file__).parents[2]


def generator() -> ModuleType:
    specification = importlib.util.spec_from_file_location("api_docs", ROOT / "tools" / "api_docs.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_the_page_is_up_to_date() -> None:
    assert (ROOT / "docs" / "api.md").read_text() == generator().page(), "run make docs"


def test_the_page_names_every_field_of_every_kind() -> None:
    page = generator().page()
    for kind in KINDS:
        for part in schema(kind)["properties"].values():
            for name in part["properties"]:
                assert f"`{name}`" in page, f"{kind.kind_name}: {name}"


def test_there_is_an_example_of_each_kind() -> None:
    for kind in KINDS:
        example = ROOT / "examples" / "api" / f"{kind.kind_name.lower()}.yaml"
        assert {document["kind"] for document in yaml.safe_load_all(example.read_text())} == {kind.kind_name}
