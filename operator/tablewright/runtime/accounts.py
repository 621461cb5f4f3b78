"""The account that a namespace's jobs run under: there before the first Job is, without anybody having to make it.

Whoever grants the operator a namespace grants it this, too: to create the account, and to bind it to the ClusterRole of
jobs, by name. What is there already, and what somebody else made, is left as it is. Where the operator may not do so
the Job is created all the same: the account may well be there.
"""

import logging

from kubernetes.client.exceptions import ApiException

from tablewright.runtime.cluster import Cluster
from tablewright.runtime.logs import brief

logger = logging.getLogger(__name__)

_RBAC = "rbac.authorization.k8s.io"
_LABELS = {"app.kubernetes.io/name": "tablewright-job", "app.kubernetes.io/managed-by": "tablewright"}


class JobAccounts:
    """`own` is the account of jobs where no level names another; `role` is the ClusterRole of jobs, if there is one."""

    def __init__(self, cluster: Cluster, *, own: str, role: str | None) -> None:
        self._cluster, self._own, self._role = cluster, own, role

    def ensure(self, namespace: str, account: str | None) -> None:
        """An account that somebody named is bound, and never created: a name that was misspelt is told by its Job."""
        if self._role is None:
            return
        name = account or self._own
        binding = self._own if name == self._own else f"{self._own}-{name}"
        try:
            if name == self._own:
                self._cluster.create_unless_there(f"api/v1/namespaces/{namespace}/serviceaccounts", _account(name))
            bindings = f"apis/{_RBAC}/v1/namespaces/{namespace}/rolebindings"
            self._cluster.create_unless_there(bindings, _binding(binding, self._role, name))
        except ApiException as error:
            if error.status != 403:
                raise
            logger.debug("the account of jobs in %s was not looked at: %s", namespace, brief(error))


def _account(name: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "labels": _LABELS}}


def _binding(name: str, role: str, account: str) -> dict[str, object]:
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": name, "labels": _LABELS},
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": account}],
    }
