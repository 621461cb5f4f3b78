"""Planted faults: the machine has to find each of them within its short mode, or it proves nothing.

Each is a patch of one function of ours, as a plausible mistake in it would be.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.table.refs import SnapshotRefType

from tableformat.commits import manifests
from tableformat.engine import deletes, projection, rows, statistics, writing
from tableformat.maintenance.expiry import retention
from tests.differential.cases import case_of
from tests.differential.machine import Failure, Machine

Fault = Callable[[], AbstractContextManager[Any]]


def _wrapped(owner: Any, name: str, around: Callable[..., Any]) -> Fault:
    """`around` gets the function that it stands for before the function's own arguments."""

    @contextmanager
    def planted() -> Iterator[None]:
        original = getattr(owner, name)

        def instead(*arguments: Any, **named: Any) -> Any:
            return around(original, *arguments, **named)

        with patch.object(owner, name, instead):
            yield

    return planted


def _flat_keys(_: Any, batch: pa.RecordBatch, paths: Any) -> list[pa.Array]:
    return [deletes.key_column(batch, path) for path in paths]


def _required_void(_: Any, spec: Any, schema: Any) -> Any:
    return spec.partition_type(schema)


def _next_row(of: Any, self: Any, source: Any) -> Any:
    found = of(self, source)
    return replace(found, positions=np.unique(np.minimum(found.positions + 1, source.records - 1)))


def _one_commit_younger(of: Any, self: Any, source: Any) -> Any:
    return of(self, replace(source, sequence_number=source.sequence_number - 1))


def _one_zero(apply: Any, self: Any, batch: pa.RecordBatch) -> pa.RecordBatch:
    projected = apply(self, batch)
    columns = [pc.add(column, 0.0) if pa.types.is_floating(column.type) else column for column in projected.columns]
    return pa.RecordBatch.from_arrays(columns, schema=projected.schema)


def _no_lineage(_: Any, batch: pa.RecordBatch, *__: Any) -> pa.RecordBatch:
    return batch


def _cut_bound(_: Any, leaf: Any, raw: Any) -> bytes | None:
    return statistics._lower(leaf, raw)


def _empty_for_null(nested: Any, arrow_type: pa.DataType, array: pa.Array, values: pa.Array) -> pa.Array:
    made = nested(arrow_type, array, values)
    buffers = [None, made.buffers()[1]]
    return pa.Array.from_buffers(arrow_type, len(made), buffers, 0, made.offset, children=[values])


def _tags_go(keeps: Any, self: Any, name: str, ref: Any, by_id: Any) -> bool:
    return ref.snapshot_ref_type != SnapshotRefType.TAG and bool(keeps(self, name, ref, by_id))


def _all_counted(_: Any, __: pa.Table, leaves: Any) -> dict[int, int]:
    return {leaf.field_id: 0 for leaf in leaves if leaf.path is not None}


FAULTS: dict[str, Fault] = {
    "a null struct equals one whose field is null (fix 1 undone)": _wrapped(deletes, "key_columns", _flat_keys),
    "void partition fields need a value (fix 2 undone)": _wrapped(manifests, "partition_type", _required_void),
    "row ids and last updates are not carried over": _wrapped(rows, "fill_lineage", _no_lineage),
    "position deletes name the next row": _wrapped(deletes.TaskDeletes, "of", _next_row),
    "equality deletes apply to rows of their own commit": _wrapped(deletes.TaskDeletes, "of", _one_commit_younger),
    "negative zero becomes zero": _wrapped(projection.Projection, "apply", _one_zero),
    "null lists and maps become empty ones": _wrapped(projection, "_nested", _empty_for_null),
    "upper bounds are cut and not raised": _wrapped(statistics, "_upper", _cut_bound),
    "no NaN is counted": _wrapped(writing, "nan_counts", _all_counted),
    "expiry takes tags": _wrapped(retention._Rules, "keeps_ref", _tags_go),
}


def find(machine: Machine, planted: Fault, seeds: range) -> Failure | None:
    """The first failure that is the fault's."""
    for seed in seeds:
        with planted():
            failure = machine.check(case_of(seed))
        if failure is not None and machine.check(case_of(seed)) is None:
            return failure
    return None
