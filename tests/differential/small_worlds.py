"""Small worlds: a few values of every type, and what Iceberg's Java library makes of each and of all pairs of them.

`python -m tests.differential.small_worlds` asks Java and writes `ANSWERS`. The unit tests compare the kernel with that
file without Java, and `make interop` asks again. A value is the hexadecimal text of its single-value serialization.
"""

import itertools
import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    PrimitiveType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from tests.differential.reference import JavaError, Reference

ANSWERS: Final = Path(__file__).parents[1] / "unit" / "engine" / "small_worlds.json"
Value = str | None
FORMATS: Final = ("PARQUET", "AVRO", "ORC")
_INT_MIN, _INT_MAX, _LONG_MIN, _LONG_MAX = -(2**31), 2**31 - 1, -(2**63), 2**63 - 1
_TEXTS: Final = ["", "\0", "a", "ab", "é", "\uffff", "😀", "a😀"]
_LONG_TEXTS: Final = ["a" * 15 + "\U0010ffff" * 3, "\U0010ffff" * 17, "\ud7ff" * 17]
_BYTES: Final = [b"", b"\0", b"\0\xff", b"\x7f", b"\x80", b"\xff", b"\xff\xff", b"a" * 20, b"a\xff" * 10, b"\xff" * 17]
_MOMENTS: Final = [
    0,
    1,
    -1,
    999_999,
    -1_000_001,
    1_512_151_975_038_194,
    -62_135_596_800_000_000,
    253_402_300_799_999_999,
]


def _packed(form: str, values: Sequence[float]) -> list[str]:
    return [struct.pack(form, value).hex() for value in values]


def _decimals(values: Sequence[int]) -> list[str]:
    return [
        value.to_bytes(
            (value.bit_length() if value >= 0 else (value + 1).bit_length()) // 8 + 1, "big", signed=True
        ).hex()
        for value in values
    ]


_REALS: Final = [0.0, -0.0, 1.0, -1.0, 1.5, float("inf"), float("-inf")]
WORLDS: Final[dict[PrimitiveType, list[Value]]] = {
    BooleanType(): [None, "00", "01"],
    IntegerType(): [None, *_packed("<i", [0, 1, -1, 7, -7, _INT_MIN, _INT_MAX])],
    LongType(): [None, *_packed("<q", [0, 1, -1, 7, 2**32, -(2**32), _LONG_MIN, _LONG_MAX])],
    FloatType(): [None, "0000c07f", "0100c0ff", "01000000", "ffff7f7f", "ffff7fff", *_packed("<f", _REALS)],
    DoubleType(): [
        None,
        "000000000000f87f",
        "010000000000f8ff",
        "0100000000000000",
        "ffffffffffffef7f",
        "ffffffffffffefff",
        *_packed("<d", _REALS),
    ],
    DecimalType(9, 2): [None, *_decimals([0, 1, -1, 150, -150, 10**9 - 1, 1 - 10**9])],
    DecimalType(18, 3): [None, *_decimals([0, 1, -1, 2**32, -(2**32), 10**18 - 1, 1 - 10**18])],
    DecimalType(38, 10): [None, *_decimals([0, 1, -1, 2**64, -(2**64), 2**96 + 1, 10**38 - 1, 1 - 10**38])],
    DateType(): [None, *_packed("<i", [0, 1, -1, 31, -365, -719_162, 2_932_896, _INT_MIN, _INT_MAX])],
    TimeType(): [None, *_packed("<q", [0, 1, 3_600_000_000, 86_399_999_999])],
    TimestampType(): [None, *_packed("<q", _MOMENTS)],
    TimestamptzType(): [None, *_packed("<q", _MOMENTS)],
    TimestampNanoType(): [None, *_packed("<q", [0, 1, -1, 1_512_151_975_038_194_001, _LONG_MIN, _LONG_MAX])],
    TimestamptzNanoType(): [None, *_packed("<q", [0, 1, -1, 1_512_151_975_038_194_001, _LONG_MIN, _LONG_MAX])],
    StringType(): [None, *(text.encode().hex() for text in [*_TEXTS, *_LONG_TEXTS])],
    BinaryType(): [None, *(value.hex() for value in _BYTES)],
    FixedType(2): [None, "0000", "0001", "6162", "7fff", "8000", "ffff"],
    UUIDType(): [None, *(number.to_bytes(16, "big").hex() for number in [0, 1, 2**64, 2**127 - 1, 2**127, 2**128 - 1])],
}
_TRANSFORMS: Final = [
    *("identity", "void", "bucket[1]", "bucket[16]", "bucket[1000]", "truncate[1]", "truncate[2]", "truncate[10]"),
    *("year", "month", "day", "hour"),
]
SORTS: Final = [("asc", "nulls-first"), ("desc", "nulls-last"), ("asc", "nulls-last"), ("desc", "nulls-first")]


