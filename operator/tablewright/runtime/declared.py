"""What bears on a table beside its own object: its runs, policies, catalog, and others that claim it, as last seen."""

from collections.abc import Sequence

from tablewright.api.catalog import TableCatalog
from tablewright.api.objects import InvalidObjectError, KubernetesObject, parse
from tablewright.api.outline import policy_outline, run_outline, table_outline
from tablewright.api.policy import TablePolicy
from tablewright.api.run import MaintenanceRun
from tablewright.api.table import ManagedTable
from tablewright.decide.claims import older_claim
from tablewright.decide.policy import EffectivePolicy, effective_policy
from tablewright.runtime.catalogs import parse_catalog
from tablewright.runtime.claims import Claims
from tablewright.runtime.store import ObjectStore


class Declared:
    def __init__(self, store: ObjectStore, claims: Claims) -> None:
        self._store = store
        self._claims = claims

    def runs_of(self, table: ManagedTable) -> list[MaintenanceRun]:
        outlines = [run_outline(obj) for obj in self._store.runs_of(*table.key)]
        return [run for run in outlines if run is not None]

    def older_claim(self, table: ManagedTable) -> ManagedTable | None:
        others = []
        for place in self._claims.rivals(*table.key):
            obj = self._store.get(ManagedTable.kind_name, *place)
            other = None if obj is None else table_outline(obj)
            if other is not None:
                others.append(other)
        return older_claim(table, others)

    def policy_of(self, table: ManagedTable) -> EffectivePolicy:
        return effective_policy(table, self._policies(table)[0], self._catalog_of(table))

    def _catalog_of(self, table: ManagedTable) -> TableCatalog | None:
        """None where it is not there or cannot be read; nothing is maintained then."""
        obj = self._store.get(TableCatalog.kind_name, table.metadata.namespace, table.spec.catalog_ref.name)
        try:
            return None if obj is None else self._store.derived(parse_catalog, obj)
        except InvalidObjectError:
            return None

    def broken_policies(self, table: ManagedTable) -> Sequence[str]:
        return self._policies(table)[1]

    def _policies(self, table: ManagedTable) -> tuple[list[TablePolicy], list[str]]:
        """The policies that can be read; and of those that select the table and cannot, what is wrong with them."""
        readable, broken = [], []
        for obj in self._store.list(TablePolicy.kind_name, table.metadata.namespace):
            try:
                readable.append(self._store.derived(parse_policy, obj))
            except InvalidObjectError as error:
                outline = policy_outline(obj)
                if outline is None or outline.spec.selector.selects(table.metadata.labels):
                    broken.append(str(error))
        return readable, sorted(broken)


def parse_policy(obj: KubernetesObject) -> TablePolicy:
    return parse(TablePolicy, obj)
