"""Which rights the operator has in a namespace, as the API server says, and what is missing there.

In the whole cluster the operator has rights over our own kinds alone. Everything else (Jobs, pods, ConfigMaps, Secrets,
events) it may touch only where somebody granted it, by one RoleBinding in the namespace. So it asks before it acts:
a namespace that is not granted is a condition of its tables that names the RoleBinding, not a failure in the middle of
a pass. The answer is remembered for a while, since every pass asks.
"""

import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tablewright.act.passes import CatalogNotUsableError
from tablewright.api.catalog import TableCatalog
from tablewright.runtime.cluster import Cluster

GRANTED_SECONDS = 60.0  # for which a right that was there is taken to be there still
MISSING_SECONDS = 5.0
RIGHTS_MISSING = "RightsMissing"


@dataclass(frozen=True, order=True)
class Right:
    group: str
    resource: str
    verb: str
    name: str = ""  # of the one object that it is about; a right over all of them is as good


def _rights(group: str, resource: str, *verbs: str) -> frozenset[Right]:
    return frozenset(Right(group, resource, verb) for verb in verbs)


WATCH_JOBS = _rights("batch", "jobs", "list", "watch")
WATCH_POINTERS = _rights("", "configmaps", "list", "watch")
RUNS = (
    WATCH_JOBS
    | _rights("batch", "jobs", "get", "create", "delete")
    | _rights("", "pods", "list")
    | _rights("events.k8s.io", "events", "create", "list")
)
# Without `delete`: it is needed where a table is dropped, and who withholds it keeps every pointer.
POINTERS = WATCH_POINTERS | _rights("", "configmaps", "get", "create", "update")


def needed_for(catalog: TableCatalog) -> frozenset[Right]:
    """What the tables of this catalog take, beside our own kinds."""
    secrets = frozenset(Right("", "secrets", "get", name) for name in catalog.secret_names)
    return RUNS | secrets | (POINTERS if catalog.spec.config_map is not None else frozenset())


@dataclass
class _Known:
    """What was answered for a namespace: the rules of its roles, and what was asked for one by one."""

    rules: Sequence[dict[str, Any]]
    is_complete: bool  # an authorizer beside RBAC may allow more, and cannot list it
    at: float
    asked: dict[Right, bool] = field(default_factory=dict)
    _ruled: dict[Right, bool] = field(default_factory=dict)  # watches look twice a second, at every namespace

    def allows(self, right: Right) -> bool:
        if right not in self._ruled:
            self._ruled[right] = any(_allows(rule, right) for rule in self.rules)
        return self._ruled[right] or self.asked.get(right, False)


