"""The rim: every call that the operator makes to the API server, and nothing else.

Objects come and go as plain JSON; callers parse them into values. A create that finds the object there already is no
error, because names are functions of their cause.
"""

import base64
import json
from collections.abc import Sequence
from typing import Any

from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

from tablewright.api.objects import GROUP, VERSION, KubernetesObject

FIELD_MANAGER = "tablewright"
_APPLY = "application/apply-patch+yaml"


class Cluster:
    def __init__(self, kubeconfig: str | None = None) -> None:
        self._api = _connect(kubeconfig)
        self._custom = client.CustomObjectsApi(self._api)
        self._core = client.CoreV1Api(self._api)
        self._batch = client.BatchV1Api(self._api)

    def create_run(self, run: KubernetesObject) -> None:
        _ignore(
            409,
            lambda: self._custom.create_namespaced_custom_object(
                GROUP, VERSION, run["metadata"]["namespace"], "maintenanceruns", run, field_manager=FIELD_MANAGER
            ),
        )

    def delete_run(self, namespace: str, name: str) -> None:
        """With what it owns: its Job, and the Job's pods."""
        _ignore(
            404,
            lambda: self._custom.delete_namespaced_custom_object(
                GROUP, VERSION, namespace, "maintenanceruns", name, propagation_policy="Background"
            ),
        )

    def set_finalizers(
        self, plural: str, namespace: str, name: str, finalizers: Sequence[str], *, resource_version: str
    ) -> None:
        """On the version that was seen: somebody else's finalizer must not be lost to ours."""
        metadata = {"finalizers": list(finalizers), "resourceVersion": resource_version}
        _ignore(
            404,
            lambda: self._custom.patch_namespaced_custom_object(
                GROUP,
                VERSION,
                namespace,
                plural,
                name,
                {"metadata": metadata},
                field_manager=FIELD_MANAGER,
                _content_type="application/merge-patch+json",
            ),
        )

    def create_job(self, job: KubernetesObject) -> None:
        _ignore(
            409,
            lambda: self._batch.create_namespaced_job(
                job["metadata"]["namespace"], job, field_manager=FIELD_MANAGER, _preload_content=False
            ),
        )

    def read_job(self, namespace: str, name: str) -> KubernetesObject | None:
        return _json(lambda: self._batch.read_namespaced_job(name, namespace, _preload_content=False))

    def pods_of_job(self, namespace: str, job: str) -> list[KubernetesObject]:
        selector = f"batch.kubernetes.io/job-name={job}"
        listed = _json(
            lambda: self._core.list_namespaced_pod(namespace, label_selector=selector, _preload_content=False)
        )
        return list((listed or {}).get("items") or [])

    def read_secret(self, namespace: str, name: str) -> dict[str, str] | None:
        secret = _json(lambda: self._core.read_namespaced_secret(name, namespace, _preload_content=False))
        if secret is None:
            return None
        return {key: base64.b64decode(value).decode() for key, value in (secret.get("data") or {}).items()}

    def apply_status(self, plural: str, kind: str, namespace: str, name: str, status: dict[str, Any]) -> None:
        """Server-side apply of what the operator owns of a status. A deleted object is no error."""
        body = {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": kind,
            "metadata": {"name": name, "namespace": namespace},
            "status": status,
        }
        _ignore(
            404,
            lambda: self._custom.patch_namespaced_custom_object_status(
                GROUP,
                VERSION,
                namespace,
                plural,
                name,
                body,
                field_manager=FIELD_MANAGER,
                force=True,
                _content_type=_APPLY,
            ),
        )


def _connect(kubeconfig: str | None) -> client.ApiClient:
    if kubeconfig is not None:
        return config.new_client_from_config(kubeconfig)
    configuration = client.Configuration()
    try:
        config.load_incluster_config(configuration)
    except config.ConfigException:
        return config.new_client_from_config()
    return client.ApiClient(configuration)


def _json(call: Any) -> KubernetesObject | None:
    try:
        return dict(json.loads(call().data))
    except ApiException as error:
        if error.status == 404:
            return None
        raise


def _ignore(status: int, call: Any) -> None:
    try:
        call()
    except ApiException as error:
        if error.status != status:
            raise
