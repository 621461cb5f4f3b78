"""Cases of the differential machine: lists of steps, made from a seed alone.

A step is a dictionary of JSON values: `do` names it, and the rest says how. Steps of Iceberg's own library (see
`java/src/Steps.java`) write the table; steps of ours (see `operations.py`) maintain it. What a step cannot know before
the table is there (which file, which column) comes from a seed of its own, so that any part of a case is a case.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

Step = dict[str, Any]
OURS = frozenset(
    {
        "compact",
        "rewrite manifests",
        "expire snapshots",
        "remove orphans",
        "hold",
        "roll back",
        "publish",
        "delete expired rows",
    }
)

_FORMATS = ("parquet", "parquet", "avro", "orc")
_NUMBERS = ("int", "long", "float", "double", "decimal(9, 2)", "decimal(18, 0)", "decimal(38, 10)")
_TIMES = ("date", "time", "timestamp", "timestamptz")
_OTHERS = ("boolean", "string", "uuid", "binary", "fixed[3]", "fixed[16]")
_NANOS = ("timestamp_ns", "timestamptz_ns")
_TRANSFORMS = ("identity", "bucket", "truncate", "year", "month", "day", "hour")
_DEFAULTS: dict[str, Any] = {
    "int": 7,
    "long": -7,
    "float": 1.5,
    "double": -0.5,
    "decimal(9, 2)": "1.25",
    "decimal(38, 10)": "-3.0000000001",
    "date": "2020-02-29",
    "timestamp": "2020-02-29T01:02:03.000004",
    "timestamptz": "2020-02-29T01:02:03.000004+00:00",
    "boolean": True,
    "string": "by default",
    "uuid": "00000000-0000-0001-0000-000000000001",
    "binary": "00ff",
    "fixed[3]": "010203",
}
_LOCATIONS = ("t", "t", "t", "with space", "per%20cent", "ünï/cödé", "plus+and=equals", "a:b@c", "t #1?é%41", "a?b#c")
_AGE_LIMITS = ("1970-01-01T00:00:00", "2024-02-28T22:30:00", "2024-02-29T00:00:00", "2024-03-01T12:00:00")
_PROPERTIES: tuple[dict[str, str], ...] = (
    {},
    {},
    {"write.metadata.metrics.default": "full"},
    {"write.metadata.metrics.default": "none"},
    {"write.metadata.metrics.default": "counts"},
    {"write.metadata.metrics.default": "truncate(1)"},
    {"write.metadata.metrics.max-inferred-column-defaults": "2"},
    {"write.metadata.metrics.column.c1": "full", "write.metadata.metrics.column.c2": "none"},
    {"write.parquet.row-group-size-bytes": "1024", "write.parquet.row-group-check-min-record-count": "3"},
    {"write.parquet.page-size-bytes": "64", "write.parquet.page-row-limit": "3"},
    {"write.parquet.compression-codec": "gzip"},
    {"write.parquet.compression-codec": "uncompressed", "write.avro.compression-codec": "snappy"},
    {"write.parquet.compression-codec": "snappy", "write.orc.compression-codec": "zlib"},
    {"write.parquet.dict-size-bytes": "1"},
    {"write.parquet.bloom-filter-enabled.column.c1": "true"},
    {"commit.manifest.min-count-to-merge": "2"},
    {"commit.manifest-merge.enabled": "false"},
    {"commit.manifest.target-size-bytes": "1"},
    {"write.object-storage.enabled": "true"},
    {"write.data.path": "FOLDER/elsewhere/data"},
    {"write.metadata.path": "FOLDER/elsewhere/metadata"},
    {"write.metadata.compression-codec": "gzip"},
    {"history.expire.min-snapshots-to-keep": "2"},
    {"history.expire.max-snapshot-age-ms": "1"},
    {"write.target-file-size-bytes": "2048"},
    {"write.distribution-mode": "none", "read.split.target-size": "1"},
)


@dataclass(frozen=True)
class Case:
    seed: int
    location: str
    steps: tuple[Step, ...]


def case_of(seed: int) -> Case:
    return _Generator(seed).case()


def stored_case(file: Path) -> Case:
    stored = json.loads(file.read_text())
    return Case(stored.get("seed", -1), stored.get("location", "t"), tuple(stored["steps"]))


class _Generator:
    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._random = Random(seed)
        self._field_id = 0
        self._names = 0
        self._by_key = self._chance(0.4)
        """Whether the case is about equality deletes: random tables have few that reach a row."""
        self._version = self._random.choice((2, 2, 3) if self._by_key else (1, 2, 2, 2, 3, 3))

    def case(self) -> Case:
        steps = [self._create(), *self._layout(), self._append()]
        steps += self._writes(self._random.randint(1, 8))
        steps += self._operations(self._random.randint(1, 3))
        if self._chance(0.4):
            steps += self._writes(self._random.randint(1, 4))
            steps += self._operations(self._random.randint(1, 2))
        return Case(self._seed, self._random.choice(_LOCATIONS), tuple(steps))

    # --- the table

    def _create(self) -> Step:
        properties: dict[str, str] = {}
        for _ in range(self._random.randint(0, 2)):
            properties |= self._random.choice(_PROPERTIES)
        fields = [self._field(depth=0) for _ in range(self._random.randint(1, 6))]
        if self._by_key:
            fields.append(self._struct_of_keys())
        schema = {"type": "struct", "schema-id": 0, "fields": fields}
        return {"do": "create", "version": self._version, "schema": schema, "properties": properties}

    def _struct_of_keys(self) -> Step:
        """A column whose fields are few and often null, as is the column itself."""
        column = self._field(depth=3)
        fields = [{**self._field(depth=3), "required": False} for _ in range(self._random.randint(1, 2))]
        if self._chance(0.3):
            fields.append(self._struct_of_keys())
        return {**column, "required": False, "type": {"type": "struct", "fields": fields}}

    def _field(self, *, depth: int, name: str | None = None) -> Step:
        if name is None:
            self._names += 1
            name = f"c{self._names}"
        return {"id": self._next(), "name": name, "required": self._chance(0.2), "type": self._type(depth)}

    def _type(self, depth: int) -> Any:
        kinds = (*_NUMBERS, *_TIMES, *_OTHERS, *(_NANOS if self._version == 3 else ()))
        kind = self._random.choice(("plain", "plain", "struct", "list", "map")) if depth < 3 else "plain"
        if kind == "struct":
            fields = [self._field(depth=depth + 1) for _ in range(self._random.randint(1, 3))]
            return {"type": "struct", "fields": fields}
        if kind == "list":
            element_id = self._next()
            return {
                "type": "list",
                "element-id": element_id,
                "element-required": self._chance(0.3),
                "element": self._type(depth + 1),
            }
        if kind == "map":
            key_id, value_id = self._next(), self._next()
            return {
                "type": "map",
                "key-id": key_id,
                "key": self._random.choice(("string", "int", "date", "uuid", "decimal(9, 2)")),
                "value-id": value_id,
                "value-required": self._chance(0.3),
                "value": self._type(depth + 1),
            }
        return self._random.choice(kinds)

    def _layout(self) -> list[Step]:
        steps: list[Step] = [self._partition() for _ in range(self._random.choice((0, 0, 1, 1, 2)))]
        if self._chance(0.3):
            steps.append(self._order())
        if self._chance(0.2):
            steps.append({"do": "name mapping"})
        return steps

    def _partition(self) -> Step:
        return {"do": "partition", "seed": self._any(), "transform": self._random.choice(_TRANSFORMS)}

    def _order(self) -> Step:
        by = [self._random.choice(_TRANSFORMS) for _ in range(self._random.randint(1, 2))]
        return {"do": "order", "seed": self._any(), "by": by}

    # --- what is written into it

    def _append(self, **more: Any) -> Step:
        return {
            "do": "append",
            "seed": self._any(),
            "rows": self._random.choice((0, 1, 4, 10, 15, 30)),
            "files": self._random.choice((1, 1, 1, 2)),
            "format": self._random.choice(_FORMATS),
            "fast": self._chance(0.5),
            "sorted": self._chance(0.7),
            **more,
        }

    def _writes(self, count: int) -> list[Step]:
        steps: list[Step] = []
        for _ in range(count):
            steps += self._write()
        return steps

    def _write(self) -> list[Step]:
        on = {"branch": self._random.choice(("b1", "b2"))} if self._chance(0.1) else {}
        ways: tuple[tuple[int, Callable[[], list[Step]]], ...] = (
            (4, lambda: [self._append(**on)]),
            (3, lambda: [self._position_deletes(**on)]),
            (9 if self._by_key else 3, lambda: [self._equality_deletes(**on)]),
            (1, lambda: [{**self._append(**on), "do": "overwrite", "partitions": self._chance(0.4)}]),
            (1, lambda: [{"do": "drop files", "seed": self._any(), **on}]),
            (3, lambda: [self._evolve()]),
            (1, lambda: [{**self._partition(), "remove": self._chance(0.5)}]),
            (1, lambda: [self._upgrade()]),
            (1, lambda: [self._ref()]),
            (1, self._history),
            (1, lambda: [self._odd()]),
        )
        [way] = self._random.choices([way for _, way in ways], [weight for weight, _ in ways])
        return way()

    def _position_deletes(self, **more: Any) -> Step:
        return {
            "do": "position deletes",
            "seed": self._any(),
            "rows": self._random.choice((1, 3, 20)),
            "scoped": self._chance(0.5),
            "format": self._random.choice(_FORMATS),
            **more,
        }

    def _equality_deletes(self, **more: Any) -> Step:
        return {
            "do": "equality deletes",
            "seed": self._any(),
            "rows": self._random.choice((1, 3, 8)),
            "keys": self._random.choice((1, 1, 2, 3)),
            "format": self._random.choice(_FORMATS),
            "upsert": self._random.choice((0, 0, 3)),
            "reversed": self._chance(0.2),
            "nested": self._by_key and self._chance(0.7),
            **more,
        }

    def _evolve(self) -> Step:
        change = self._random.choice(("add", "add", "drop", "rename", "widen", "optional", "first", "require"))
        step: Step = {"do": "evolve", "change": change, "seed": self._any()}
        if change == "rename":
            self._names += 1
            step["name"] = f"c{self._names}"
        if change == "add":
            field = self._field(depth=1)
            field["required"] = self._version == 3 and self._chance(0.3)
            if self._version == 3 and isinstance(field["type"], str) and field["type"] in _DEFAULTS:
                field["initial-default"] = field["write-default"] = _DEFAULTS[field["type"]]
            step["column"] = {"type": "struct", "schema-id": 0, "fields": [field]}
        return step

    def _upgrade(self) -> Step:
        self._version = min(3, self._version + self._random.choice((1, 1, 2)))
        return {"do": "upgrade", "version": self._version}

    def _ref(self) -> Step:
        step: Step = {"do": "ref", "seed": self._any(), "tag": self._chance(0.5)}
        step["name"] = self._random.choice(("t1", "t2")) if step["tag"] else self._random.choice(("b1", "b2"))
        if self._chance(0.3):
            step["age"] = self._random.choice((1, 10**9))
        if not step["tag"] and self._chance(0.5):
            step |= {"keep": self._random.randint(1, 3), "snapshotAge": self._random.choice((1, 10**9))}
        return step

    def _history(self) -> list[Step]:
        match self._random.randrange(4):
            case 0:
                return [{"do": "rollback", "seed": self._any()}]
            case 1:
                return [{"do": "expire", "keep": self._random.randint(1, 3), "clean": self._chance(0.5)}]
            case 2:
                return [self._append(wap="w1")]
            case _:
                staged = {**self._append(wap="w2"), "do": "overwrite", "partitions": True}
                return [staged, {"do": "cherry-pick", "seed": self._any()}]

    def _odd(self) -> Step:
        match self._random.randrange(4):
            case 0:
                return {"do": "statistics", "seed": self._any()}
            case 1:
                return {"do": "property", "set": self._random.choice(_PROPERTIES)}
            case 2:
                return self._order()
            case _:
                return self._append(plain=True, format="parquet")

    # --- what is done to it

    def _operations(self, count: int) -> list[Step]:
        return [self._operation() for _ in range(count)]

    def _operation(self) -> Step:
        match self._random.randrange(18):
            case 0 | 1:
                return {
                    "do": "rewrite manifests",
                    "options": {
                        "target_bytes": self._random.choice((None, 1, 10_000, 10_000_000)),
                        "min_manifests": self._random.choice((1, 2, 2, 3)),
                    },
                }
            case 2 | 3:
                return {"do": "expire snapshots", "seed": self._any(), "keep": self._random.choice((None, 1, 2))}
            case 4:
                return {"do": "remove orphans"}
            case 5:
                return {"do": "hold", "seed": self._any()}
            case 6:
                return {"do": "roll back", "seed": self._any()}
            case 7:
                return {"do": "publish", "seed": self._any()}
            case 8 | 9:
                return {"do": "delete expired rows", "seed": self._any(), "from": self._random.choice(_AGE_LIMITS)}
            case _:
                return self._compact()

    def _compact(self) -> Step:
        options: Step = {
            "target_file_bytes": self._random.choice((1024, 4096, 20_000, 1024 * 1024, 1024 * 1024)),
            "min_input_files": self._random.choice((1, 2, 2, 5)),
            "delete_ratio_percent": self._random.choice((1, 30)),
            "rewrite_all": self._chance(0.5),
            "use_current_spec": self._chance(0.4),
            "commit_every_tasks": self._random.choice((None, None, 1)),
            "verify_contents": self._chance(0.3),
            "max_bytes_per_task": self._random.choice((None, None, 1)),
            "max_bytes_per_run": self._random.choice((None, None, None, 5_000)),
        }
        strategy = self._random.choice(("binpack", "binpack", "sort", "own", "zorder"))
        return {"do": "compact", "seed": self._any(), "strategy": strategy, "options": options}

    def _next(self) -> int:
        self._field_id += 1
        return self._field_id

    def _any(self) -> int:
        return self._random.getrandbits(32)

    def _chance(self, share: float) -> bool:
        return self._random.random() < share
