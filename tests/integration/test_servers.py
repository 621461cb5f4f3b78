"""The servers that the suites stand on are real: each refuses what a real one refuses."""

import uuid
from pathlib import Path

import pytest
from botocore.exceptions import ClientError
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

from tests.servers.dynamodb import DynamoDbAccess
from tests.servers.kubelet import Ending, Kubelet, Pod
from tests.servers.kubernetes import KubernetesAccess
from tests.servers.s3 import S3Access
from tests.servers.spark import LocalSpark
from tests.waiting import eventually


def test_a_stale_resource_version_is_refused(kube_api: client.ApiClient, kube_namespace: str) -> None:
    core = client.CoreV1Api(kube_api)
    first = core.create_namespaced_config_map(kube_namespace, {"metadata": {"name": "pointer"}, "data": {"at": "1"}})
    first.data = {"at": "2"}
    core.replace_namespaced_config_map("pointer", kube_namespace, first)
    first.data = {"at": "3"}
    with pytest.raises(ApiException) as refusal:
        core.replace_namespaced_config_map("pointer", kube_namespace, first)
    assert refusal.value.status == 409
    assert core.read_namespaced_config_map("pointer", kube_namespace).data == {"at": "2"}


def test_a_call_that_rbac_forbids_is_refused(
    kubernetes: KubernetesAccess, kube_api: client.ApiClient, kube_namespace: str, tmp_path: Path
) -> None:
    core = client.CoreV1Api(kube_api)
    core.create_namespaced_service_account(kube_namespace, {"metadata": {"name": "nobody"}})
    token = core.create_namespaced_service_account_token("nobody", kube_namespace, {"spec": {}}).status.token
    kubeconfig = kubernetes.kubeconfig_with_token(token, tmp_path / "kubeconfig.json")
    with config.new_client_from_config(str(kubeconfig)) as api, pytest.raises(ApiException) as refusal:
        client.CoreV1Api(api).list_namespaced_secret(kube_namespace)
    assert refusal.value.status == 403


def test_a_job_whose_pod_fails_is_retried_by_the_real_controller(
    kube_api: client.ApiClient, kube_namespace: str
) -> None:
    ran: list[str] = []

    def fail_once(pod: Pod) -> Ending:
        ran.append(pod.metadata.name)
        return Ending(1 if len(ran) == 1 else 0)

    batch = client.BatchV1Api(kube_api)
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}]}}
    with Kubelet(kube_api, kube_namespace, fail_once):
        batch.create_namespaced_job(
            kube_namespace, {"metadata": {"name": "twice"}, "spec": {"backoffLimit": 1, "template": template}}
        )
        status = eventually(
            lambda: batch.read_namespaced_job("twice", kube_namespace).status,
            lambda status: status.succeeded == 1,
            seconds=60,
        )
    assert status.failed == 1
    assert len(set(ran)) == 2


def test_a_conditional_put_to_s3_is_refused(s3: S3Access, s3_bucket: str) -> None:
    storage = s3.client()
    storage.put_object(Bucket=s3_bucket, Key="metadata.json", Body=b"first", IfNoneMatch="*")
    with pytest.raises(ClientError) as refusal:
        storage.put_object(Bucket=s3_bucket, Key="metadata.json", Body=b"second", IfNoneMatch="*")
    assert refusal.value.response["ResponseMetadata"]["HTTPStatusCode"] == 412
    assert storage.get_object(Bucket=s3_bucket, Key="metadata.json")["Body"].read() == b"first"


def test_a_conditional_write_to_dynamodb_is_refused(dynamodb: DynamoDbAccess) -> None:
    database, table = dynamodb.client(), f"table-{uuid.uuid4().hex}"
    database.create_table(
        TableName=table,
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    try:
        database.put_item(TableName=table, Item={"id": {"S": "t"}, "v": {"S": "1"}})
        with pytest.raises(database.exceptions.ConditionalCheckFailedException):
            database.put_item(
                TableName=table,
                Item={"id": {"S": "t"}, "v": {"S": "3"}},
                ConditionExpression="v = :expected",
                ExpressionAttributeValues={":expected": {"S": "2"}},
            )
        assert database.get_item(TableName=table, Key={"id": {"S": "t"}})["Item"]["v"] == {"S": "1"}
    finally:
        database.delete_table(TableName=table)


@pytest.mark.xdist_group("spark")
def test_a_spark_job_runs_python_tasks(spark: LocalSpark) -> None:
    numbers = spark.session.sparkContext.parallelize(range(100), 4)
    assert sorted(numbers.map(lambda number: number * number).collect()) == [n * n for n in range(100)]
