"""Why a driver's run failed, as one CamelCase word for conditions and alerts, and whether trying again may help.

Types decide, never an error's text: errors of our own bring their word along, and the words for those of libraries are
here. Where a library raises nothing better than OSError for everything that storage can
answer, the storage itself is asked once more, by a client whose errors have codes.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import pyiceberg.exceptions as iceberg
from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, PartialCredentialsError
from pyiceberg.catalog import Catalog

from tableformat.commits import CommitConflict, CommitOutcomeUnknown
from tableformat.errors import PermanentError, TransientError
from tableformat.maintenance.job import OUT_OF_MEMORY
from tableformat.storage.errors import StorageUnavailable
from tableformat.storage.s3 import s3_client
from tablejobs.spark_errors import TaskFailed

_BAD_KEYS = {
    *["InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken", "TokenRefreshRequired"],
    *["AuthorizationHeaderMalformed", "InvalidSecurity"],
    "XAdminUserNotFound",  # the Versity gateway's word for an access key that it does not know
}


class OutOfMemory(TransientError):
    """A process of the run was killed for want of memory."""

    reason = OUT_OF_MEMORY


class DriverOutOfMemory(OutOfMemory):
    """The driver itself was killed, though executors did the tasks: nothing that attempts differ by is in it."""

    reason = OUT_OF_MEMORY


_BY_TYPE: tuple[tuple[type[Exception], str, bool], ...] = (
    (iceberg.NoSuchTableError, "TableNotFound", False),
    (iceberg.ValidationException, "ValidationConflict", True),
    (iceberg.CommitFailedException, CommitConflict.reason, True),
    (iceberg.CommitStateUnknownException, CommitOutcomeUnknown.reason, True),
    (PermissionError, "BadCredentials", False),
    (DriverOutOfMemory, OUT_OF_MEMORY, False),
)


@dataclass(frozen=True)
class Failure:
    reason: str
    message: str
    try_again: bool
    is_foreseen: bool = True


def classify(
    error: Exception, *, out_of_memory: bool = False, at_limit: str = "", storage: Failure | None = None
) -> Failure:
    """`out_of_memory`: whether a process of the run was killed for it. `at_limit`: what allows tasks no more memory, if
    anything does. `storage`: what storage itself says, if asked.

    Storage that refuses everything explains whatever was made of it: to some libraries a file that may not be read does
    not exist. A process that was killed explains what followed, except errors that the library raises on purpose.
    """
    if storage is not None and not storage.try_again:
        return storage
    said = _text(error)
    for kind, reason, try_again in _BY_TYPE:
        if isinstance(error, kind):
            return Failure(reason, said, try_again)
    if isinstance(error, PermanentError):
        return Failure(error.reason, said, try_again=False)
    if isinstance(error, MemoryError):
        return _starved(said, at_limit)
    on_purpose = isinstance(error, TransientError) and not isinstance(error, TaskFailed)
    if isinstance(error, OutOfMemory) or (out_of_memory and not on_purpose):
        return _starved(str(OutOfMemory.__doc__).rstrip("."), at_limit)
    if storage is not None:
        return storage
    if isinstance(error, TransientError):
        return Failure(error.reason, said, try_again=True)
    if isinstance(error, OSError):
        return Failure(StorageUnavailable.reason, said, try_again=True)
    return Failure("InternalError", said, try_again=True, is_foreseen=False)


def _starved(said: str, at_limit: str) -> Failure:
    """Another attempt has more memory for each task, or else it would end like this one."""
    if at_limit:
        return Failure(OUT_OF_MEMORY, f"{said}, though one task at once had {at_limit}: raise it", try_again=False)
    return Failure(OUT_OF_MEMORY, f"{said}; the next attempt gives each task more of it", try_again=True)


def _text(error: Exception) -> str:
    """There is none of an error that asks a process for it which has ended; its run needs a report all the same."""
    try:
        return str(error)
    except Exception:
        return f"a {type(error).__name__}, which cannot be told any more; the driver's log has what went before"


def ask_storage(catalog: Catalog) -> Failure | None:
    """What S3 says to whoever asks for the catalog's bucket; None where nothing is wrong, or it is no S3."""
    scheme, _, rest = catalog.properties.get("warehouse", "").partition("://")
    if scheme not in ("s3", "s3a", "s3n"):
        return None
    return ask_bucket(rest.partition("/")[0], catalog.properties)


def ask_bucket(bucket: str, properties: Mapping[str, str]) -> Failure | None:
    try:
        # A listing rather than a question about the bucket alone, whose answer would have no code.
        s3_client(properties).list_objects_v2(Bucket=bucket, MaxKeys=1)
    except ClientError as error:
        return of_code(bucket, error.response.get("Error", {}).get("Code", ""))
    except (NoCredentialsError, PartialCredentialsError) as error:
        return Failure(
            "BadCredentials", f"bucket {bucket}: {error}: name a Secret in the TableCatalog", try_again=False
        )
    except BotoCoreError as error:
        return Failure(StorageUnavailable.reason, f"bucket {bucket}: {error}", try_again=True)
    return None


def of_code(bucket: str, code: str) -> Failure | None:
    """Not being allowed to list says nothing of the files, so that is no more than a hint."""
    if code in _BAD_KEYS:
        message = f"bucket {bucket}: storage refuses the keys ({code}): correct the Secret that the TableCatalog names"
        return Failure("BadCredentials", message, try_again=False)
    if code == "NoSuchBucket":
        message = f"bucket {bucket}: there is no such bucket: create it, or correct the table's location"
        return Failure("BucketNotFound", message, try_again=False)
    if code == "AccessDenied":
        message = f"bucket {bucket}: storage denies access: grant the keys that the TableCatalog names what they need"
        return Failure("AccessDenied", message, try_again=True)
    return None
