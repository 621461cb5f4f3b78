"""ConfigMaps of one Kubernetes namespace: read, list, and write on a condition, with every failure given its meaning.

Needs no more than get, list, create, update and delete on configmaps in that namespace. The client never repeats a
write by itself: an automatic repetition would be answered "conflict" although its first copy was applied.

Requests and answers are plain JSON: the client library's classes for every kind of object take 80 MiB and seconds to
load, and nothing here needs them.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import urllib3
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException
from kubernetes.config.config_exception import ConfigException

from tableformat.backoff import READS, Backoff
from tableformat.catalogs.outcomes import (
    CatalogAccessError,
    CatalogUnavailableError,
    DeletionPendingError,
    LostRace,
    NotApplied,
    OutcomeUnknown,
)

PAGE = 500
_NEVER_SENT = (urllib3.exceptions.NewConnectionError, urllib3.exceptions.ConnectTimeoutError)
_TRANSPORT = (urllib3.exceptions.HTTPError, OSError)
_EXPIRED = 410
_PASSING = {0, 408, 409, 429}  # of a read; the server itself has no 409 for one, but what stands between may

Json = dict[str, Any]


@dataclass(frozen=True)
class ConfigMap:
    name: str
    data: Mapping[str, str]
    labels: Mapping[str, str] = field(default_factory=dict)
    version: str = ""  # empty until the server has given it one
    metadata: Any = field(default=None, repr=False, compare=False)  # the server's, to send back what others put there


def connect(kubeconfig: str | None, context: str | None) -> client.ApiClient:
    configuration = client.Configuration()
    try:
        if kubeconfig is None and context is None:
            try:
                config.load_incluster_config(client_configuration=configuration)
            except ConfigException:  # not in a pod
                config.load_kube_config(client_configuration=configuration)
        else:
            config.load_kube_config(config_file=kubeconfig, context=context, client_configuration=configuration)
    except ConfigException as error:
        raise CatalogAccessError(
            f"no access to Kubernetes by kubeconfig {kubeconfig or '(default)'}, context {context or '(current)'}: "
            f"{error} Give a kubeconfig and context that exist, or run in a pod with a service account's token"
        ) from error
    configuration.retries = False
    return client.ApiClient(configuration)


class ConfigMapStore:
    def __init__(self, api: client.ApiClient, namespace: str, *, timeout_seconds: float) -> None:
        self._api = api
        self._namespace = namespace
        self._timeout = (min(timeout_seconds, 10), timeout_seconds)

    def close(self) -> None:
        self._api.close()

    def describe(self, name: str) -> str:
        return f"ConfigMap {self._namespace}/{name}"

    def get(self, name: str) -> ConfigMap | None:
        try:
            return _parse(self._read(partial(self._request, "GET", name), "get"))
        except ApiException as error:
            if error.status == 404:
                return None
            raise

    def list(self, labels: Mapping[str, str]) -> Iterator[ConfigMap]:
        """Page by page, so that neither the server nor we hold ten thousand at once."""
        selector = ",".join(f"{key}={value}" for key, value in labels.items())
        token: str | None = None
        seen: set[str] = set()
        while True:
            try:
                page = self._read(partial(self._page, selector, token), "list")
            except ApiException as error:
                if error.status != _EXPIRED:
                    raise
                token = None  # the list took longer than the server keeps its state: begin anew, past what was seen
                continue
            for found in map(_parse, page.get("items") or ()):
                if found.name not in seen:
                    seen.add(found.name)
                    yield found
            token = page["metadata"].get("continue")
            if not token:
                return

    def _page(self, selector: str, token: str | None) -> Json:
        query = {"labelSelector": selector, "limit": str(PAGE), **({"continue": token} if token else {})}
        return self._request("GET", query=query)

    def require_namespace(self) -> None:
        """Raises where the Kubernetes namespace does not exist: the API lists no objects there, without an error.

        Who may not look at namespaces is spared: a Role in a namespace is enough for everything else.
        """
        try:
            self._read(partial(self._send, "GET", f"/api/v1/namespaces/{self._namespace}"), "get")
        except CatalogAccessError:
            return
        except ApiException as error:
            if error.status == 404:
                raise self._no_namespace() from error
            raise

    def create(self, wanted: ConfigMap) -> None:
        """`LostRace` if there is one of that name."""
        body = {"metadata": {"name": wanted.name, "labels": dict(wanted.labels)}, "data": dict(wanted.data)}
        self._write("create", partial(self._request, "POST", body=body))

    def replace(self, known: ConfigMap, data: Mapping[str, str]) -> None:
        """`LostRace` unless the object is still at the version of `known`."""
        body = {"metadata": known.metadata, "data": dict(data)}
        self._write("update", partial(self._request, "PUT", known.name, body=body))

    def delete(self, known: ConfigMap) -> None:
        """`LostRace` unless the object is still at the version of `known`; `DeletionPendingError` if it stays."""
        conditions = {"uid": known.metadata["uid"], "resourceVersion": known.version}
        answer = self._write("delete", partial(self._request, "DELETE", known.name, body={"preconditions": conditions}))
        left = answer.get("metadata") or {}
        if left.get("deletionTimestamp"):
            raise DeletionPendingError(
                f"{self.describe(known.name)} is to be deleted, but stays as long as it has the finalizers "
                f"{', '.join(left.get('finalizers') or ())}: let their owners remove them, or remove them by hand if "
                "those are gone"
            )

    def _request(
        self, method: str, name: str = "", *, query: Mapping[str, str] | None = None, body: Json | None = None
    ) -> Json:
        path = f"/api/v1/namespaces/{self._namespace}/configmaps{f'/{name}' if name else ''}"
        return self._send(method, path, query=query, body=body)

    def _send(
        self, method: str, path: str, *, query: Mapping[str, str] | None = None, body: Json | None = None
    ) -> Json:
        headers = {"Accept": "application/json", **({} if body is None else {"Content-Type": "application/json"})}
        parts = self._api.param_serialize(
            method, path, None, list((query or {}).items()), headers, body, auth_settings=["BearerToken"]
        )
        answer = self._api.call_api(*parts, _request_timeout=self._timeout)
        content = answer.read()
        if not 200 <= answer.status < 300:
            raise ApiException(status=answer.status, reason=_message(content) or answer.reason)
        try:
            return dict(json.loads(content))
        except ValueError:  # from something in between
            raise ApiException(status=0, reason="the answer is no JSON") from None

    def _read(self, call: Callable[[], Json], verb: str) -> Json:
        backoff = Backoff(READS)
        while True:
            try:
                return call()
            except ApiException as error:
                self._refuse_if_forbidden(error, verb)
                if error.status not in _PASSING and error.status < 500:
                    raise
                cause: Exception = error
            except _TRANSPORT as error:
                cause = error
            if not backoff.wait():
                raise CatalogUnavailableError(
                    f"the Kubernetes API did not answer ({verb} configmaps in namespace {self._namespace}) in "
                    f"{backoff.attempts} attempts: {_reason(cause)}"
                ) from cause

    def _write(self, verb: str, call: Callable[[], Json]) -> Json:
        try:
            return call()
        except ApiException as error:
            self._refuse_if_forbidden(error, verb)
            raise self._outcome(error, verb) from error
        except _NEVER_SENT as error:
            raise NotApplied(f"{verb} configmap: {_reason(error)}") from error
        except _TRANSPORT as error:
            raise OutcomeUnknown(f"{verb} configmap: {_reason(error)}") from error

    def _outcome(self, error: ApiException, verb: str) -> Exception:
        what = f"{verb} configmap: {error.status} {_reason(error)}"
        if error.status == 404 and verb == "create":
            return self._no_namespace()
        if error.status in (404, 409):
            return LostRace(what)
        if error.status == 429:  # flow control answers before anything is done
            return NotApplied(what)
        if error.status == 0 or error.status >= 500:  # it may come from in between, or from a storage that timed out
            return OutcomeUnknown(what)
        return CatalogAccessError(f"the Kubernetes API refuses to {what}")

    def _no_namespace(self) -> CatalogAccessError:
        return CatalogAccessError(f"there is no Kubernetes namespace {self._namespace}: create it first")

    def _refuse_if_forbidden(self, error: ApiException, verb: str) -> None:
        if error.status == 401:
            raise CatalogAccessError(
                f"the Kubernetes API does not know who we are (401 on {verb} configmaps in namespace "
                f"{self._namespace}): renew the kubeconfig's or the service account's token"
            ) from error
        if error.status == 403:
            # A quota, a namespace that is going and a webhook are answered alike; only the words tell what helps.
            by_rbac = f" cannot {verb} resource " in _reason(error)
            advice = f"grant it by a Role in that namespace ({_reason(error)})" if by_rbac else _reason(error)
            raise CatalogAccessError(
                f"the Kubernetes API forbids the verb {verb} on configmaps in namespace {self._namespace}: {advice}"
            ) from error


def _message(content: bytes) -> str | None:
    """What the server says about a refusal, in the `Status` that is its answer; None if something else answered."""
    try:
        status = json.loads(content)
    except ValueError:
        return None
    message = status.get("message") if isinstance(status, dict) else None
    return message if isinstance(message, str) else None


def _reason(error: Exception) -> str:
    if isinstance(error, ApiException):
        return str(error.reason or "").splitlines()[0] if error.reason else "no reason given"
    return f"{type(error).__name__}: {error}"


def _parse(item: Json) -> ConfigMap:
    metadata = item["metadata"]
    return ConfigMap(
        name=metadata["name"],
        data=item.get("data") or {},
        labels=metadata.get("labels") or {},
        version=metadata["resourceVersion"],
        metadata=metadata,
    )
