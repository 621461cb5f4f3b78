"""A driver: `python -m tablejobs` carries out the one MaintenanceJob in TABLEWRIGHT_JOB.

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
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException, NoSuchTableError

from tableformat.catalogs import open_catalog
from tableformat.errors import PermanentError, TransientError
from tableformat.maintenance.job import JobReport, MaintenanceJob
from tablejobs.operations import carry_out
from tablejobs.reporting import Reporter

SUCCEEDED, TRY_AGAIN, GIVE_UP = 0, 1, 2

logger = logging.getLogger("tablejobs")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tablejobs",
        description="Carries out one maintenance run, given as JSON in the environment variable TABLEWRIGHT_JOB.",
    )
    parser.add_argument("--cores", type=int, help="how many tasks run at once in this process (default: all cores)")
    options = parser.parse_args()
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    logger.setLevel(logging.INFO)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that clean-up runs
    try:
        job = MaintenanceJob.model_validate_json(os.environ.get("TABLEWRIGHT_JOB", ""))
    except ValidationError as error:
        fields = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'the whole'}: {e['msg']}" for e in error.errors())
        print(f"error: TABLEWRIGHT_JOB is not a maintenance job: {fields}", file=sys.stderr)  # noqa: T201
        return GIVE_UP
    reporter = Reporter(job)
    report, code = _run(job, reporter, options.cores)
    reporter.finished(report)
    return code


def _run(job: MaintenanceJob, reporter: Reporter, cores: int | None) -> tuple[JobReport, int]:
    try:
        return carry_out(job, open_catalog(job.catalog), reporter, cores=cores, now=datetime.now(UTC)), SUCCEEDED
    except PermanentError as error:
        return _failed(type(error).__name__, error), GIVE_UP
    except NoSuchTableError as error:
        return _failed("TableNotFound", error), GIVE_UP
    except CommitFailedException as error:
        return _failed("CommitConflict", error), TRY_AGAIN
    except CommitStateUnknownException as error:
        return _failed("CommitStateUnknown", error), TRY_AGAIN
    except (TransientError, OSError) as error:
        return _failed(type(error).__name__, error), TRY_AGAIN
    except Exception as error:
        logger.exception("run=%s ended by an error that nobody foresaw", job.run_id)
        return _failed("InternalError", error), TRY_AGAIN


def _failed(reason: str, error: Exception) -> JobReport:
    return JobReport(succeeded=False, reason=reason, message=str(error))


if __name__ == "__main__":
    sys.exit(main())
