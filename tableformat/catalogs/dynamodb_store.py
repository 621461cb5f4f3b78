"""Items of one DynamoDB table: read, query, and write on a condition, with every failure given its meaning.

The client never repeats a request by itself: an automatic repetition of a conditional write would be answered
"condition failed" although its first copy was applied. Reads are repeated here, writes by those who can look first.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    IncompleteReadError,
    NoCredentialsError,
    PartialCredentialsError,
)
from botocore.parsers import ResponseParserError
from pyiceberg.catalog.dynamodb import (
    CREATE_CATALOG_ATTRIBUTE_DEFINITIONS,
    CREATE_CATALOG_GLOBAL_SECONDARY_INDEXES,
    CREATE_CATALOG_KEY_SCHEMA,
    DYNAMODB_COL_IDENTIFIER,
    DYNAMODB_COL_NAMESPACE,
    DYNAMODB_NAMESPACE_GSI,
)

from tableformat.backoff import READS, Backoff, RetryPolicy
from tableformat.catalogs.outcomes import (
    CatalogAccessError,
    CatalogUnavailableError,
    LostRace,
    NotApplied,
    OutcomeUnknown,
    WriteOutcome,
    wait_or_give_up,
)

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

Item = dict[str, Any]  # DynamoDB's own JSON: each attribute a map from its type to its value
Answer = TypeVar("Answer")

_LOST = {"ConditionalCheckFailedException", "ConditionalCheckFailed"}
_REFUSED_FOR_NOW = {
    "ProvisionedThroughputExceededException",
    "ProvisionedThroughputExceeded",
    "RequestLimitExceeded",
    "ThrottlingException",
    "ThrottlingError",
    "Throttling",
    "TransactionConflict",
    "TransactionConflictException",
    "LimitExceededException",
    "ReplicatedWriteConflictException",
}
_FORBIDDEN = {"AccessDeniedException", "AccessDenied"}
_NOT_KNOWN = {
    "ExpiredTokenException",
    "IncompleteSignature",
    "InvalidSignatureException",
    "MissingAuthenticationToken",
    "MissingAuthenticationTokenException",
    "UnrecognizedClientException",
}
_PERMISSIONS = {"TransactWriteItems": "dynamodb:PutItem and dynamodb:DeleteItem"}  # where no action has the call's name
_NO_TABLE = "ResourceNotFoundException"
_CREATION = RetryPolicy(retries=120, min_wait_ms=100, max_wait_ms=2000, total_ms=180_000)
_NEVER_SENT = (EndpointConnectionError, ConnectTimeoutError)


class ItemStore:
    def __init__(self, client: "DynamoDBClient", table: str) -> None:
        client.meta.events.register("response-received.dynamodb", _refuse_half_an_answer)
        self._client = client
        self._table = table

    def describe(self, identifier: str, namespace: str) -> str:
        return f"item identifier={identifier!r} namespace={namespace!r} of DynamoDB table {self._table}"

    def get(self, identifier: str, namespace: str) -> Item | None:
        answer = self._read(
            "GetItem",
            lambda: self._client.get_item(TableName=self._table, Key=_key(identifier, namespace), ConsistentRead=True),
        )
        return answer.get("Item")

    def query(self, attribute: str, value: str) -> Iterator[Item]:
        """The items of one identifier, or the keys of one namespace by the index, which lags a little behind."""
        extra: dict[str, Any] = (
            {"ConsistentRead": True} if attribute == DYNAMODB_COL_IDENTIFIER else {"IndexName": DYNAMODB_NAMESPACE_GSI}
        )
        while True:
            page = self._read("Query", partial(self._page, attribute, value, dict(extra)))
            yield from page["Items"]
            if not page.get("LastEvaluatedKey"):
                return
            extra["ExclusiveStartKey"] = page["LastEvaluatedKey"]

    def _page(self, attribute: str, value: str, extra: dict[str, Any]) -> Any:
        return self._client.query(
            TableName=self._table,
            KeyConditionExpression="#a = :a",
            ExpressionAttributeNames={"#a": attribute},
            ExpressionAttributeValues={":a": {"S": value}},
            **extra,
        )

    def create(self, item: Item) -> None:
        """`LostRace` if there is one with that key."""
        condition = f"attribute_not_exists({DYNAMODB_COL_IDENTIFIER})"
        self._write(
            "PutItem",
            lambda: self._client.put_item(TableName=self._table, Item=item, ConditionExpression=condition),
        )

    def replace(self, item: Item, version: str) -> None:
        """`LostRace` unless the item is still at that version; so do the other conditional writes."""
        self._write(
            "PutItem",
            lambda: self._client.put_item(
                TableName=self._table,
                Item=item,
                ConditionExpression="v = :expected",
                ExpressionAttributeValues={":expected": {"S": version}},
            ),
        )

    def update(self, identifier: str, namespace: str, attributes: Item, version: str) -> None:
        """Sets some attributes and leaves the others, which other engines may have put there."""
        names = {f"#k{index}": name for index, name in enumerate(attributes)}
        values = {f":k{index}": value for index, value in enumerate(attributes.values())}
        assignments = ", ".join(f"#k{index} = :k{index}" for index in range(len(attributes)))
        self._write(
            "UpdateItem",
            lambda: self._client.update_item(
                TableName=self._table,
                Key=_key(identifier, namespace),
                UpdateExpression=f"SET {assignments}",
                ConditionExpression="v = :expected",
                ExpressionAttributeNames=names,
                ExpressionAttributeValues={**values, ":expected": {"S": version}},
            ),
        )

    def delete(self, identifier: str, namespace: str, version: str) -> None:
        self._write(
            "DeleteItem",
            lambda: self._client.delete_item(
                TableName=self._table,
                Key=_key(identifier, namespace),
                ConditionExpression="v = :expected",
                ExpressionAttributeValues={":expected": {"S": version}},
            ),
        )

    def move(self, identifier: str, namespace: str, version: str, item: Item) -> None:
        """Deletes one item and creates another in one transaction."""
        delete: Any = {
            "TableName": self._table,
            "Key": _key(identifier, namespace),
            "ConditionExpression": "v = :expected",
            "ExpressionAttributeValues": {":expected": {"S": version}},
        }
        put: Any = {
            "TableName": self._table,
            "Item": item,
            "ConditionExpression": f"attribute_not_exists({DYNAMODB_COL_IDENTIFIER})",
        }
        self._write(
            "TransactWriteItems",
            lambda: self._client.transact_write_items(TransactItems=[{"Delete": delete}, {"Put": put}]),
        )

    def table_exists(self) -> bool:
        return self._table_status() is not None

    def create_table_if_missing(self) -> None:
        """With on-demand billing, and the index that listing needs; waits until it can be used."""
        backoff = Backoff(_CREATION)
        while True:
            status = self._table_status()
            if status == "ACTIVE":
                return
            outcome: WriteOutcome = NotApplied(f"its status is {status}")
            if status is None:
                try:
                    self._write("CreateTable", self._create_table)
                except WriteOutcome as failed:
                    outcome = failed
            wait_or_give_up(backoff, f"create DynamoDB table {self._table}", outcome)

    def _table_status(self) -> str | None:
        try:
            answer = self._read("DescribeTable", lambda: self._client.describe_table(TableName=self._table))
        except CatalogAccessError as error:
            if isinstance(error.__cause__, ClientError) and _code(error.__cause__) == _NO_TABLE:
                return None
            raise
        return str(answer["Table"]["TableStatus"])

    def _create_table(self) -> None:
        self._client.create_table(
            TableName=self._table,
            AttributeDefinitions=CREATE_CATALOG_ATTRIBUTE_DEFINITIONS,  # type: ignore[arg-type]
            KeySchema=CREATE_CATALOG_KEY_SCHEMA,  # type: ignore[arg-type]
            GlobalSecondaryIndexes=CREATE_CATALOG_GLOBAL_SECONDARY_INDEXES,  # type: ignore[arg-type]
            BillingMode="PAY_PER_REQUEST",
        )

    def _read(self, action: str, call: Callable[[], Answer]) -> Answer:
        backoff = Backoff(READS)
        while True:
            try:
                return call()
            except ClientError as error:
                self._refuse_if_forbidden(error, action)
                if not _passing(error):
                    raise CatalogAccessError(f"DynamoDB refuses {action} on table {self._table}: {error}") from error
                cause: Exception = error
            except (NoCredentialsError, PartialCredentialsError) as error:
                raise self._no_credentials(error) from error
            except (BotoCoreError, ResponseParserError) as error:
                cause = error
            if not backoff.wait():
                raise CatalogUnavailableError(
                    f"DynamoDB did not answer {action} on table {self._table} in {backoff.attempts} attempts: {cause}"
                ) from cause

    def _write(self, action: str, call: Callable[[], object]) -> None:
        try:
            call()
        except ClientError as error:
            self._refuse_if_forbidden(error, action)
            raise self._outcome(error, action) from error
        except (NoCredentialsError, PartialCredentialsError) as error:
            raise self._no_credentials(error) from error
        except _NEVER_SENT as error:
            raise NotApplied(f"{action}: {error}") from error
        except (BotoCoreError, ResponseParserError) as error:
            raise OutcomeUnknown(f"{action}: {error}") from error

    def _outcome(self, error: ClientError, action: str) -> Exception:
        codes = {_code(error)} | {reason.get("Code", "") for reason in error.response.get("CancellationReasons", [])}
        if codes & _LOST or codes & {"ResourceInUseException"}:
            return LostRace(f"{action}: {error}")
        if codes & _REFUSED_FOR_NOW or _status(error) == 429:
            return NotApplied(f"{action}: {error}")
        if _status(error) >= 500 or _status(error) in (
            408,
            409,
        ):  # 409 is no answer of DynamoDB's, but of something between
            return OutcomeUnknown(f"{action}: {error}")
        return CatalogAccessError(f"DynamoDB refuses {action} on table {self._table}: {error}")

    def _refuse_if_forbidden(self, error: ClientError, action: str) -> None:
        if _code(error) in _FORBIDDEN:
            needed = _PERMISSIONS.get(action, f"dynamodb:{action}")
            raise CatalogAccessError(
                f"DynamoDB forbids {needed} on table {self._table}: allow that to the identity in use ({error})"
            ) from error
        if _code(error) in _NOT_KNOWN:
            raise CatalogAccessError(
                f"DynamoDB does not take the credentials in use for table {self._table}: renew or correct them "
                f"({error})"
            ) from error
        if _code(error) == _NO_TABLE:
            raise CatalogAccessError(
                f"there is no DynamoDB table {self._table}, or it lacks the index {DYNAMODB_NAMESPACE_GSI}: create it, "
                "or let the catalog do so (create_table)"
            ) from error

    def _no_credentials(self, error: Exception) -> CatalogAccessError:
        return CatalogAccessError(
            f"no AWS credentials for DynamoDB table {self._table}: {error}. Give them in the environment, by workload "
            "identity, or as the properties dynamodb.access-key-id and dynamodb.secret-access-key"
        )


def _refuse_half_an_answer(response_dict: Mapping[str, Any] | None, **_: object) -> None:
    """botocore reads an answer that was cut off as an empty one, which would say that there is no such table."""
    if response_dict is None or response_dict["headers"].get("Content-Encoding"):
        return
    promised, body = response_dict["headers"].get("Content-Length"), response_dict["body"]
    if promised is not None and int(promised) != len(body):
        raise IncompleteReadError(actual_bytes=len(body), expected_bytes=int(promised))


def _key(identifier: str, namespace: str) -> Item:
    return {DYNAMODB_COL_IDENTIFIER: {"S": identifier}, DYNAMODB_COL_NAMESPACE: {"S": namespace}}


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def _status(error: ClientError) -> int:
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def _passing(error: ClientError) -> bool:
    """Whether a read may well succeed when it is repeated."""
    return _code(error) in _REFUSED_FOR_NOW or _status(error) >= 500 or _status(error) in (408, 409, 429)


def text(item: Mapping[str, Any], attribute: str) -> str | None:
    """A string attribute, or None if it is missing, empty, or of another type."""
    value = item.get(attribute)
    return (value.get("S") or None) if isinstance(value, dict) else None
