"""The Job of a MaintenanceRun: a pure builder. The pod meets the `restricted` Pod Security level."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from tableformat.errors import PermanentError
from tableformat.maintenance.compaction import CompactionOptions, OrderColumn, Strategy
from tableformat.maintenance.job import (
    CompactWork,
    ExpireWork,
    InspectWork,
    MaintenanceJob,
    ManifestWork,
    OrphanWork,
    RollbackWork,
    RowRetentionWork,
    RunReference,
    Work,
)
from tableformat.maintenance.orphans import OrphanOptions
from tableformat.maintenance.retention import RowRetentionOptions
from tableformat.maintenance.rollback import RollbackOptions
from tablewright.api.catalog import (
    ACCESS_KEY,
    REST_CREDENTIALS,
    SECRET_KEY,
    SESSION_TOKEN,
    SecretReference,
    TableCatalog,
)
from tablewright.api.jobs import JobFields, Quantities, Resources
from tablewright.api.objects import KubernetesObject, owner_reference
from tablewright.api.policy import DEFAULT_TARGET_FILE_BYTES, OrderStrategy
from tablewright.api.quantities import memory_bytes, millicores
from tablewright.api.run import MaintenanceRun, Operation, Rollback
from tablewright.api.table import ManagedTable
from tablewright.decide.maintenance import expiry_options
from tablewright.decide.policy import EffectivePolicy

RUN_LABEL = "tablewright.dev/run"
TABLE_LABEL = "tablewright.dev/table"
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
BAD_CONFIGURATION_EXIT_CODE = 2  # the driver's word that trying again is of no use

_STRATEGIES = {
    OrderStrategy.NONE: Strategy.BIN_PACK,
    OrderStrategy.SORT: Strategy.SORT,
    OrderStrategy.Z_ORDER: Strategy.Z_ORDER,
}


class RunNotPossibleError(PermanentError):
    """The run asks for something that nothing says how to do; the message names the field."""


@dataclass(frozen=True)
class JobSettings:
    """The operator's own defaults for jobs."""

    image: str
    service_account_name: str = "tablewright-jobs"
    backoff_limit: int = 2
    seconds_kept_after_end: int = 24 * 3600


def maintenance_job(
    run: MaintenanceRun, table: ManagedTable, policy: EffectivePolicy, catalog: TableCatalog
) -> MaintenanceJob:
    """What the driver is asked to do. It holds no credentials: the pod's environment supplies them."""
    return MaintenanceJob(
        run_id=run.metadata.uid or run.metadata.name,
        catalog=catalog.config({}),
        identifier=table.identifier,
        work=_work(run, table, policy),
        dry_run=run.spec.dry_run,
        small_file_bytes=_small_file_bytes(table, policy),
        run=RunReference(namespace=run.metadata.namespace, name=run.metadata.name),
    )


def _work(run: MaintenanceRun, table: ManagedTable, policy: EffectivePolicy) -> Work:
    match run.spec.operation:
        case Operation.COMPACT:
            return CompactWork(options=_compaction_options(table, policy))
        case Operation.EXPIRE_SNAPSHOTS:
            return ExpireWork(options=expiry_options(policy))
        case Operation.REMOVE_ORPHAN_FILES:
            return OrphanWork(
                options=OrphanOptions(
                    action=policy.orphan_action,
                    min_age_ms=_milliseconds(policy.orphan_min_age),
                    grace_ms=_milliseconds(policy.orphan_grace),
                )
            )
        case Operation.REWRITE_MANIFESTS:
            return ManifestWork()
        case Operation.DELETE_EXPIRED_ROWS:
            return RowRetentionWork(options=_row_retention_options(policy))
        case Operation.ROLLBACK:
            return RollbackWork(options=_rollback_options(run.spec.rollback))
        case Operation.INSPECT:
            return InspectWork(small_file_bytes=_small_file_bytes(table, policy))


def _row_retention_options(policy: EffectivePolicy) -> RowRetentionOptions:
    rows = policy.row_retention
    if rows is None:
        raise RunNotPossibleError("retention.rows: no level gives both column and maxAge: declare them on the table")
    return RowRetentionOptions(column=rows.column, max_age_ms=_milliseconds(rows.max_age))


def _rollback_options(rollback: Rollback | None) -> RollbackOptions:
    if rollback is None:
        raise RunNotPossibleError("spec.rollback: it is not said where to go back to: create a run that says it")
    return RollbackOptions(
        snapshot_id=rollback.snapshot_id,
        as_of_ms=None if rollback.as_of is None else int(rollback.as_of.timestamp() * 1000),
        tag=rollback.tag,
        before_run=rollback.before_run,
        allow_losing_commits=rollback.allow_losing_commits,
    )


def _compaction_options(table: ManagedTable, policy: EffectivePolicy) -> CompactionOptions:
    return CompactionOptions(
        target_file_bytes=_target_file_bytes(table, policy),
        min_input_files=policy.min_input_files,
        delete_ratio_percent=policy.delete_ratio_percent,
        max_bytes_per_run=policy.max_bytes_per_run,
        strategy=_STRATEGIES[table.spec.layout.order.strategy],
        order=tuple(OrderColumn(name=column) for column in table.spec.layout.order.columns),
        cool_down_seconds=int(policy.cool_down.total_seconds()),
    )