class Grants:
    """`scope` has the namespaces that there is work in. `list_anew` is called with one of them before its first pass
    after its rights came: nothing was watched there until then."""

    def __init__(
        self,
        cluster: Cluster,
        scope: Callable[[], set[str]],
        *,
        role: str,
        in_cluster: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster, self._scope, self._role, self._in_cluster = cluster, scope, role, in_cluster
        self._clock = clock
        self._known: dict[str, _Known] = {}
        self._listed: set[str] = set()
        self._lock = threading.Lock()
        self.list_anew: Callable[[str], None] = lambda _: None

    def require(self, catalog: TableCatalog) -> None:
        """Raises `CatalogNotUsableError` where the tables of the catalog cannot be worked on."""
        namespace = catalog.metadata.namespace
        lacking = self.lacking(namespace, needed_for(catalog))
        if lacking is not None:
            raise CatalogNotUsableError(RIGHTS_MISSING, f"TableCatalog {catalog.metadata.name}: {lacking}")
        with self._lock:
            is_listed = namespace in self._listed
        if not is_listed:
            self.list_anew(namespace)
            self.listed(namespace)

    def lacking(self, namespace: str, rights: Collection[Right]) -> str | None:
        """What is missing of these rights, and how it is granted; None if nothing is."""
        missing = self.missing(namespace, rights, GRANTED_SECONDS) and self.missing(namespace, rights, MISSING_SECONDS)
        if not missing:
            return None
        with self._lock:
            self._listed.discard(namespace)
        return self._said(namespace, missing, whole=len(missing) == len(rights))

    def missing(self, namespace: str, rights: Iterable[Right], seconds: float) -> list[Right]:
        """By an answer that is at most so old."""
        known = self._ask(namespace, seconds)
        lacking = sorted(right for right in rights if not known.allows(right))
        if known.is_complete:
            return lacking
        for right in lacking:
            known.asked.setdefault(right, self._may(namespace, right))
        return [right for right in lacking if not known.asked[right]]

    def listed(self, namespace: str) -> None:
        with self._lock:
            self._listed.add(namespace)

    def watchable(self, rights: Collection[Right]) -> list[str]:
        """The namespaces in which all these rights were there when they were last asked for. Asks nothing itself."""
        scope = self._scope()
        with self._lock:
            self._listed &= scope
            known = [(name, answer) for name, answer in self._known.items() if name in scope]
        return sorted(name for name, answer in known if all(answer.allows(right) for right in rights))

    def refresh(self) -> None:
        """Asks anew for every namespace that there is work in."""
        scope = self._scope()
        with self._lock:
            self._known = {name: known for name, known in self._known.items() if name in scope}
        for namespace in sorted(scope):
            self._ask(namespace, 0.0)

    def _ask(self, namespace: str, seconds: float) -> _Known:
        with self._lock:
            before = self._known.get(namespace)
        if before is not None and self._clock() < before.at + seconds:
            return before
        at, status = self._clock(), self._cluster.review(_RULES, {"namespace": namespace})
        known = _Known(status.get("resourceRules") or (), not status.get("incomplete"), at)
        # Those who watch ask for nothing: what they go by must not be gone for a moment.
        known.asked.update({right: self._may(namespace, right) for right in (before.asked if before else ())})
        with self._lock:
            self._known[namespace] = known
        return known

    def _may(self, namespace: str, right: Right) -> bool:
        asked = {"namespace": namespace, "group": right.group, "resource": right.resource, "verb": right.verb}
        asked |= {"name": right.name} if right.name else {}
        return bool(self._cluster.review(_ACCESS, {"resourceAttributes": asked}).get("allowed"))

    def _said(self, namespace: str, missing: Sequence[Right], *, whole: bool) -> str:
        lacks = f"the operator lacks rights in namespace {namespace}: {_in_words(missing)}."
        if not self._in_cluster:
            return f"{lacks} Add them to the operator's Role in that namespace"
        if not whole:
            return f"{lacks} Add them to ClusterRole {self._role}, which a RoleBinding there grants"
        return f"{lacks} Grant them: {self._command(namespace)}"

    def _command(self, namespace: str) -> str:
        user = str(self._cluster.review(_WHO, {}).get("userInfo", {}).get("username", ""))
        account = user.removeprefix("system:serviceaccount:")
        subject = f"--user={user}" if account == user else f"--serviceaccount={account}"
        return f"kubectl create rolebinding tablewright -n {namespace} --clusterrole={self._role} {subject}"


_RULES = "apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
_ACCESS = "apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_WHO = "apis/authentication.k8s.io/v1/selfsubjectreviews"


def _allows(rule: dict[str, Any], right: Right) -> bool:
    asked = {"verbs": right.verb, "apiGroups": right.group, "resources": right.resource}
    names = rule.get("resourceNames") or ()
    named = not names or (right.name != "" and right.name in names)
    return named and all({word, "*"} & set(rule.get(key) or ()) for key, word in asked.items())


def _in_words(rights: Iterable[Right]) -> str:
    verbs: dict[str, list[str]] = {}
    for right in rights:
        verbs.setdefault(f"{right.resource}/{right.name}" if right.name else right.resource, []).append(right.verb)
    return "; ".join(f"{resource} ({', '.join(each)})" for resource, each in verbs.items())
