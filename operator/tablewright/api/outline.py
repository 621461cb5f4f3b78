"""Objects that the API server takes and the models do not, read as far as it goes.

A time zone that does not exist passes the CRD. Such an object must trap and hold up nothing: what its deletion, its
rivals and its neighbours need of it is a few fields, and those are read without the rest.
"""

from collections.abc import Sequence

from tablewright.api.objects import InvalidObjectError, KubernetesObject, Resource, parse
from tablewright.api.policy import TablePolicy
from tablewright.api.run import MaintenanceRun
from tablewright.api.table import ManagedTable


def table_outline(obj: KubernetesObject) -> ManagedTable | None:
    """The table, whole if it can be; otherwise which table it stands for, and what its deletion does to it."""
    said = ("catalogRef", "identifier", "managementPolicy", "deletionPolicy")
    return _outline(ManagedTable, obj, said, ("identity", "conditions", "purging"))


def run_outline(obj: KubernetesObject) -> MaintenanceRun | None:
    """The run, whole if it can be; otherwise whose it is and how far it got."""
    return _outline(
        MaintenanceRun,
        obj,
        ("tableRef", "operation"),
        ("phase", "jobName", "startTime", "completionTime", "reason", "message"),
    )


def policy_outline(obj: KubernetesObject) -> TablePolicy | None:
    """The policy, whole if it can be; otherwise whom it selects. A selector that cannot be read selects everybody."""
    return _outline(TablePolicy, obj, ("selector",), ()) or _outline(TablePolicy, obj, (), ())


def _outline(
    kind: type[Resource], obj: KubernetesObject, spec: Sequence[str], status: Sequence[str]
) -> Resource | None:
    outline = {"metadata": obj["metadata"], "spec": _only(obj.get("spec"), spec)}
    for attempt in (obj, outline | {"status": _only(obj.get("status"), status)}, outline):
        try:
            return parse(kind, attempt)
        except InvalidObjectError:
            continue
    return None


def _only(fields: KubernetesObject | None, names: Sequence[str]) -> KubernetesObject:
    return {name: value for name, value in (fields or {}).items() if name in names}
