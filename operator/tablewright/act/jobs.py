"""The Job of a MaintenanceRun, and what it asks of the driver: pure builders."""

import hashlib
import json
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from tableformat.errors import PermanentError
from tableformat.inspection import DEFAULT_TARGET_BYTES, small_below
from tableformat.maintenance.compaction import CompactionOptions, OrderColumn, Strategy
from tableformat.maintenance.job import (
    GIVE_UP_EXIT_CODE,
    CherryPickWork,
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
from tableformat.maintenance.sizing import ExecutorLimits
from tablewright.act.pods import driver_pod, executor_template
from tablewright.api.catalog import TableCatalog
from tablewright.api.jobs import Executors, JobFields
from tablewright.api.objects import KubernetesObject, owner_reference
from tablewright.api.policy import OrderStrategy
from tablewright.api.quantities import memory_bytes
from tablewright.api.run import CherryPick, MaintenanceRun, Operation, Rollback
from tablewright.api.table import ManagedTable
from tablewright.decide.causes import LONGEST_NAME
from tablewright.decide.maintenance import expiry_options
from tablewright.decide.policy import EffectivePolicy
from tablewright.observe.jobs import MADE_WITH_ANNOTATION

RUN_LABEL = "tablewright.dev/run"
TABLE_LABEL = "tablewright.dev/table"
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
COMMIT_EVERY_TASKS = 64  # what is done of a large compaction stays done, whatever becomes of the rest

KILLED_EXIT_CODE = 137  # by SIGKILL: for want of memory, mostly

_SPREAD = (Operation.COMPACT, Operation.DELETE_EXPIRED_ROWS)  # what rewrites data files

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
    logs_as_json: bool = False


def maintenance_job(
    run: MaintenanceRun,
    table: ManagedTable,
    policy: EffectivePolicy,
    catalog: TableCatalog,
) -> MaintenanceJob:
    """What the driver is asked to do. It holds no credentials: the pod's environment supplies them."""
    return MaintenanceJob(
        run_id=run.metadata.uid or run.metadata.name,
        run_name=run.metadata.name,
        catalog=catalog.config({}),
        identifier=table.identifier,
        work=_work(run, table, policy),
        dry_run=run.spec.dry_run,
        small_file_bytes=_small_file_bytes(table, policy),
        executors=_executor_limits(policy.jobs) if _is_spread(run) else None,
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
                    allow_short_min_age=policy.orphan_allow_short_min_age,
                    prefix_mismatch=policy.orphan_prefix_mismatch,
                )
            )
        case Operation.REWRITE_MANIFESTS:
            return ManifestWork()
        case Operation.DELETE_EXPIRED_ROWS:
            return RowRetentionWork(options=_row_retention_options(policy))
        case Operation.ROLLBACK:
            return RollbackWork(options=_rollback_options(run.spec.rollback))
        case Operation.CHERRY_PICK:
            return _cherry_pick(run.spec.cherry_pick)
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
        undo=rollback.undo,
        allow_losing_commits=rollback.allow_losing_commits,
    )


def _cherry_pick(pick: CherryPick | None) -> CherryPickWork:
    if pick is None:
        raise RunNotPossibleError("spec.cherryPick: it is not said which snapshot: create a run that says it")
    return CherryPickWork(snapshot_id=pick.snapshot_id)


def _compaction_options(table: ManagedTable, policy: EffectivePolicy) -> CompactionOptions:
    return CompactionOptions(
        target_file_bytes=_target_file_bytes(table, policy),
        min_input_files=policy.min_input_files,
        delete_ratio_percent=policy.delete_ratio_percent,
        max_bytes_per_run=policy.max_bytes_per_run,
        use_current_spec=policy.use_current_spec,
        strategy=_STRATEGIES[table.spec.layout.order.strategy],
        order=tuple(OrderColumn(name=column) for column in table.spec.layout.order.columns),
        cool_down_seconds=int(policy.cool_down.total_seconds()),
        commit_every_tasks=COMMIT_EVERY_TASKS,
    )


