"""What the operator may do in a namespace: remembered for a while, asked for again, and told in words that help."""

from typing import Any

import pytest

from tablewright.act.passes import CatalogNotUsableError
from tablewright.api.catalog import TableCatalog
from tablewright.api.objects import parse
from tablewright.runtime.grants import GRANTED_SECONDS, RUNS, WATCH_JOBS, WATCH_POINTERS, Grants, needed_for

EVERYTHING = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
OPERATOR = "system:serviceaccount:tablewright-system:tablewright"


class Reviews:
    """An API server that answers reviews, and nothing else."""

    def __init__(self, *rules: dict[str, Any], incomplete: bool = False, user: str = OPERATOR) -> None:
        self.rules, self.incomplete, self.user = list(rules), incomplete, user
        self.allowed: set[tuple[str, str]] = set()
        self.asked: list[str] = []

    def review(self, path: str, spec: dict[str, Any]) -> dict[str, Any]:
        kind = path.rsplit("/", 1)[1]
        self.asked.append(kind)
        if kind == "selfsubjectrulesreviews":
            return {"resourceRules": self.rules, "incomplete": self.incomplete}
        if kind == "selfsubjectaccessreviews":
            wanted = spec["resourceAttributes"]
            return {"allowed": (wanted["resource"], wanted["verb"]) in self.allowed}
        return {"userInfo": {"username": self.user}}


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def grants(reviews: Reviews, *, in_cluster: bool = True, clock: Clock | None = None) -> Grants:
    return Grants(
        reviews,  # type: ignore[arg-type]
        lambda: {"sales"},
        role="tablewright-tables",
        in_cluster=in_cluster,
        clock=clock or Clock(),
    )


def catalog(**spec: Any) -> TableCatalog:
    whole = {"configMap": {}, "warehouse": "s3://b/w", **spec}
    given = {name: value for name, value in whole.items() if value is not None}
    return parse(TableCatalog, {"metadata": {"name": "lake", "namespace": "sales"}, "spec": given})


def refusal(reviews: Reviews, lake: TableCatalog, **options: Any) -> str:
    with pytest.raises(CatalogNotUsableError) as refused:
        grants(reviews, **options).require(lake)
    assert refused.value.reason == "RightsMissing"
    return str(refused.value)


def test_nothing_granted_is_answered_with_the_command_that_grants_it() -> None:
    command = "kubectl create rolebinding tablewright -n sales --clusterrole=tablewright-tables"
    assert refusal(Reviews(), catalog()).endswith(
        f"Grant them: {command} --serviceaccount=tablewright-system:tablewright"
    )
    assert refusal(Reviews(user="alice"), catalog()).endswith(f"Grant them: {command} --user=alice")
    said = refusal(Reviews(), catalog(), in_cluster=False)
    assert said.endswith("Add them to the operator's Role in that namespace")


def test_only_what_a_catalog_takes_is_asked_for() -> None:
    dynamo = catalog(configMap=None, dynamoDB={})
    assert needed_for(dynamo) == RUNS
    jobs = {"verbs": ["get", "list", "watch", "create", "delete"], "apiGroups": ["batch"], "resources": ["jobs"]}
    pods = {"verbs": ["list"], "apiGroups": [""], "resources": ["pods"]}
    events = {"verbs": ["create", "list"], "apiGroups": ["events.k8s.io"], "resources": ["events"]}
    grants(Reviews(jobs, pods, events)).require(dynamo)
    assert "configmaps (create, get, list, update, watch). Add" in refusal(Reviews(jobs, pods, events), catalog())
    with_keys = catalog(configMap=None, dynamoDB={}, storage={"credentialsSecretRef": {"name": "keys"}})
    assert "sales: secrets/keys (get). Add" in refusal(Reviews(jobs, pods, events), with_keys)
    for names, enough in ((["keys"], True), (["other"], False), ([], True)):
        secrets = {"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": names}
        lacking = grants(Reviews(jobs, pods, events, secrets)).lacking("sales", needed_for(with_keys))
        assert (lacking is None) == enough


def test_right_that_rbac_does_not_list_is_asked_for_by_itself_where_others_may_allow_it() -> None:
    reviews = Reviews(incomplete=True)
    reviews.allowed = {(right.resource, right.verb) for right in RUNS} - {("pods", "list")}
    asked = grants(reviews)
    assert "sales: pods (list)." in (asked.lacking("sales", RUNS) or "")
    assert asked.watchable(WATCH_JOBS) == ["sales"]
    asked.refresh()
    assert asked.watchable(WATCH_JOBS) == ["sales"], "what watches go by must not be gone for a moment"
    assert asked.watchable(WATCH_POINTERS) == []


def test_answer_holds_for_a_while_and_what_was_missing_is_noticed_soon() -> None:
    reviews, clock = Reviews(), Clock()
    asked = grants(reviews, clock=clock)
    assert asked.lacking("sales", RUNS) is not None
    reviews.rules = [EVERYTHING]
    clock.now = 6.0
    assert asked.lacking("sales", RUNS) is None
    before = len(reviews.asked)
    clock.now = 6.0 + GRANTED_SECONDS - 1
    assert asked.lacking("sales", RUNS) is None
    assert len(reviews.asked) == before
    reviews.rules = []
    clock.now = 6.0 + GRANTED_SECONDS + 1
    assert asked.lacking("sales", RUNS) is not None


def test_namespace_is_listed_before_its_first_pass_after_its_rights_came() -> None:
    """Where another table is, is known by the pointers: none may be missing when a table is created."""
    reviews, clock, listed = Reviews(EVERYTHING), Clock(), list[str]()
    asked = grants(reviews, clock=clock)
    asked.list_anew = listed.append
    for _ in range(2):
        asked.require(catalog())
    assert listed == ["sales"]
    reviews.rules, clock.now = [], 100.0
    with pytest.raises(CatalogNotUsableError):
        asked.require(catalog())
    reviews.rules, clock.now = [EVERYTHING], 200.0
    asked.require(catalog())
    assert listed == ["sales", "sales"], "nothing was watched meanwhile"


def test_listing_that_failed_is_made_again() -> None:
    asked = grants(Reviews(EVERYTHING))

    def fail(_: str) -> None:
        raise OSError("no answer")

    asked.list_anew = fail
    for _ in range(2):
        with pytest.raises(OSError, match="no answer"):
            asked.require(catalog())
