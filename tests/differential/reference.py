"""Iceberg's own Java library as a process that answers questions, one line each way, in milliseconds.

The Java sources are in `java/src`; `Reference.java` lists the commands. One process serves a whole run.
"""

import json
import subprocess
import tempfile
from types import TracebackType
from typing import IO, Any, Self

from tests.servers import binaries, toolchain
from tests.servers.process import die_with_parent


class JavaError(RuntimeError):
    """The reference raised; `kind` is the Java exception's class, and `trace` its stack."""

    def __init__(self, kind: str, message: str, trace: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind
        self.message = message
        self.trace = trace


class Reference:
    def __init__(self) -> None:
        self._temporary = tempfile.TemporaryDirectory()
        self._process = subprocess.Popen(
            [
                toolchain.java(),
                "-Xmx1g",
                "-XX:+UseSerialGC",
                "-XX:TieredStopAtLevel=1",  # a run is over before the second compiler has paid for itself
                "-XX:-UsePerfData",
                f"-Djava.io.tmpdir={self._temporary.name}",
            ]
            + ["-cp", f"{binaries.reference_classes()}:{binaries.reference_jars()}/*", "Reference"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=die_with_parent,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def ask(self, command: str, **request: object) -> Any:
        """The answer to one command. Raises `JavaError` where the reference raised."""
        to, back = self._streams()
        to.write(json.dumps({"do": command, **request}).encode() + b"\n")
        to.flush()
        line = back.readline()
        if not line:
            raise RuntimeError(f"the reference ended with code {self._process.wait()} while it was asked {command!r}")
        answer = json.loads(line)
        if "error" in answer:
            raise JavaError(answer["error"], answer["message"], answer["trace"])
        return answer["answer"]

    def stop(self) -> None:
        for stream in self._streams():
            stream.close()
        self._process.wait()
        self._temporary.cleanup()

    def _streams(self) -> tuple[IO[bytes], IO[bytes]]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        return self._process.stdin, self._process.stdout