def rows_at(values: Sequence[Value], depth: int) -> list[Any]:
    """The values inside so many structs, after a null in the place of each struct."""
    nulls: list[Any] = []
    for level in range(depth):
        row: Any = None
        for _ in range(level):
            row = [row]
        nulls.append(row)
    found: list[Any] = list(values)
    for _ in range(depth):
        found = [[value] for value in found]
    return [*nulls, *found]


def schema_at(kind: PrimitiveType, depth: int) -> dict[str, Any]:
    """As JSON: a number for each row, and the value inside so many structs; its id is two more than their number."""
    field: dict[str, Any] = {"id": 2 + depth, "name": "value", "required": False, "type": str(kind)}
    for level in reversed(range(2, 2 + depth)):
        field = {"id": level, "name": f"s{level}", "required": False, "type": {"type": "struct", "fields": [field]}}
    number = {"id": 1, "name": "row", "required": True, "type": "int"}
    return {"type": "struct", "schema-id": 0, "fields": [number, field]}


def pairs(rows: Sequence[Any]) -> list[tuple[Any, Any]]:
    return list(itertools.permutations(rows, 2))


def files(values: Sequence[Value]) -> list[list[Value]]:
    return [*([value] for value in values), *(list(pair) for pair in itertools.combinations(values, 2))]


def transforms_of(kind: PrimitiveType) -> Iterator[str]:
    from pyiceberg.transforms import parse_transform

    for name in _TRANSFORMS:
        if parse_transform(name).can_transform(kind):
            yield name


def modes_of(kind: PrimitiveType) -> tuple[str, ...]:
    if isinstance(kind, StringType | BinaryType):
        return "full", "truncate(1)", "truncate(2)", "truncate(16)", "counts", "none"
    return ("full",)


def questions() -> Iterator[tuple[str, dict[str, Any]]]:
    """Each question with its name, which is its key in the file of answers."""
    for kind, values in WORLDS.items():
        for depth, file_format in itertools.product((0, 2), FORMATS):
            rows = rows_at(values, depth)
            request = {
                "question": "equality",
                "schema": schema_at(kind, depth),
                "format": file_format,
                "ids": [2 + depth],
                "planned": depth == 0,
                "rows": [[struct.pack("<i", number).hex(), row] for number, row in enumerate(rows)],
            }
            yield f"equality {kind} {depth} {file_format}", {**request, "deletes": [[[row]] for row in rows]}
            if file_format == "PARQUET" and depth:
                two = [[[row], [other]] for row, other in pairs(rows)]
                yield f"equality {kind} {depth} {file_format} pairs", {**request, "deletes": two}
        for direction, nulls in SORTS:
            yield (
                f"order {kind} {direction} {nulls}",
                {
                    "question": "order",
                    "schema": schema_at(kind, 0),
                    "order": {
                        "order-id": 1,
                        "fields": [
                            {"transform": "identity", "source-id": 2, "direction": direction, "null-order": nulls}
                        ],
                    },
                    "rows": [[struct.pack("<i", number).hex(), row] for number, row in enumerate(values)],
                },
            )
        for transform in transforms_of(kind):
            request = {"question": "transform", "type": str(kind), "transform": transform, "values": values}
            yield f"transform {kind} {transform}", request
        for mode in modes_of(kind):
            request = {"question": "bounds", "type": str(kind), "mode": mode, "files": files(values)}
            yield f"bounds {kind} {mode}", request


def ask(reference: Reference, request: Mapping[str, Any]) -> Any:
    try:
        return reference.ask("small_world", **request)
    except JavaError as error:
        return {"error": error.kind}


def recorded() -> dict[str, Any]:
    answers: dict[str, Any] = json.loads(ANSWERS.read_text())
    return answers


def main() -> None:
    with Reference() as reference:
        answers = [f"{json.dumps(name)}: {json.dumps(ask(reference, request))}" for name, request in questions()]
    ANSWERS.write_text("{\n" + ",\n".join(answers) + "\n}\n")


if __name__ == "__main__":
    main()
