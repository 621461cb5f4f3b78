"""An S3 server (versitygw) on a folder: conditional writes, multipart uploads, batch deletes."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import boto3
from botocore.config import Config

from tests.servers import binaries
from tests.servers.process import ServerProcess, accepts_connections, free_port, start_on_free_ports

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

REGION = "us-east-1"


@dataclass(frozen=True)
class S3Access:
    endpoint: str
    access_key: str = "testaccess"  # DynamoDB Local takes letters and digits only, and pods use one Secret for both
    secret_key: str = "test-secret"

    def client(self) -> "S3Client":
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name=REGION,
            aws_access_key_id=self.access_key,
            aws_secret_access_key=self.secret_key,
            config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 2}),
        )

    def file_io_properties(self) -> dict[str, str]:
        """The properties by which PyIceberg's file I/O reaches this server."""
        return {
            "s3.endpoint": self.endpoint,
            "s3.access-key-id": self.access_key,
            "s3.secret-access-key": self.secret_key,
            "s3.region": REGION,
            "s3.force-virtual-addressing": "false",
        }


class S3Server:
    def __init__(self, folder: Path, *, address: str = "127.0.0.1") -> None:
        self._folder = folder
        self._address = address
        self.buckets = folder / "buckets"
        """A folder for each bucket, with a file for each object."""
        self.buckets.mkdir(parents=True)
        self.access = start_on_free_ports(self._start)

    def _start(self) -> S3Access:
        port = free_port(self._address)
        access = S3Access(f"http://{self._address}:{port}")
        self._process = ServerProcess(
            "versitygw",
            [str(binaries.versitygw()), "--access", access.access_key, "--secret", access.secret_key]
            + ["--port", f"{self._address}:{port}", "--region", REGION, "posix", str(self.buckets)],
            log=self._folder / "versitygw.log",
            env={**os.environ, "TMPDIR": str(self._folder)},
        )
        self._process.wait_until(lambda: accepts_connections(port, self._address))
        return access

    def stop(self) -> None:
        self._process.stop()
