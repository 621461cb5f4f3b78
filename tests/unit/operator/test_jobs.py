"""The Job of a run, as a value: what the operation asks of the driver, and what the levels say of how jobs run."""

import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from tableformat.maintenance.sizing import LEAST_EXECUTOR_BYTES
from tablejobs.__main__ import GIVE_UP
from tablewright.act.jobs import JobSettings, RunNotPossibleError, build_job, maintenance_job
from tablewright.api.catalog import TableCatalog
from tablewright.api.jobs import LEAST_EXECUTOR_MEMORY
from tablewright.api.objects import InvalidObjectError, parse
from tablewright.api.quantities import memory_bytes
from tablewright.api.run import MaintenanceRun, Operation
from tablewright.decide.causes import run_name
from tablewright.decide.policy import effective_policy
from tablewright.observe.jobs import MADE_WITH_ANNOTATION
from tests.unit.operator.values import managed_table

SETTINGS = JobSettings(image="jobs:1")


def catalog(name: str = "lake", **spec: Any) -> TableCatalog:
    whole: dict[str, Any] = {} if "rest" in spec else {"warehouse": "s3://bucket/warehouse"}
    whole |= {} if {"rest", "sql"} & set(spec) else {"configMap": {}}
    return parse(TableCatalog, {"metadata": {"name": name, "namespace": "sales"}, "spec": {**whole, **spec}})


def run(operation: str = "Compact", **spec: Any) -> MaintenanceRun:
    metadata = {"name": "by-hand", "namespace": "sales", "uid": "run-uid"}
    whole = {"tableRef": {"name": "events"}, "operation": operation, **spec}
    return parse(MaintenanceRun, {"metadata": metadata, "spec": whole})


def work(made: MaintenanceRun, **spec: Any) -> dict[str, Any]:
    table, lake = managed_table(**spec), catalog()
    job = maintenance_job(made, table, effective_policy(table, [], lake), lake)
    assert (job.run_id, job.run_name) == ("run-uid", "by-hand")
    return job.work.model_dump(exclude_none=True)


def built(lake: TableCatalog | None = None, **spec: Any) -> dict[str, Any]:
    table, lake = managed_table(**spec), lake or catalog()
    return build_job(run(), table, effective_policy(table, [], lake), lake, SETTINGS)


def pod(job: dict[str, Any]) -> dict[str, Any]:
    return dict(job["spec"]["template"]["spec"])


def variables(job: dict[str, Any]) -> dict[str, dict[str, Any]]:
    [container] = pod(job)["containers"]
    return {variable["name"]: variable for variable in container["env"]}


@pytest.mark.parametrize(
    "operation",
    ["Compact", "ExpireSnapshots", "RemoveOrphanFiles", "RewriteManifests", "Inspect"],
)
def test_each_operation_has_its_work(operation: str) -> None:
    assert work(run(operation))["operation"] == operation


def test_the_guards_of_an_orphan_run_are_as_the_levels_say() -> None:
    declared = {"minAge": "2h", "allowShortMinAge": True, "prefixMismatch": "Keep"}
    options = work(run("RemoveOrphanFiles"), orphanFiles=declared)["options"]
    assert (options["min_age_ms"], options["allow_short_min_age"]) == (2 * 3_600_000, True)
    assert options["prefix_mismatch"] == "Keep"


def test_files_move_to_the_current_partition_spec_only_where_a_level_says_so() -> None:
    assert work(run("Compact"), compaction={"useCurrentSpec": True})["options"]["use_current_spec"]
    assert not work(run("Compact"))["options"]["use_current_spec"]


def test_rows_go_by_the_column_and_the_age_that_the_levels_give() -> None:
    found = work(run("DeleteExpiredRows"), retention={"rows": {"column": "ts", "maxAge": "400d"}})
    assert found["options"] == {"column": "ts", "max_age_ms": 400 * 86_400_000}


def test_a_run_to_delete_rows_that_nothing_limits_says_which_field_is_missing() -> None:
    with pytest.raises(RunNotPossibleError, match=r"retention\.rows"):
        work(run("DeleteExpiredRows"), retention={"rows": {"column": "ts"}})