def _milliseconds(length: timedelta) -> int:
    return int(length.total_seconds() * 1000)


def _target_file_bytes(table: ManagedTable, policy: EffectivePolicy) -> int:
    """What the table's last look found to hold: a run is only ever started after one."""
    health = table.status.health
    return health.target_file_bytes if health else policy.target_file_bytes or DEFAULT_TARGET_BYTES


def _small_file_bytes(table: ManagedTable, policy: EffectivePolicy) -> int:
    return small_below(_target_file_bytes(table, policy))


def _executor_limits(fields: JobFields) -> ExecutorLimits | None:
    """None where a queue admits the Job: it would know nothing of what the executors take."""
    match fields.executors:
        case Executors(max=int(most), cores=int(cores), cpu=cpu, memory=str(memory), bytes_each=int(each)) if most > 0:
            given = memory_bytes(memory)
            limits = ExecutorLimits(most=most, cores=cores, cpu=cpu, memory_bytes=given, bytes_each=each)
            return limits if fields.queue_name is None else None
        case _:
            return None


def build_job(
    run: MaintenanceRun,
    table: ManagedTable,
    policy: EffectivePolicy,
    catalog: TableCatalog,
    settings: JobSettings,
    *,
    out_of_memory: int = 0,
) -> KubernetesObject:
    """`out_of_memory`: how many runs of this kind in a row ended for want of memory before this one."""
    if len(run.metadata.name) > LONGEST_NAME:
        message = (
            f"metadata.name: a run's Job has its name, which may have {LONGEST_NAME} characters: choose a shorter one"
        )
        raise RunNotPossibleError(message)
    job = maintenance_job(run, table, policy, catalog)
    # What earlier runs came to is no word of anybody's: it says nothing of whether the Job is as declared.
    fingerprint = _fingerprint(_job(run, table, policy, catalog, settings, job))
    made = _job(run, table, policy, catalog, settings, job.model_copy(update={"out_of_memory": out_of_memory}))
    metadata = made["metadata"]
    annotations = {**metadata.get("annotations", {}), MADE_WITH_ANNOTATION: fingerprint}
    return {**made, "metadata": {**metadata, "annotations": annotations}}


def _fingerprint(job: KubernetesObject) -> str:
    return hashlib.sha256(json.dumps(job, sort_keys=True).encode()).hexdigest()[:16]


def _job(
    run: MaintenanceRun,
    table: ManagedTable,
    policy: EffectivePolicy,
    catalog: TableCatalog,
    settings: JobSettings,
    job: MaintenanceJob,
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
    where = {"image": settings.image, "account": settings.service_account_name}
    template = None if job.executors is None else executor_template(labels, fields, catalog, **where)
    pod = driver_pod(
        job.model_dump_json(), fields, catalog, executors=template, logs_as_json=settings.logs_as_json, **where
    )
    spec: dict[str, Any] = {
        "backoffLimit": settings.backoff_limit,
        "ttlSecondsAfterFinished": settings.seconds_kept_after_end,
        "podFailurePolicy": {"rules": _failure_rules(scales=_is_spread(run))},
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


def _is_spread(run: MaintenanceRun) -> bool:
    return run.spec.operation in _SPREAD and not run.spec.dry_run


def _failure_rules(*, scales: bool) -> list[dict[str, Any]]:
    """`scales`: whether an attempt after want of memory works in another way than the last one."""

    def fail_on(code: int) -> dict[str, Any]:
        return {"action": "FailJob", "onExitCodes": {"containerName": "driver", "operator": "In", "values": [code]}}

    evicted = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    # The first rule that fits holds, and whoever is evicted may be killed for it, too.
    return [fail_on(GIVE_UP_EXIT_CODE), evicted, *(() if scales else (fail_on(KILLED_EXIT_CODE),))]


def label_value(name: str) -> str:
    """A label's value may have 63 characters; an object's name 253."""
    return name[:63].rstrip("-._")
