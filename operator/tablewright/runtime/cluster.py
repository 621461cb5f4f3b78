"""The rim: every call that the operator makes to the API server, and nothing else.

Objects come and go as plain JSON; callers parse them into values. A create that finds the object there already is no
error, because names are functions of their cause. Every write asks first whether we lead, and what the server answers
is handed on: the next pass must not act on what was before.
"""

import base64
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import urllib3
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

from tableformat.errors import PermanentError, TransientError
from tableformat.secrets import KnownSecrets
from tablewright.act.jobs import TABLE_LABEL
from tablewright.api.objects import API_VERSION, GROUP, VERSION, KubernetesObject
from tablewright.decide.state import JobVersion

FIELD_MANAGER = "tablewright"
PAGE = 500
_OURS = f"apis/{GROUP}/{VERSION}"
_TIMEOUT = (10.0, 60.0)  # to connect, and to answer: a request that hangs must not take a worker with it
_NOT_IN_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_MERGE, _APPLY = "application/merge-patch+json", "application/apply-patch+yaml"
_STEPS = "application/json-patch+json"


class ApiServerUnavailableError(TransientError):
    """The API server cannot be reached, or did not answer in time."""


class ObjectRefusedError(PermanentError):
    """The API server does not take an object, and will not the next time either."""


class AccessDeniedError(PermanentError):
    """The operator lacks a right, or a quota is used up; somebody has to change that."""


class NameTakenError(PermanentError):
    """An object of this name is there, and is somebody else's."""


class NoAccessError(PermanentError):
    """Nothing says where the API server is, or who asks it."""


