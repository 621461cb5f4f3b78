"""DynamoDB Local, in memory. All credentials and regions see the same tables (`-sharedDb`)."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import boto3

from tests.servers import binaries, toolchain
from tests.servers.process import ServerProcess, accepts_connections, free_port, start_on_free_ports

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


@dataclass(frozen=True)
class DynamoDbAccess:
    endpoint: str
    region: str = "us-east-1"
    access_key: str = "testaccess"
    secret_key: str = "testsecret"

    def client(self) -> "DynamoDBClient":
        return boto3.client(
            "dynamodb",
            endpoint_url=self.endpoint,
            region_name=self.region,
            aws_access_key_id=self.access_key,
            aws_secret_access_key=self.secret_key,
        )


class DynamoDbServer:
    def __init__(self, folder: Path, *, address: str = "127.0.0.1") -> None:
        """It listens everywhere; `address` is how its clients reach it."""
        self._folder = folder
        self._address = address
        folder.mkdir(parents=True, exist_ok=True)
        self.access = start_on_free_ports(self._start)

    def _start(self) -> DynamoDbAccess:
        port, jars = free_port(), binaries.dynamodb_local()
        access = DynamoDbAccess(f"http://{self._address}:{port}")
        self._process = ServerProcess(
            "DynamoDB Local",
            [toolchain.java(), "-Xmx512m", "-XX:-UsePerfData", f"-Djava.io.tmpdir={self._folder}"]
            + [f"-Djava.library.path={jars}", "-cp", f"{jars}/*"]
            + ["com.amazonaws.services.dynamodbv2.local.main.ServerRunner"]
            + ["-inMemory", "-sharedDb", "-port", str(port), "-disableTelemetry"],
            log=self._folder / "dynamodb.log",
            env={**os.environ, "AWS_ACCESS_KEY_ID": access.access_key, "AWS_SECRET_ACCESS_KEY": access.secret_key},
        )
        self._process.wait_until(lambda: accepts_connections(port))
        return access

    def stop(self) -> None:
        self._process.stop()