@pytest.mark.parametrize(
    ("target", "options"),
    [
        ({"snapshotId": 7}, {"snapshot_id": 7}),
        ({"asOf": "2026-01-01T00:00:00Z"}, {"as_of_ms": int(datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1000)}),
        ({"tag": "audit"}, {"tag": "audit"}),
        ({"beforeRun": "uid"}, {"before_run": "uid"}),
        ({"undo": True}, {"undo": True}),
    ],
)
def test_a_rollback_goes_where_its_run_says(target: dict[str, Any], options: dict[str, Any]) -> None:
    found = work(run("Rollback", rollback=target))["options"]
    assert found == {"undo": False, **options, "allow_losing_commits": False}
    allowed = work(run("Rollback", rollback={**target, "allowLosingCommits": True}))["options"]
    assert allowed["allow_losing_commits"]


@pytest.mark.parametrize("target", [{}, {"undo": False}, {"snapshotId": 7, "tag": "audit"}, {"tag": "a", "undo": True}])
def test_a_rollback_to_no_place_or_to_two_is_refused(target: dict[str, Any]) -> None:
    with pytest.raises(InvalidObjectError, match="exactly one place"):
        run("Rollback", rollback=target)


def test_a_cherry_pick_publishes_the_snapshot_that_its_run_names() -> None:
    assert work(run("CherryPick", cherryPick={"snapshotId": 7})) == {"operation": "CherryPick", "snapshot_id": 7}


def test_a_dry_run_is_one_for_the_driver_too() -> None:
    table, lake = managed_table(), catalog()
    job = maintenance_job(run(dryRun=True), table, effective_policy(table, [], lake), lake)
    assert job.dry_run


def test_without_a_word_from_any_level_the_job_is_the_operators_own() -> None:
    job = built()
    assert "suspend" not in job["spec"]
    assert "activeDeadlineSeconds" not in job["spec"]
    [container] = pod(job)["containers"]
    assert container["image"] == "jobs:1"
    assert container["resources"] == {
        "requests": {"cpu": "500m", "memory": "2Gi"},
        "limits": {"memory": "4Gi"},
    }
    assert not {"nodeSelector", "tolerations", "priorityClassName"} & pod(job).keys()
    assert pod(job)["serviceAccountName"] == "tablewright-jobs"


