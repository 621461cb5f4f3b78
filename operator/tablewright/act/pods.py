"""The pods of a run, as values: the driver's, and the template of its executors'. Both meet the `restricted` Pod
Security level, and share everything that a policy says of where and how the jobs' pods run.

Executors read and write files and nothing else, so they get the storage's credentials but no token of the API server.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tableformat.maintenance import driver_environment as variables
from tablewright.api.catalog import (
    ACCESS_KEY,
    REST_CREDENTIALS,
    SECRET_KEY,
    SESSION_TOKEN,
    SecretReference,
    TableCatalog,
)
from tablewright.api.jobs import OWN_VOLUME, JobFields, Quantities, Resources
from tablewright.api.quantities import memory_bytes, millicores

_SCRATCH = "/tmp"  # noqa: S108 - a volume of the pod's own
_LOCAL_FOLDER = "spark-local-dir-1"
_WHERE_THE_DRIVER_RUNS = {
    variables.POD_NAME: "metadata.name",
    variables.POD_NAMESPACE: "metadata.namespace",
    variables.POD_IP: "status.podIP",
}


def driver_pod(
    job: str,
    fields: JobFields,
    catalog: TableCatalog,
    *,
    image: str,
    account: str,
    executors: Mapping[str, Any] | None,
    logs_as_json: bool = False,
) -> dict[str, Any]:
    """`job` is what the driver has to do; `executors` their template, where there may be any."""
    # What people declare comes first: of two variables of one name the later one holds, and that is ours.
    environment = [*_declared(fields, catalog), {"name": variables.JOB, "value": _literal(job)}]
    environment += [
        {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in _WHERE_THE_DRIVER_RUNS.items()
    ]
    if logs_as_json:
        environment.append({"name": variables.LOG_FORMAT, "value": "json"})
    if executors is not None:
        environment.append({"name": variables.EXECUTOR_POD, "value": _literal(json.dumps(executors))})
    container = {
        **_container("driver", fields.image or image, [*environment, *_storage_keys(catalog), *_catalog_keys(catalog)]),
        "args": ["python", "-m", "tablejobs"],  # the image's entry point reaps what it leaves
        "resources": _resources(fields.resources),
    }
    return {"restartPolicy": "Never", **_pod_spec(fields, account, container)}


def executor_template(
    labels: Mapping[str, str], fields: JobFields, catalog: TableCatalog, *, image: str, account: str
) -> dict[str, Any]:
    """Spark adds the rest: the command, the addresses, and the resources, which depend on the plan."""
    environment = [*_declared(fields, catalog), *_storage_keys(catalog)]
    container = _container("executor", fields.image or image, environment)
    annotations = {"annotations": fields.annotations} if fields.annotations else {}
    spec = {**_for_spark(_pod_spec(fields, account, container), fields), "automountServiceAccountToken": False}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": dict(labels), **annotations}, "spec": spec}


def _pod_spec(fields: JobFields, account: str, container: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "serviceAccountName": fields.service_account_name or account,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 10001,
            "runAsGroup": 10001,
            "fsGroup": 10001,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        **_placement(fields),
        "containers": [{**container, "volumeMounts": _mounts(fields)}],
        "volumes": _volumes(fields),
    }


def _for_spark(spec: Mapping[str, Any], fields: JobFields) -> dict[str, Any]:
    """With the scratch volume by a name at which Spark takes it for its shuffles, and adds no empty folder for them."""
    [container] = spec["containers"]
    own = next((volume.name for volume in fields.volumes or () if volume.mount_path == _SCRATCH), OWN_VOLUME)

    def renamed(named: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [each | ({"name": _LOCAL_FOLDER} if each["name"] == own else {}) for each in named]

    containers = [{**container, "volumeMounts": renamed(container["volumeMounts"])}]
    return {**spec, "containers": containers, "volumes": renamed(spec["volumes"])}


def _volumes(fields: JobFields) -> list[dict[str, Any]]:
    declared = [volume.to_json() for volume in fields.volumes or ()]
    sources = [{key: value for key, value in each.items() if key not in ("mountPath", "readOnly")} for each in declared]
    return sources if _brings_scratch(fields) else [{"name": OWN_VOLUME, "emptyDir": {}}, *sources]


def _mounts(fields: JobFields) -> list[dict[str, Any]]:
    mounts: list[dict[str, Any]] = [] if _brings_scratch(fields) else [{"name": OWN_VOLUME, "mountPath": _SCRATCH}]
    for volume in fields.volumes or ():
        read_only = {} if volume.read_only is None else {"readOnly": volume.read_only}
        mounts.append({"name": volume.name, "mountPath": volume.mount_path, **read_only})
    return mounts


def _brings_scratch(fields: JobFields) -> bool:
    return any(volume.mount_path == _SCRATCH for volume in fields.volumes or ())


def _container(name: str, image: str, environment: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {
        "name": name,
        "image": image,
        "env": list(environment),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }


def _resources(declared: Resources) -> dict[str, Any]:
    """With no limit below its request, as Kubernetes wants it: the two may come from different levels."""
    requests, limits = declared.requests, declared.limits
    cpu = _at_least(limits.cpu, requests.cpu, millicores)
    memory = _at_least(limits.memory, requests.memory, memory_bytes)
    return Resources(requests=requests, limits=Quantities(cpu=cpu, memory=memory)).to_json()


def _at_least(limit: str | None, request: str | None, measure: Callable[[str], int]) -> str | None:
    return limit if limit is None or request is None else max(limit, request, key=measure)


def _placement(fields: JobFields) -> dict[str, Any]:
    """Where the pod may run, and before whom."""
    placement: dict[str, Any] = {
        "nodeSelector": fields.node_selector,
        "affinity": fields.affinity,
        "tolerations": [toleration.to_json() for toleration in fields.tolerations or ()],
        "priorityClassName": fields.priority_class_name,
    }
    return {name: value for name, value in placement.items() if value}


def _literal(text: str) -> str:
    """A variable's value as it is: Kubernetes would read $(NAME) as another variable in it, and $$ as one $."""
    return text.replace("$", "$$")


