"""Which objects claim which table: by the name that its pointer has in a ConfigMap catalog, and by the table's uuid.

That name is a function of catalog and identifier, whatever kind of catalog it is, so it serves as a key. Two catalogs
may lead to the same table, though, even from two namespaces; then both objects know it by the same uuid.
"""

import threading
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple, TypeVar

from tableformat.catalogs.naming import KIND_TABLE, object_name
from tablewright.api.objects import KubernetesObject
from tablewright.api.table import ManagedTable, default_identifier
from tablewright.runtime.keys import place_of

Place = tuple[str, str]  # of an object: namespace and name
Key = TypeVar("Key")
Member = TypeVar("Member")


class _Claim(NamedTuple):
    namespace: str
    pointer: str
    uuid: str | None


class Claims:
    def __init__(self) -> None:
        self._claims: dict[Place, _Claim] = {}
        self._by_pointer: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        self._by_uuid: defaultdict[str, set[Place]] = defaultdict(set)
        self._lock = threading.Lock()

    def put(self, obj: KubernetesObject) -> list[Place]:
        """Returns the objects that claim the same table, if the claim is new to them."""
        claim, place = _claim(obj), place_of(obj)
        with self._lock:
            if claim is None or self._claims.get(place) == claim:
                return []
            self._forget(place)
            self._claims[place] = claim
            self._by_pointer[claim.namespace, claim.pointer].add(place[1])
            if claim.uuid is not None:
                self._by_uuid[claim.uuid].add(place)
            return self._rivals(place, claim)

    def remove(self, obj: KubernetesObject) -> list[Place]:
        """Returns the objects that claim the same table."""
        place = place_of(obj)
        with self._lock:
            claim = self._claims.get(place)
            self._forget(place)
            return [] if claim is None else self._rivals(place, claim)

    def claimants(self, namespace: str, pointer: str) -> list[str]:
        """The names of the objects that claim the table with this pointer."""
        with self._lock:
            return sorted(self._by_pointer.get((namespace, pointer), ()))

    def rivals(self, namespace: str, name: str) -> list[Place]:
        """The other objects that claim the same table as this one."""
        with self._lock:
            claim = self._claims.get((namespace, name))
            return [] if claim is None else self._rivals((namespace, name), claim)

    def _rivals(self, place: Place, claim: _Claim) -> list[Place]:
        named: Iterable[str] = self._by_pointer.get((claim.namespace, claim.pointer), ())
        found = {(claim.namespace, name) for name in named} | self._by_uuid.get(claim.uuid or "", set())
        return sorted(found - {place})

    def _forget(self, place: Place) -> None:
        claim = self._claims.pop(place, None)
        if claim is None:
            return
        _discard(self._by_pointer, (claim.namespace, claim.pointer), place[1])
        if claim.uuid is not None:
            _discard(self._by_uuid, claim.uuid, place)


def pointer_name(table: ManagedTable) -> str:
    return object_name(table.spec.catalog_ref.name, KIND_TABLE, table.identifier)


def _discard(sets: dict[Key, set[Member]], key: Key, member: Member) -> None:
    sets[key].discard(member)
    if not sets[key]:
        del sets[key]


def _claim(obj: KubernetesObject) -> _Claim | None:
    """Read from the object itself, at every event; None of one that names no table, as its pass says."""
    spec, place = obj.get("spec") or {}, place_of(obj)
    try:
        catalog, declared = spec["catalogRef"]["name"], spec.get("identifier")
        identifier = default_identifier(*place) if declared is None else (declared["namespace"], declared["name"])
        uuid = ((obj.get("status") or {}).get("identity") or {}).get("uuid")
        return _Claim(place[0], object_name(str(catalog), KIND_TABLE, identifier), uuid)
    except (KeyError, TypeError):
        return None
