"""What Kubernetes asks of every object's metadata: names, labels and annotations that it can keep."""

import re
from collections.abc import Iterator
from typing import Any

from tableformat.suggestions import quoted
from tablewright.api.admission.problems import Path, Problem
from tablewright.api.admission.schemas import Schema
from tablewright.api.admission.structure import structure_problems
from tablewright.api.objects import MISSING

_TEXT: Schema = {"type": "string"}
_TEXTS: Schema = {"type": "object", "additionalProperties": _TEXT}
_ANYTHING: Schema = {"x-kubernetes-preserve-unknown-fields": True}
METADATA: Schema = {
    "type": "object",
    "properties": {
        "name": _TEXT,
        "generateName": _TEXT,
        "namespace": _TEXT,
        "labels": _TEXTS,
        "annotations": _TEXTS,
        "finalizers": {"type": "array", "items": _TEXT},
        "ownerReferences": {"type": "array", "items": _ANYTHING},
        "managedFields": {"type": "array", "items": _ANYTHING},
        "uid": _TEXT,
        "resourceVersion": _TEXT,
        "generation": {"type": "integer"},
        "creationTimestamp": {"type": "string", "nullable": True},
        "deletionTimestamp": {"type": "string", "nullable": True},
        "deletionGracePeriodSeconds": {"type": "integer"},
        "selfLink": _TEXT,
    },
}

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_QUALIFIED = r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"


def metadata_problems(metadata: Any) -> Iterator[Problem]:
    where: Path = ("metadata",)
    if metadata is None:
        yield Problem((*where, "name"), MISSING, at_value=False)
        return
    shape = list(structure_problems(METADATA, metadata, where))
    yield from shape
    if shape:
        return
    name, namespace = metadata.get("name"), metadata.get("namespace")
    if not name and not metadata.get("generateName"):
        yield Problem((*where, "name"), MISSING, at_value=False)
    elif name and (len(name) > 253 or not re.fullmatch(_SUBDOMAIN, name)):
        yield Problem(
            (*where, "name"),
            f"{quoted(name)} is not an object name; use a-z, 0-9, - and ., with a letter or digit at each end",
        )
    if namespace and (len(namespace) > 63 or not re.fullmatch(_LABEL, namespace)):
        yield Problem(
            (*where, "namespace"),
            f"{quoted(namespace)} is not a namespace name; use a-z, 0-9 and -, at most 63 characters",
        )
    for kind in ("labels", "annotations"):
        for key, value in (metadata.get(kind) or {}).items():
            place = (*where, kind, key)
            if not _is_key(key):
                yield Problem(
                    place,
                    f"{quoted(key)} is not a key of {kind}; use one such as example.com/team",
                    at_value=False,
                )
            if kind == "labels" and value and (len(value) > 63 or not re.fullmatch(_QUALIFIED, value)):
                yield Problem(
                    place, f"{quoted(value)} is not a label value; use at most 63 letters, digits, -, _ and ."
                )


def _is_key(key: str) -> bool:
    prefix, slash, name = key.rpartition("/")
    if slash and (len(prefix) > 253 or not re.fullmatch(_SUBDOMAIN, prefix)):
        return False
    return len(name) <= 63 and re.fullmatch(_QUALIFIED, name) is not None
