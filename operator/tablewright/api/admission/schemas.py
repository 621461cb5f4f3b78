"""The CRDs as they are in the repository and in the package, read once."""

from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tablewright.api.objects import VERSION

Schema = dict[str, Any]

_FOLDER = Path(__file__).parents[2] / "crds"  # a link to the repository's own, and a copy in the package

# PyYAML's loader in C is ten times as fast, which a person who validates a file notices; not every build has it.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@cache
def _definitions() -> dict[str, Schema]:
    definitions = [yaml.load(file.read_text(), _LOADER) for file in sorted(_FOLDER.glob("*.yaml"))]  # noqa: S506 - safe
    return {definition["spec"]["names"]["kind"]: definition["spec"] for definition in definitions}


def known_kinds() -> tuple[str, ...]:
    return tuple(_definitions())


def _version(kind: str) -> Schema:
    found: Schema = next(version for version in _definitions()[kind]["versions"] if version["name"] == VERSION)
    return found


def schema_of(kind: str) -> Schema:
    found: Schema = _version(kind)["schema"]["openAPIV3Schema"]
    return found


def printer_columns(kind: str) -> list[Schema]:
    """What `kubectl get` shows of this kind, after the name."""
    found: list[Schema] = _version(kind).get("additionalPrinterColumns", [])
    return found


def plural_of(kind: str) -> str:
    """The word in the API server's addresses."""
    return str(_definitions()[kind]["names"]["plural"])


def names_of(kind: str) -> frozenset[str]:
    """By what words people ask for this kind: kind, plural, singular and short names, in lower case."""
    names = _definitions()[kind]["names"]
    words = [names["kind"], names["plural"], names["singular"], *names.get("shortNames", ())]
    return frozenset(word.lower() for word in words)
