"""How a driver tells of its run: log lines for people, the MaintenanceRun's status, and the termination message.

The termination message is written in any case, so that a lost API server does not lose the outcome; and what was done
goes to the status as well, so that a lost pod does not lose it either. Status updates are rate-limited, and one that
fails is no reason to fail the run.
"""

import json
import logging
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic.alias_generators import to_camel

from tableformat.maintenance import driver_environment as variables
from tableformat.maintenance.compaction import CompactionResult, Progress
from tableformat.maintenance.job import JobReport, MaintenanceJob, RunReference
from tableformat.secrets import KNOWN

if TYPE_CHECKING:
    from kubernetes import client

SECONDS_BETWEEN_UPDATES = 3.0
_TIMES_ITS_OWN_LENGTH = 10  # that an update is followed by none: an API server may take its time to fail
TERMINATION_LOG = "/dev/termination-log"
LONGEST_MESSAGE = 1024  # as the MaintenanceRun's definition has it
FIELD_MANAGER = "tablewright-driver"

logger = logging.getLogger("tablejobs")


@dataclass(frozen=True)
class HeldUp:
    """Why a run that has begun does not go on: one CamelCase word, and a sentence."""

    reason: str
    message: str
    for_good: bool = False
    """Whether it is of no use to wait for an end of it."""


class Reporter:
    def __init__(
        self,
        job: MaintenanceJob,
        *,
        report: Path | None = None,
        progress: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`report` and `progress` are the files that this run has; otherwise the environment names the process's."""
        self._report, self._progress = report, progress or _file_of(variables.PROGRESS_LOG)
        self._status = _StatusWriter(job.run) if job.run is not None else None
        self._clock = clock
        self._next_update = float("-inf")
        self._last_progress = Progress(0, 0, 0, 0, 0, 0)
        self._held_up: HeldUp | None = None

    def progress(self, progress: Progress) -> None:
        if self._progress is not None:
            _note(progress, self._progress)
        self._last_progress = progress
        whole = progress.tasks_done == progress.tasks
        began = self._clock()
        if not whole and began < self._next_update:
            return
        logger.info(
            "tasks=%d/%d bytes=%d/%d",
            progress.tasks_done,
            progress.tasks,
            progress.bytes_rewritten,
            progress.bytes,
        )
        if self._status is not None:
            self._status.write(progress, self._held_up)
        ended = self._clock()
        self._next_update = max(began + SECONDS_BETWEEN_UPDATES, ended + _TIMES_ITS_OWN_LENGTH * (ended - began))

    def held_up(self, why: HeldUp | None) -> None:
        """Why no work is done; None when it goes on."""
        self._held_up = why
        if why is None:
            logger.info("the run goes on")
        else:
            logger.warning("the run waits: %s", why.message, extra={"reason": why.reason})
        if self._status is not None:
            self._status.write(self._last_progress, why)

    def finished(self, report: JobReport) -> None:
        level = logging.INFO if report.succeeded else logging.ERROR
        logger.log(level, "%s", report.message, extra={"reason": report.reason})
        report = report.model_copy(update={"message": KNOWN.hide(report.message)})
        if self._report is not None:
            written = self._report.with_suffix(".tmp")  # whoever waits for it must not find a part of it
            written.write_text(report.to_termination_message())
            written.replace(self._report)
        else:
            path = _file_of(variables.TERMINATION_LOG) or Path(TERMINATION_LOG)
            if path.parent.is_dir() and os.access(path if path.exists() else path.parent, os.W_OK):
                path.write_text(report.to_termination_message())
        self._write_result(report)

    def stopped(self, done: CompactionResult) -> None:
        """By others, with so much of the run done."""
        self._write_result(JobReport(succeeded=False, reason="Stopped", message="told to stop", compaction=done))

    def _write_result(self, report: JobReport) -> None:
        figures = report.figures()
        if self._status is not None and figures is not None:
            self._status.write(self._last_progress, None, figures)


def _file_of(variable: str) -> Path | None:
    path = os.environ.get(variable)
    return None if path is None else Path(path)


def _note(progress: Progress, path: Path) -> None:
    """For whoever started this driver as a process and shows a bar: a line of JSON, as often as there is news."""
    figures = {
        "tasks": progress.tasks,
        "tasks_done": progress.tasks_done,
        "bytes": progress.bytes,
        "bytes_done": progress.bytes_rewritten,
    }
    with path.open("a") as log:
        log.write(json.dumps(figures) + "\n")


def api_client() -> "client.ApiClient":
    """By the pod's service account; elsewhere by the kubeconfig. The library takes long to import."""
    from kubernetes import client, config

    configuration = client.Configuration()
    try:
        config.load_incluster_config(configuration)
    except config.ConfigException:
        return config.new_client_from_config()
    return client.ApiClient(configuration)


class _StatusWriter:
    def __init__(self, run: RunReference) -> None:
        from kubernetes import client

        self._run = run
        self._api = client.CustomObjectsApi(api_client())

    def write(
        self, progress: Progress, held_up: HeldUp | None, done: Mapping[str, int | bool | None] | None = None
    ) -> None:
        result = {to_camel(name): value for name, value in (done or {}).items() if value is not None}
        why = {} if held_up is None else {"reason": held_up.reason, "message": held_up.message[:LONGEST_MESSAGE]}
        body = {
            "apiVersion": "tablewright.dev/v1alpha1",
            "kind": "MaintenanceRun",
            "metadata": {"name": self._run.name, "namespace": self._run.namespace},
            "status": {
                "progress": {
                    "tasks": progress.tasks,
                    "tasksDone": progress.tasks_done,
                    "bytes": progress.bytes,
                    "bytesDone": progress.bytes_rewritten,
                    **why,
                },
                **({"result": result} if result else {}),
            },
        }
        try:
            self._api.patch_namespaced_custom_object_status(
                "tablewright.dev",
                "v1alpha1",
                self._run.namespace,
                "maintenanceruns",
                self._run.name,
                body,
                field_manager=FIELD_MANAGER,
                force=True,
                _content_type="application/apply-patch+yaml",
                _request_timeout=10,
            )
        except Exception as error:  # the table matters, its progress bar does not
            logger.warning("progress was not reported: %s", error)
