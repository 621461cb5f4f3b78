"""One metadata file after another, without losing what PyIceberg does not know.

PyIceberg writes only what its models have: keys of a newer Iceberg would be gone after the next commit. So the new JSON
is merged of three versions: the base as it was written, the base as PyIceberg would write it, and the new one as
PyIceberg wrote it. What PyIceberg did not change stays as it was written, to the letter. What it does not know stays
with the object that it belongs to, found by its id. What was removed is gone.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

_IDS: Final[Mapping[str, tuple[str, ...]]] = {
    "schemas": ("schema-id",),
    "fields": ("id", "field-id"),  # of a schema, or of a partition spec
    "partition-specs": ("spec-id",),
    "sort-orders": ("order-id",),
    "snapshots": ("snapshot-id",),
    "statistics": ("snapshot-id",),
    "partition-statistics": ("snapshot-id",),
    "metadata-log": ("metadata-file",),
}
"""By which the objects of a list are found again; those of other lists only if they are as they were."""

_MADE_FROM: Final = {"schemas": "current-schema-id", "partition-specs": "default-spec-id"}
"""A new schema is the current one with changes, and its fields have what the current one's have; so has a spec."""


def carried_over(written: dict[str, Any], known: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """The new metadata with what the base has beyond what is known of it.

    `written` is the base as it is in storage, `known` as PyIceberg writes it, and `new` what PyIceberg made of it.
    """
    # In a new format version, what an older one may leave out has to be there.
    is_upgrade = written.get("format-version") != new.get("format-version")
    return _Merge(is_upgrade, known).objects(written, known, new)


class _Merge:
    def __init__(self, is_upgrade: bool, base: dict[str, Any]) -> None:
        self._is_upgrade = is_upgrade
        self._base = base

    def objects(self, written: dict[str, Any], known: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
        merged = {
            key: self._values(key, written[key], known[key], value) if key in written and key in known else value
            for key, value in new.items()
        }
        merged |= {key: value for key, value in written.items() if key not in known and key not in new}
        return merged

    def _values(self, key: str, written: Any, known: Any, new: Any) -> Any:
        is_same = new == known
        if is_same and not self._is_upgrade:
            return written
        if isinstance(written, dict) and isinstance(known, dict) and isinstance(new, dict):
            return self.objects(written, known, new)
        if isinstance(written, list) and isinstance(known, list) and isinstance(new, list):
            return self._lists(key, written, known, new) if len(written) == len(known) else new
        return written if is_same else new

    def _lists(self, key: str, written: Sequence[Any], known: Sequence[Any], new: Sequence[Any]) -> list[Any]:
        candidates: dict[Any, list[int]] = {}
        for position, value in enumerate(known):
            candidates.setdefault(_identity(key, value), []).append(position)
        made_from = [self._base.get(_MADE_FROM[key])] if key in _MADE_FROM else []
        merged = []
        for value in new:
            alike = candidates.get(_identity(key, value)) or candidates.get(_hashable(made_from), [])
            same = [position for position in alike if known[position] == value]
            for position in (same or alike)[:1]:
                value = self._values(key, written[position], known[position], value)
            merged.append(value)
        return merged


def _identity(key: str, value: Any) -> Any:
    if isinstance(value, dict):
        ids = [value[name] for name in _IDS.get(key, ()) if name in value]
        return _hashable(ids or value)
    return _hashable(value)


def _hashable(value: Any) -> Any:
    if isinstance(value, dict):
        return frozenset((name, _hashable(inner)) for name, inner in value.items())
    return tuple(map(_hashable, value)) if isinstance(value, list) else value