def test_the_whole_job_but_for_what_the_driver_is_told() -> None:
    """By value: what of it is lost shows nowhere else until a pod fails, or a namespace takes none."""
    job = built()
    labels = {
        "app.kubernetes.io/name": "tablewright-job",
        "app.kubernetes.io/managed-by": "tablewright",
        "tablewright.dev/run": "by-hand",
        "tablewright.dev/table": "events",
    }
    spec = job.pop("spec")
    assert re.fullmatch("[0-9a-f]{16}", job["metadata"].pop("annotations").pop(MADE_WITH_ANNOTATION))
    assert job == {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "by-hand",
            "namespace": "sales",
            "labels": labels,
            "ownerReferences": [
                {
                    "apiVersion": "tablewright.dev/v1alpha1",
                    "kind": "MaintenanceRun",
                    "name": "by-hand",
                    "uid": "run-uid",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
    }
    template = spec.pop("template")
    assert spec == {
        "backoffLimit": 2,
        "ttlSecondsAfterFinished": 86_400,
        "podFailurePolicy": {
            "rules": [
                {
                    "action": "FailJob",
                    "onExitCodes": {"containerName": "driver", "operator": "In", "values": [GIVE_UP]},
                },
                {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
            ]
        },
    }
    assert template["metadata"] == {"labels": labels}
    [container] = template["spec"].pop("containers")
    assert template["spec"] == {
        "restartPolicy": "Never",
        "serviceAccountName": "tablewright-jobs",
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 10001,
            "runAsGroup": 10001,
            "fsGroup": 10001,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumes": [{"name": "tmp", "emptyDir": {}}],
    }
    assert {variable["name"] for variable in container.pop("env")} == {
        *["TABLEWRIGHT_JOB", "TABLEWRIGHT_EXECUTOR_POD"],
        *["TABLEWRIGHT_POD_NAME", "TABLEWRIGHT_POD_NAMESPACE", "TABLEWRIGHT_POD_IP"],
    }
    assert container == {
        "name": "driver",
        "image": "jobs:1",
        "args": ["python", "-m", "tablejobs"],
        "resources": {"requests": {"cpu": "500m", "memory": "2Gi"}, "limits": {"memory": "4Gi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
    }


def test_what_the_levels_say_of_jobs_is_in_the_job_field_by_field() -> None:
    toleration = {"key": "batch", "operator": "Equal", "value": "yes", "effect": "NoSchedule"}
    lake = catalog(jobs={"image": "catalog:2", "serviceAccountName": "lake-jobs", "deadline": "2h"})
    job = built(
        lake,
        jobs={
            "image": "table:3",
            "priorityClassName": "batch",
            "nodeSelector": {"disk": "fast"},
            "tolerations": [toleration],
            "labels": {"team": "sales"},
            "annotations": {"example.com/owner": "anyone at all"},
            "env": [{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}],
            "resources": {"requests": {"cpu": "2"}, "limits": {"memory": "8Gi"}},
        },
    )
    [container] = pod(job)["containers"]
    assert container["image"] == "table:3"
    assert pod(job)["serviceAccountName"] == "lake-jobs"
    assert job["spec"]["activeDeadlineSeconds"] == 7200
    assert pod(job)["priorityClassName"] == "batch"
    assert pod(job)["nodeSelector"] == {"disk": "fast"}
    assert pod(job)["tolerations"] == [toleration]
    del job["metadata"]["annotations"][MADE_WITH_ANNOTATION]
    for metadata in (job["metadata"], job["spec"]["template"]["metadata"]):
        assert metadata["labels"]["team"] == "sales"
        assert metadata["annotations"] == {"example.com/owner": "anyone at all"}
    assert variables(job)["HTTPS_PROXY"]["value"] == "http://proxy:3128"
    assert container["resources"] == {"requests": {"cpu": "2", "memory": "2Gi"}, "limits": {"memory": "8Gi"}}


def test_a_request_above_another_levels_limit_raises_the_limit() -> None:
    """Kubernetes takes no Job whose limit is below its request."""
    [container] = pod(built(jobs={"resources": {"requests": {"memory": "6144Mi"}, "limits": {"cpu": "100m"}}}))[
        "containers"
    ]
    assert container["resources"]["limits"] == {"cpu": "500m", "memory": "6144Mi"}


def test_a_queue_gets_the_job_suspended_and_labelled() -> None:
    job = built(jobs={"queueName": "lakehouse"})
    assert job["spec"]["suspend"]
    assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "lakehouse"


PASSWORD = {"name": "PGPASSWORD", "valueFrom": {"secretKeyRef": {"name": "lake-db", "key": "password"}}}


def test_variables_come_from_secrets_and_config_maps_by_reference() -> None:
    zone = {"name": "TZ", "valueFrom": {"configMapKeyRef": {"name": "site", "key": "zone"}}}
    token = {"name": "PROXY_TOKEN", "valueFrom": {"secretKeyRef": {"name": "proxy", "key": "token"}}}
    job = built(jobs={"env": [zone, token], "executors": {"max": 2}})
    executor = json.loads(variables(job)["TABLEWRIGHT_EXECUTOR_POD"]["value"])["spec"]["containers"][0]
    for found in (variables(job), {each["name"]: each for each in executor["env"]}):
        assert (found["TZ"], found["PROXY_TOKEN"]) == (zone, token)


def test_driver_gets_the_database_password_though_the_table_has_variables_of_its_own_and_executors_do_not() -> None:
    sql = {"uri": "postgresql+psycopg://me@host/db"}
    lake = catalog(sql=sql, jobs={"env": [PASSWORD]})
    for own in ({}, {"env": [{"name": "TZ", "value": "UTC"}]}):
        job = built(lake, jobs={**own, "executors": {"max": 2}})
        [container] = pod(job)["containers"]
        assert [each for each in container["env"] if each["name"] == "PGPASSWORD"] == [PASSWORD]
        executor = json.loads(variables(job)["TABLEWRIGHT_EXECUTOR_POD"]["value"])["spec"]["containers"][0]
        assert "PGPASSWORD" not in {each["name"] for each in executor["env"]}
        assert "password" not in variables(job)["TABLEWRIGHT_JOB"]["value"]


@pytest.mark.parametrize(
    "jobs",
    [
        {"labels": {"tablewright.dev/run": "mine"}},
        {"annotations": {"app.kubernetes.io/name": "mine"}},
        {"env": [{"name": "TABLEWRIGHT_JOB", "value": "{}"}]},
        {"env": [{"name": "TZ"}]},
        {"env": [{"name": "TZ", "value": "UTC", "valueFrom": PASSWORD["valueFrom"]}]},
        {"env": [{"name": "TZ", "valueFrom": {}}]},
        {"env": [{"name": "TZ", "valueFrom": {"secretKeyRef": {"name": "s", "key": "a/b"}}}]},
        {"tolerations": [{"value": "x"}]},
        {"nodeSelector": {"no key": "x"}},
    ],
)
def test_what_the_operator_or_kubernetes_would_not_take_is_refused(jobs: dict[str, Any]) -> None:
    with pytest.raises(InvalidObjectError, match=r"spec\.jobs"):
        managed_table(jobs=jobs)


def test_credentials_come_from_secrets_and_never_from_the_job_itself() -> None:
    lake = catalog(
        "my-lake",
        rest={"uri": "https://catalog:8181", "credentialsSecretRef": {"name": "rest-keys"}},
        storage={"credentialsSecretRef": {"name": "s3-keys"}},
    )
    found = variables(built(lake))
    secrets = {name: v["valueFrom"].get("secretKeyRef") for name, v in found.items() if "valueFrom" in v}
    assert {name: reference["name"] for name, reference in secrets.items() if reference} == {
        "AWS_ACCESS_KEY_ID": "s3-keys",
        "AWS_SECRET_ACCESS_KEY": "s3-keys",
        "AWS_SESSION_TOKEN": "s3-keys",
        "PYICEBERG_CATALOG__MY_LAKE__CREDENTIAL": "rest-keys",
        "PYICEBERG_CATALOG__MY_LAKE__TOKEN": "rest-keys",
    }
    assert json.loads(found["TABLEWRIGHT_JOB"]["value"])["catalog"]["properties"] == {
        "type": "rest",
        "uri": "https://catalog:8181",
    }


def executor_pod(job: dict[str, Any]) -> dict[str, Any]:
    return dict(json.loads(variables(job)["TABLEWRIGHT_EXECUTOR_POD"]["value"]))


def asked(job: dict[str, Any]) -> dict[str, Any]:
    return dict(json.loads(variables(job)["TABLEWRIGHT_JOB"]["value"]))


def test_executors_are_pods_like_the_drivers_without_a_token_and_with_storage_keys_alone() -> None:
    lake = catalog(
        rest={"uri": "https://catalog:8181", "credentialsSecretRef": {"name": "rest-keys"}},
        storage={"credentialsSecretRef": {"name": "s3-keys"}},
    )
    job = built(lake, jobs={"nodeSelector": {"disk": "fast"}, "env": [{"name": "TZ", "value": "UTC"}]})
    template = executor_pod(job)
    assert template["metadata"]["labels"]["tablewright.dev/run"] == "by-hand"
    assert template["spec"]["automountServiceAccountToken"] is False
    for shared in ("securityContext", "nodeSelector", "serviceAccountName", "enableServiceLinks"):
        assert template["spec"][shared] == pod(job)[shared]
    [driver], [executor] = pod(job)["containers"], template["spec"]["containers"]
    assert (executor["name"], executor["image"]) == ("executor", "jobs:1")
    assert executor["securityContext"] == driver["securityContext"]
    assert {variable["name"] for variable in executor["env"]} == {
        *["TZ", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_EC2_METADATA_DISABLED"]
    }
    told = {name: variables(job)[f"TABLEWRIGHT_POD_{name}"]["valueFrom"] for name in ("NAME", "NAMESPACE", "IP")}
    assert told == {
        "NAME": {"fieldRef": {"fieldPath": "metadata.name"}},
        "NAMESPACE": {"fieldRef": {"fieldPath": "metadata.namespace"}},
        "IP": {"fieldRef": {"fieldPath": "status.podIP"}},
    }


def test_the_driver_is_told_how_many_executors_the_levels_allow() -> None:
    lake = catalog(jobs={"executors": {"max": 8, "bytesEach": "2Gi"}})
    limits = asked(built(lake, jobs={"executors": {"cores": 3, "memory": "6Gi"}}))["executors"]
    assert limits == {"most": 8, "cores": 3, "cpu": None, "memory_bytes": 6 << 30, "bytes_each": 2 << 30}
    defaults = asked(built())["executors"]
    assert defaults == {"most": 4, "cores": 2, "cpu": None, "memory_bytes": 4 << 30, "bytes_each": 1 << 30}


def test_executors_ask_the_cluster_for_what_is_declared_of_a_processor() -> None:
    assert asked(built(jobs={"executors": {"cpu": "250m"}}))["executors"]["cpu"] == "250m"


def test_executors_with_less_memory_than_java_itself_takes_cannot_be_declared() -> None:
    assert memory_bytes(LEAST_EXECUTOR_MEMORY) == LEAST_EXECUTOR_BYTES
    with pytest.raises(
        InvalidObjectError, match=r"spec\.jobs\.executors: memory of an executor must be at least 576Mi"
    ):
        built(jobs={"executors": {"memory": "575Mi"}})
    assert asked(built(jobs={"executors": {"memory": "576Mi"}}))["executors"]["memory_bytes"] == LEAST_EXECUTOR_BYTES


def test_volumes_and_affinity_reach_the_pods_of_drivers_and_executors() -> None:
    terms = [{"matchExpressions": [{"key": "disk", "operator": "Exists"}]}]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    volumes = [
        {"name": "ca", "mountPath": "/etc/ca", "readOnly": True, "configMap": {"name": "company-ca"}},
        {"name": "keys", "mountPath": "/etc/keys", "secret": {"secretName": "kerberos"}},
    ]
    job = built(jobs={"affinity": affinity, "volumes": volumes})
    for made, scratch in ((pod(job), "tmp"), (executor_pod(job)["spec"], "spark-local-dir-1")):
        assert made["affinity"] == affinity
        assert made["volumes"] == [
            {"name": scratch, "emptyDir": {}},
            {"name": "ca", "configMap": {"name": "company-ca"}},
            {"name": "keys", "secret": {"secretName": "kerberos"}},
        ]
        assert made["containers"][0]["volumeMounts"] == [
            {"name": scratch, "mountPath": "/tmp"},
            {"name": "ca", "mountPath": "/etc/ca", "readOnly": True},
            {"name": "keys", "mountPath": "/etc/keys"},
        ]


def test_a_volume_at_the_scratch_folder_takes_its_place() -> None:
    volumes = [{"name": "disk", "mountPath": "/tmp", "emptyDir": {"sizeLimit": "100Gi"}}]
    job = built(jobs={"volumes": volumes})
    # by its name Spark takes it for shuffles, too, which would fill the node's disk otherwise
    for made, name in ((pod(job), "disk"), (executor_pod(job)["spec"], "spark-local-dir-1")):
        assert made["volumes"] == [{"name": name, "emptyDir": {"sizeLimit": "100Gi"}}]
        assert made["containers"][0]["volumeMounts"] == [{"name": name, "mountPath": "/tmp"}]


@pytest.mark.parametrize("jobs", [{"executors": {"max": 0}}, {"queueName": "batch"}])
def test_without_executors_the_driver_knows_its_own_pod_alone(jobs: dict[str, Any]) -> None:
    """By which it finds the pods before it, whose end says how much memory it takes."""
    job = built(jobs=jobs)
    assert asked(job)["executors"] is None
    told = {name for name in variables(job) if name.startswith("TABLEWRIGHT")}
    assert told == {"TABLEWRIGHT_JOB", *(f"TABLEWRIGHT_POD_{name}" for name in ("NAME", "NAMESPACE", "IP"))}


@pytest.mark.parametrize("made", [run("ExpireSnapshots"), run(dryRun=True)])
def test_what_rewrites_no_data_files_gets_no_executors(made: MaintenanceRun) -> None:
    table, lake = managed_table(), catalog()
    assert maintenance_job(made, table, effective_policy(table, [], lake), lake).executors is None


def test_a_driver_logs_as_the_operator_does() -> None:
    lake, table = catalog(), managed_table()
    settings = replace(SETTINGS, logs_as_json=True)
    job = build_job(run(), table, effective_policy(table, [], lake), lake, settings)
    assert variables(job)["TABLEWRIGHT_LOG_FORMAT"]["value"] == "json"


def test_kubernetes_reads_no_variable_into_what_a_driver_is_told() -> None:
    """It would take $(TZ) for the variable, and write $ for $$: a table's name may have both."""
    named = {"namespace": "sales", "name": "a$$b$(TZ)"}
    zone = {"name": "WHERE", "value": "in $(TZ)"}
    job = built(identifier=named, jobs={"env": [{"name": "TZ", "value": "UTC"}, zone]})
    assert variables(job)["TABLEWRIGHT_JOB"]["value"].count("a$$$$b$$(TZ)") == 1
    assert '"in $$(TZ)"' in variables(job)["TABLEWRIGHT_EXECUTOR_POD"]["value"], "each executor reads its own"
    assert variables(job)["WHERE"] == zone


@pytest.mark.parametrize("operation", list(Operation))
def test_a_run_of_a_table_with_a_long_name_has_a_name_that_a_job_can_have(operation: Operation) -> None:
    table = managed_table()
    long = table.model_copy(update={"metadata": table.metadata.model_copy(update={"name": "payments" * 30})})
    names = {run_name(long, operation, cause) for cause in ("one", "another")}
    assert [len(name) for name in names] == [63, 63]


def test_a_run_whose_name_no_job_can_have_is_refused_by_the_field() -> None:
    named, table, lake = run(), managed_table(), catalog()
    named = named.model_copy(update={"metadata": named.metadata.model_copy(update={"name": "n" * 64})})
    with pytest.raises(RunNotPossibleError, match=r"metadata\.name: .* choose a shorter one"):
        build_job(named, table, effective_policy(table, [], lake), lake, SETTINGS)


def test_a_job_knows_whether_it_would_be_made_otherwise_by_what_people_declare_alone() -> None:
    table, lake = managed_table(), catalog()

    def fingerprint(lake: TableCatalog = lake, settings: JobSettings = SETTINGS, failed: int = 0, **spec: Any) -> str:
        table = managed_table(**spec)
        job = build_job(run(), table, effective_policy(table, [], lake), lake, settings, out_of_memory=failed)
        return str(job["metadata"]["annotations"][MADE_WITH_ANNOTATION])

    others = {
        fingerprint(jobs={"image": "jobs:2"}),
        fingerprint(jobs={"nodeSelector": {"disk": "fast"}}),
        fingerprint(jobs={"annotations": {"example.com/owner": "anyone"}}),
        fingerprint(catalog(jobs={"serviceAccountName": "lake-jobs"})),
        fingerprint(catalog(storage={"credentialsSecretRef": {"name": "keys"}})),
        fingerprint(settings=replace(SETTINGS, image="jobs:3")),
    }
    assert len(others | {fingerprint()}) == 7
    assert fingerprint(failed=2) == fingerprint(), "history that goes must not make a Job anew"
    told = build_job(run(), table, effective_policy(table, [], lake), lake, SETTINGS, out_of_memory=2)
    assert json.loads(variables(told)["TABLEWRIGHT_JOB"]["value"])["out_of_memory"] == 2
