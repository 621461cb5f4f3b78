"""Kubernetes names and labels for identifiers of any shape: long, dotted, upper case, nested, in any script.

A name is readable as far as the rules of Kubernetes allow, and ends in a digest of the whole identifier; it can
neither be illegal nor stand for two identifiers. The object repeats the identifier in full, and readers compare.
"""

import hashlib
import json
import re
from base64 import b32encode

from pyiceberg.typedef import Identifier

LABEL_CATALOG = "tablewright.dev/catalog"
LABEL_KIND = "tablewright.dev/kind"
LABEL_NAMESPACE = "tablewright.dev/namespace"  # the one that holds it: a table's own, a nested namespace's parent

KIND_TABLE = "table"
KIND_NAMESPACE = "namespace"

_LONGEST_SLUG = 60
_PLAIN_PART = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_-]*[A-Za-z0-9])?")
_LONGEST_LABEL = 63
_DIGEST_PREFIX = "sha256-"


def object_name(catalog: str, kind: str, identifier: Identifier) -> str:
    """The name of the ConfigMap: legal, the same for everybody, and no other identifier's."""
    words = "-".join(re.findall(r"[a-z0-9]+", ".".join(identifier).lower()))[:_LONGEST_SLUG].strip("-")
    prefix = f"iceberg-{kind}-{words}" if words else f"iceberg-{kind}"
    return f"{prefix}-{_digest([catalog, kind, *identifier])}"


def labels_of(catalog: str, kind: str, namespace: Identifier) -> dict[str, str]:
    """What a table or namespace held by `namespace` (none: at the top) is found by."""
    return {
        LABEL_CATALOG: _label((catalog,)),
        LABEL_KIND: kind,
        LABEL_NAMESPACE: _label(namespace) if namespace else "",
    }


def _label(parts: Identifier) -> str:
    """The parts joined by dots if that is legal and cannot be taken for other parts, otherwise their digest."""
    plain = ".".join(parts)
    if (
        all(_PLAIN_PART.fullmatch(part) for part in parts)
        and len(plain) <= _LONGEST_LABEL
        and not plain.startswith(_DIGEST_PREFIX)
    ):
        return plain
    return _DIGEST_PREFIX + _digest(list(parts))


def _digest(parts: list[str]) -> str:
    """JSON keeps the borders between the parts, so that ("a", "b.c") and ("a.b", "c") differ."""
    text = json.dumps(parts, ensure_ascii=True)
    return b32encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=").lower()
