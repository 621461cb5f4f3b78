"""A driver: `python -m tablejobs` carries out the one MaintenanceJob in TABLEWRIGHT_JOB, or with `--fleet` the orders
that it reads from standard input.

Exit codes: 0 when the run succeeded, 2 when trying again is of no use, 1 otherwise. The report is in the termination
message either way.
"""

import argparse
import logging
import os
import signal
import sys
from datetime import UTC, datetime

from pydantic import ValidationError

from tableformat.catalogs import open_catalog
from tableformat.maintenance.driver_environment import JOB
from tableformat.maintenance.job import GIVE_UP_EXIT_CODE, JobReport, MaintenanceJob
from tablejobs.attempt import Attempt
from tablejobs.failures import ask_storage, classify
from tablejobs.fleet import serve
from tablejobs.logs import set_up_logs
from tablejobs.operations import carry_out, done_so_far
from tablejobs.reporting import Reporter
from tablejobs.shared_spark import SharedSpark

SUCCEEDED, TRY_AGAIN, GIVE_UP = 0, 1, GIVE_UP_EXIT_CODE
_ENDING = (signal.SIGINT, signal.SIGTERM)

logger = logging.getLogger("tablejobs")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tablejobs",
        description=f"Carries out one maintenance run, given as JSON in the environment variable {JOB}.",
    )
    parser.add_argument("--cores", type=int, help="how many tasks run at once in this process (default: all cores)")
    parser.add_argument("--fleet", action="store_true", help="carry out the orders of standard input, side by side")
    options = parser.parse_args()
    for number in _ENDING:
        signal.signal(number, _end)
    if options.fleet:
        return serve(lambda job, reporter, spark: _run(job, reporter, options.cores, spark)[0])
    try:
        job = MaintenanceJob.model_validate_json(os.environ.get(JOB, ""))
    except ValidationError as error:
        fields = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'the whole'}: {e['msg']}" for e in error.errors())
        print(f"error: {JOB} is not a maintenance job: {fields}", file=sys.stderr)  # noqa: T201
        return GIVE_UP
    set_up_logs(job)
    reporter = Reporter(job)
    logger.info("the run begins", extra={"operation": job.work.operation})
    report, code = _run(job, reporter, options.cores)
    reporter.finished(report)
    return code


def _end(number: int, _: object) -> None:
    """So that clean-up runs, and to its end: after Ctrl-C, which reaches this process too, the command line asks again.

    Who cannot wait for it kills.
    """
    for each in _ENDING:
        signal.signal(each, signal.SIG_IGN)
    sys.exit(128 + number)


def _run(
    job: MaintenanceJob, reporter: Reporter, cores: int | None, spark: SharedSpark | None = None
) -> tuple[JobReport, int]:
    catalog, attempt = None, None
    try:
        attempt = Attempt.of(job, cores=cores, spark=spark)
        catalog = open_catalog(job.catalog)
        report = carry_out(job, catalog, reporter, attempt, now=datetime.now(UTC))
        return report, SUCCEEDED if report.succeeded else GIVE_UP
    except Exception as error:
        failure = classify(
            error,
            out_of_memory=attempt is not None and attempt.ran_out_of_memory(),
            at_limit="" if attempt is None else attempt.at_limit,
            storage=None if catalog is None else ask_storage(catalog),
        )
        if not failure.is_foreseen:
            logger.exception("ended by an error that nobody foresaw")
        done = None if catalog is None else done_so_far(job, catalog)
        report = JobReport(succeeded=False, reason=failure.reason, message=failure.message, compaction=done)
        return report, TRY_AGAIN if failure.try_again else GIVE_UP
    except SystemExit:  # told to stop, at the Job's deadline for one: its pod goes then, and a last word with it
        if catalog is not None and (done := done_so_far(job, catalog)) is not None:
            reporter.stopped(done)
        raise
    finally:
        if attempt is not None:
            attempt.remove_executors()


if __name__ == "__main__":
    sys.exit(main())