def _milliseconds(length: timedelta) -> int:
    return int(length.total_seconds() * 1000)


def _target_file_bytes(table: ManagedTable, policy: EffectivePolicy) -> int:
    """What the table's last look found to hold: a run is only ever started after one."""
    health = table.status.health
    return health.target_file_bytes if health else policy.target_file_bytes or DEFAULT_TARGET_FILE_BYTES


def _small_file_bytes(table: ManagedTable, policy: EffectivePolicy) -> int:
    """Below three quarters of the target a file counts as small, as in Iceberg's own procedures."""
    return _target_file_bytes(table, policy) * 3 // 4


def build_job(
    run: MaintenanceRun, table: ManagedTable, policy: EffectivePolicy, catalog: TableCatalog, settings: JobSettings
) -> KubernetesObject:
    fields = policy.jobs
    labels = {
        **(fields.labels or {}),
        "app.kubernetes.io/name": "tablewright-job",
        "app.kubernetes.io/managed-by": "tablewright",
        RUN_LABEL: label_value(run.metadata.name),
        TABLE_LABEL: label_value(table.metadata.name),
    }
    annotations = {"annotations": fields.annotations} if fields.annotations else {}
    queue = {} if fields.queue_name is None else {QUEUE_LABEL: fields.queue_name}
    pod = _pod(maintenance_job(run, table, policy, catalog), fields, catalog, settings)
    spec: dict[str, Any] = {
        "backoffLimit": settings.backoff_limit,
        "ttlSecondsAfterFinished": settings.seconds_kept_after_end,
        "podFailurePolicy": {"rules": _failure_rules()},
        "template": {"metadata": {"labels": labels, **annotations}, "spec": pod},
    }
    if fields.deadline is not None:
        spec["activeDeadlineSeconds"] = int(fields.deadline.total_seconds())
    if queue:
        spec["suspend"] = True  # until Kueue admits it
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": run.metadata.name,
            "namespace": run.metadata.namespace,
            "labels": labels | queue,
            **annotations,
            "ownerReferences": [owner_reference(run)],
        },
        "spec": spec,
    }


def _failure_rules() -> list[dict[str, Any]]:
    codes = {"operator": "In", "values": [BAD_CONFIGURATION_EXIT_CODE]}
    return [
        {"action": "FailJob", "onExitCodes": {"containerName": "driver", **codes}},
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
    ]


def _pod(job: MaintenanceJob, fields: JobFields, catalog: TableCatalog, settings: JobSettings) -> dict[str, Any]:
    return {
        "restartPolicy": "Never",
        "serviceAccountName": fields.service_account_name or settings.service_account_name,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 10001,
            "runAsGroup": 10001,
            "fsGroup": 10001,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        **_placement(fields),
        "containers": [
            {
                "name": "driver",
                "image": fields.image or settings.image,
                "args": ["python", "-m", "tablejobs"],  # the image's entry point reaps what it leaves
                "env": _environment(job, fields, catalog),
                "resources": _resources(fields.resources),
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "readOnlyRootFilesystem": True,
                    "capabilities": {"drop": ["ALL"]},
                },
                "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],  # noqa: S108 - an emptyDir of the pod's own
            }
        ],
        "volumes": [{"name": "tmp", "emptyDir": {}}],
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
        "tolerations": [toleration.to_json() for toleration in fields.tolerations or ()],
        "priorityClassName": fields.priority_class_name,
    }
    return {name: value for name, value in placement.items() if value}


def _environment(job: MaintenanceJob, fields: JobFields, catalog: TableCatalog) -> list[dict[str, Any]]:
    """What people declare first: of two variables of one name the later one holds, and that is ours."""
    variables: list[dict[str, Any]] = [variable.to_json() for variable in fields.env or ()]
    variables.append({"name": "TABLEWRIGHT_JOB", "value": job.model_dump_json()})
    secret = catalog.spec.storage.credentials_secret_ref
    if secret is not None:
        for key, optional in ((ACCESS_KEY, False), (SECRET_KEY, False), (SESSION_TOKEN, True)):
            variables.append(_from_secret(key, secret, key, optional=optional))
    rest = catalog.spec.rest
    if rest is not None and rest.credentials_secret_ref is not None:
        # By these names PyIceberg finds the properties of a catalog; it reads _ as -.
        prefix = f"PYICEBERG_CATALOG__{catalog.metadata.name.upper().replace('-', '_')}__"
        for key, name in REST_CREDENTIALS.items():
            variables.append(_from_secret(prefix + name.upper(), rest.credentials_secret_ref, key, optional=True))
    return variables


def _from_secret(name: str, secret: SecretReference, key: str, *, optional: bool) -> dict[str, Any]:
    reference = {"name": secret.name, "key": key, "optional": optional}
    return {"name": name, "valueFrom": {"secretKeyRef": reference}}


def label_value(name: str) -> str:
    """A label's value may have 63 characters; an object's name 253."""
    return name[:63].rstrip("-._")