class Cluster:
    """`fence` raises where nothing may be written (any more); `wrote` is told of our own objects as they now are."""

    def __init__(
        self,
        api: client.ApiClient,
        *,
        fence: Callable[[], None],
        wrote: Callable[[str, KubernetesObject], object],
        secrets: KnownSecrets,
    ) -> None:
        self._api = api
        self._secrets = secrets
        self._fence = fence
        self._wrote = wrote

    def require_leadership(self) -> None:
        """Raises where nothing may be changed, here or in a catalog."""
        self._fence()

    # -- reads

    def read(self, plural: str, namespace: str, name: str) -> KubernetesObject | None:
        """One of our own objects, as it is now."""
        return self._unless(404, "GET", f"{_OURS}/namespaces/{namespace}/{plural}/{name}")

    def read_job(self, namespace: str, name: str) -> KubernetesObject | None:
        return self._unless(404, "GET", f"apis/batch/v1/namespaces/{namespace}/jobs/{name}")

    def pods_of_job(self, namespace: str, job: str) -> list[KubernetesObject]:
        query = {"labelSelector": f"batch.kubernetes.io/job-name={job}"}
        listed = self._request("GET", f"api/v1/namespaces/{namespace}/pods", query=query)
        return list(listed.get("items") or [])

    def pods_of_table(self, namespace: str, table: str) -> list[KubernetesObject]:
        """The pods of the table's runs, also of runs that are gone; `table` is as its label has it."""
        query = {"labelSelector": f"{TABLE_LABEL}={table}"}
        listed = self._request("GET", f"api/v1/namespaces/{namespace}/pods", query=query)
        return list(listed.get("items") or [])

    def events_about(self, kind: str, namespace: str, name: str) -> list[KubernetesObject]:
        query = {"fieldSelector": f"regarding.kind={kind},regarding.name={name}"}
        listed = self._request("GET", f"apis/events.k8s.io/v1/namespaces/{namespace}/events", query=query)
        return list(listed.get("items") or [])

    def read_secret(self, namespace: str, name: str) -> dict[str, str] | None:
        """None if it is not there; raises `AccessDeniedError` where it may not be read."""
        try:
            secret = self._unless(404, "GET", f"api/v1/namespaces/{namespace}/secrets/{name}")
        except ApiException as error:
            if error.status == 403:
                message = f"the operator may not read Secret {name}: give it the right to get it in {namespace}"
                raise AccessDeniedError(message) from None
            raise
        if secret is None:
            return None
        data = (secret.get("data") or {}).items()
        # What is no text (somebody's keystore in the same Secret) is none of the keys that we look for.
        values = {key: base64.b64decode(value).decode(errors="replace") for key, value in data}
        self._secrets.learn(values)
        return values

    def list_all(self, group: str, plural: str, namespace: str | None, selector: str) -> Iterator[KubernetesObject]:
        """Every object of a kind, page by page; `group` is as in a path: `api/v1`, `apis/batch/v1`."""
        where = f"{group}/namespaces/{namespace}/{plural}" if namespace else f"{group}/{plural}"
        query = {"limit": str(PAGE), **({"labelSelector": selector} if selector else {})}
        while True:
            page = self._request("GET", where, query=query)
            yield from page.get("items") or []
            token = page["metadata"].get("continue")
            if not token:
                return
            query = {**query, "continue": token}

    def review(self, path: str, spec: dict[str, Any]) -> KubernetesObject:
        """What the API server answers of us: who we are, and what we may. A standby asks, too: nothing is written."""
        kind = {"selfsubjectrulesreviews": "SelfSubjectRulesReview", "selfsubjectreviews": "SelfSubjectReview"}
        group, name = path.removeprefix("apis/").rsplit("/", 1)
        body = {"apiVersion": group, "kind": kind.get(name, "SelfSubjectAccessReview"), "spec": spec}
        return dict(self._request("POST", path, body=body, writes=False).get("status") or {})

    # -- writes

    def create_unless_there(self, path: str, obj: KubernetesObject) -> None:
        """One that is there is left as it is, whoever made it."""
        if self._unless(404, "GET", f"{path}/{obj['metadata']['name']}") is None:
            self._unless(409, "POST", path, body=obj)

    def create_run(self, run: KubernetesObject) -> None:
        """Raises `ObjectRefusedError` where the API server never takes it, `AccessDeniedError` where not now."""
        namespace, name = run["metadata"]["namespace"], run["metadata"]["name"]
        with _refusals_of("MaintenanceRun"):
            created = self._unless(409, "POST", f"{_OURS}/namespaces/{namespace}/maintenanceruns", body=run)
        if created is None:  # it is there already, though perhaps not in what we have seen
            created = self.read("maintenanceruns", namespace, name)
        if created is not None:
            self._wrote("MaintenanceRun", created)

    def delete_run(self, namespace: str, name: str) -> None:
        """With what it owns: its Job, and the Job's pods."""
        path = f"{_OURS}/namespaces/{namespace}/maintenanceruns/{name}"
        self._unless(404, "DELETE", path, query={"propagationPolicy": "Background"})

    def set_finalizers(
        self, plural: str, namespace: str, name: str, finalizers: Sequence[str], *, resource_version: str
    ) -> None:
        """On the version that was seen: somebody else's finalizer must not be lost to ours."""
        self._patch_metadata(plural, namespace, name, {"finalizers": list(finalizers)}, resource_version)

    def remove_finalizer(
        self, plural: str, namespace: str, name: str, finalizers: Sequence[str], finalizer: str
    ) -> None:
        """Whatever else has changed of the object since these were seen on it: this one's work is done."""
        place = f"/metadata/finalizers/{list(finalizers).index(finalizer)}"
        steps = [{"op": "test", "path": place, "value": finalizer}, {"op": "remove", "path": place}]
        path = f"{_OURS}/namespaces/{namespace}/{plural}/{name}"
        written = self._unless(404, "PATCH", path, body=steps, content_type=_STEPS)
        if written is not None:
            self._wrote(written["kind"], written)

    def remove_annotation(
        self, plural: str, namespace: str, name: str, annotation: str, *, resource_version: str
    ) -> None:
        """On the version that was seen: one that somebody set anew since then asks for something else."""
        self._patch_metadata(plural, namespace, name, {"annotations": {annotation: None}}, resource_version)

    def _patch_metadata(
        self, plural: str, namespace: str, name: str, metadata: dict[str, Any], resource_version: str
    ) -> None:
        body = {"metadata": {**metadata, "resourceVersion": resource_version}}
        path = f"{_OURS}/namespaces/{namespace}/{plural}/{name}"
        written = self._unless(404, "PATCH", path, body=body, content_type=_MERGE)
        if written is not None:
            self._wrote(written["kind"], written)

    def create_job(self, job: KubernetesObject) -> None:
        """Raises `ObjectRefusedError` where the API server never takes it, `AccessDeniedError` where not now.

        One that is there already must have the same owner, or it raises `NameTakenError`.
        """
        namespace, name = job["metadata"]["namespace"], job["metadata"]["name"]
        with _refusals_of("Job"):
            created = self._unless(409, "POST", f"apis/batch/v1/namespaces/{namespace}/jobs", body=job)
        if created is None and not owners(self.read_job(namespace, name)) & owners(job):
            message = f"there is a Job {name} that is not this run's: it goes with the run before, or delete it"
            raise NameTakenError(message)

    def delete_job(self, namespace: str, name: str, version: JobVersion) -> None:
        """With its pods, and gone only when they are. Not one that has changed since it was seen, which is no error.

        Raises `AccessDeniedError` where that is not allowed.
        """
        preconditions = {"uid": version.uid, "resourceVersion": version.resource_version}
        options = {"propagationPolicy": "Foreground", "preconditions": preconditions}
        try:
            self._request("DELETE", f"apis/batch/v1/namespaces/{namespace}/jobs/{name}", body=options)
        except ApiException as error:
            if error.status == 403:
                message = f"the operator may not delete Jobs: give it the right to in {namespace}: {error.reason}"
                raise AccessDeniedError(message) from None
            if error.status not in (404, 409):
                raise

    def apply_status(self, plural: str, kind: str, namespace: str, name: str, status: dict[str, Any]) -> None:
        """Server-side apply of what the operator owns of a status. A deleted object is no error."""
        metadata = {"name": name, "namespace": namespace}
        body = {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "status": self._told(status)}
        path = f"{_OURS}/namespaces/{namespace}/{plural}/{name}/status"
        written = self._unless(404, "PATCH", path, query={"force": "true"}, body=body, content_type=_APPLY)
        if written is not None:
            self._wrote(kind, written)

    def create_event(self, event: KubernetesObject) -> None:
        """An event's name is a function of what happened: one that is there already has been told."""
        path = f"apis/events.k8s.io/v1/namespaces/{event['metadata']['namespace']}/events"
        self._unless(409, "POST", path, body=self._told(event))

    def _told(self, words: KubernetesObject) -> KubernetesObject:
        """As it may be read by people who may not read Secrets."""
        text = json.dumps(words)
        hidden = self._secrets.hide(text)
        return words if hidden == text else dict(json.loads(hidden))

    # -- requests

    def _unless(self, status: int, method: str, path: str, **options: Any) -> KubernetesObject | None:
        """The answer; None if the request failed with this status, which is no error then."""
        try:
            return self._request(method, path, **options)
        except ApiException as error:
            if error.status != status:
                raise
            return None

    def _request(
        self,
        method: str,
        path: str,
        *,
        query: dict[str, str] | None = None,
        body: KubernetesObject | list[KubernetesObject] | None = None,
        content_type: str = "application/json",
        writes: bool = True,
    ) -> KubernetesObject:
        query = dict(query or {})
        headers = {"Accept": "application/json"}
        if method != "GET":
            if writes:
                self._fence()
            headers["Content-Type"] = content_type
        if body is not None and method != "DELETE":
            query["fieldManager"] = FIELD_MANAGER
        sent = _as_yaml(body) if content_type == _APPLY else body
        parts = self._api.param_serialize(
            method, f"/{path}", None, list(query.items()), headers, sent, auth_settings=["BearerToken"]
        )
        try:
            answer = self._api.call_api(*parts, _request_timeout=_TIMEOUT)
            content = answer.read()
        except urllib3.exceptions.HTTPError as error:
            raise ApiServerUnavailableError(f"the API server did not answer ({method} {path}): {error}") from error
        if not 200 <= answer.status < 300:
            raise _refusal(answer.status, content, method, path)
        return dict(json.loads(content))