def _declared(fields: JobFields, catalog: TableCatalog) -> list[dict[str, Any]]:
    """All but the password of the catalog's database, which drivers get by themselves and executors do not need."""
    password = catalog.database_password
    return [each.to_json() for each in fields.env or () if password is None or each.name != password.name]


def _storage_keys(catalog: TableCatalog) -> list[dict[str, Any]]:
    secret = catalog.spec.storage.credentials_secret_ref
    if secret is None:
        return []
    keys = [
        _from_secret(key, secret, key, optional=optional)
        for key, optional in ((ACCESS_KEY, False), (SECRET_KEY, False), (SESSION_TOKEN, True))
    ]
    # Who has keys need not ask the machine for them: where none answers, that takes six seconds for each connection.
    return [*keys, {"name": "AWS_EC2_METADATA_DISABLED", "value": "true"}]


def _catalog_keys(catalog: TableCatalog) -> list[dict[str, Any]]:
    if (password := catalog.database_password) is not None:
        return [password.to_json()]  # also where a table or a policy has variables of its own
    rest = catalog.spec.rest
    if rest is None or rest.credentials_secret_ref is None:
        return []
    # By these names PyIceberg finds the properties of a catalog; it reads _ as -.
    prefix = f"PYICEBERG_CATALOG__{catalog.metadata.name.upper().replace('-', '_')}__"
    return [
        _from_secret(prefix + name.upper(), rest.credentials_secret_ref, key, optional=True)
        for key, name in REST_CREDENTIALS.items()
    ]


def _from_secret(name: str, secret: SecretReference, key: str, *, optional: bool) -> dict[str, Any]:
    reference = {"name": secret.name, "key": key, "optional": optional}
    return {"name": name, "valueFrom": {"secretKeyRef": reference}}
