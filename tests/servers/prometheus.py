"""A Prometheus that scrapes what a test names, every second, and evaluates the rules that it is given."""

import json
import urllib.request
from pathlib import Path
from typing import Any

import yaml

from tests.servers import toolchain
from tests.servers.process import ServerProcess, accepts_connections, free_port, start_on_free_ports


class PrometheusServer:
    def __init__(self, folder: Path, *, rules: Path, target: str, labels: dict[str, str]) -> None:
        """`labels` are what discovery would set on the target, such as its namespace."""
        self._folder = folder
        scrape = {"job_name": "tablewright", "static_configs": [{"targets": [target], "labels": labels}]}
        pace = {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"}
        configuration = {"global": pace, "rule_files": [str(rules)], "scrape_configs": [scrape]}
        (folder / "prometheus.yml").write_text(yaml.safe_dump(configuration))
        self._process, self._address = start_on_free_ports(self._start)

    def _start(self) -> tuple[ServerProcess, str]:
        port = free_port()
        process = ServerProcess(
            "prometheus",
            [str(toolchain.prometheus() / "prometheus"), f"--config.file={self._folder / 'prometheus.yml'}"]
            + [f"--storage.tsdb.path={self._folder / 'data'}", f"--web.listen-address=127.0.0.1:{port}"],
            log=self._folder / "prometheus.log",
        )
        process.wait_until(lambda: accepts_connections(port))
        return process, f"http://127.0.0.1:{port}"

    def alerts(self) -> list[dict[str, Any]]:
        """Those that are pending or firing."""
        with urllib.request.urlopen(f"{self._address}/api/v1/alerts", timeout=5) as answer:
            return list(json.load(answer)["data"]["alerts"])

    def stop(self) -> None:
        self._process.stop()