@contextmanager
def _refusals_of(kind: str) -> Iterator[None]:
    """Of an object that is created: what the server does not take, or does not allow, has a type of its own."""
    try:
        yield
    except ApiException as error:
        if error.status in (400, 422):
            raise ObjectRefusedError(f"the API server refuses the {kind}: {error.reason}") from None
        if error.status == 403:
            raise AccessDeniedError(f"the API server does not allow the {kind}: {error.reason}") from None
        raise


def owners(obj: KubernetesObject | None) -> set[str]:
    """The uids of the objects that it goes with."""
    metadata = {} if obj is None else obj["metadata"]
    return {reference["uid"] for reference in metadata.get("ownerReferences") or ()}


def _as_yaml(body: KubernetesObject | list[KubernetesObject] | None) -> bytes:
    """JSON that is YAML, too: that is how an apply is read, without surrogate pairs and bare control characters."""
    text = json.dumps(body, ensure_ascii=False)
    return _NOT_IN_YAML.sub(lambda found: f"\\u{ord(found[0]):04x}", text).encode()


def access(kubeconfig: str | None) -> client.Configuration:
    """By a kubeconfig file; without one the pod's own, or a person's."""
    configuration = client.Configuration()
    try:
        if kubeconfig is not None:
            config.load_kube_config(config_file=kubeconfig, client_configuration=configuration)
        else:
            try:
                config.load_incluster_config(configuration)
            except config.ConfigException:
                config.load_kube_config(client_configuration=configuration)
    except Exception as error:  # for a file that is broken the client library has no error of its own
        said = " ".join(str(error).split()).rstrip(".")
        given = f"no access to a cluster by kubeconfig {kubeconfig or '(default)'}"
        raise NoAccessError(f"{given}: {said}: give --kubeconfig, or run in a pod") from error
    configuration.retries = False  # nothing is repeated by itself: the queue tries again
    return configuration


def connect(kubeconfig: str | None, *, counted: Callable[[str], None] = lambda _: None) -> client.ApiClient:
    """`counted` is told the method of every request."""
    return _CountingClient(access(kubeconfig), counted)


class _CountingClient(client.ApiClient):  # type: ignore[misc]  # the client library has no types
    def __init__(self, configuration: client.Configuration, counted: Callable[[str], None]) -> None:
        super().__init__(configuration)
        self._counted = counted

    def call_api(self, method: str, *arguments: Any, **options: Any) -> Any:
        self._counted(method)
        return super().call_api(method, *arguments, **options)


def _refusal(status: int, content: bytes, method: str, path: str) -> ApiException:
    try:
        message = json.loads(content).get("message", "")
    except ValueError:
        message = content[:200].decode(errors="replace")
    return ApiException(status=status, reason=f"{method} {path}: {message}")
