"""Row lineage of format version 3: every row keeps its id and the sequence number of its last change.

Readers derive both from a row's file and place, unless the file has them as columns. A rewrite moves rows, so it
writes the columns.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from tableformat.engine.task import SourceFile

ROW_ID = NestedField(2147483540, "_row_id", LongType(), required=False)
LAST_UPDATED = NestedField(2147483539, "_last_updated_sequence_number", LongType(), required=False)


def with_lineage(schema: Schema) -> Schema:
    return Schema(*schema.fields, ROW_ID, LAST_UPDATED)


def fill_lineage(batch: pa.RecordBatch, source: SourceFile, first_row: int) -> pa.RecordBatch:
    """Give rows that the file has no lineage for the one that they inherit; `first_row` is the batch's place in it."""
    for field in (ROW_ID, LAST_UPDATED):
        position = batch.schema.get_field_index(field.name)
        column = batch.column(position)
        if not column.null_count:
            continue
        if field is LAST_UPDATED:
            inherited: pa.Array | pa.Scalar = pa.scalar(source.sequence_number, pa.int64())
        elif source.first_row_id is None:
            continue  # written before the table kept lineage: the row gets its id by this rewrite
        else:
            start = source.first_row_id + first_row
            inherited = pa.array(np.arange(start, start + batch.num_rows, dtype=np.int64))
        batch = batch.set_column(position, batch.schema.field(position), pc.coalesce(column, inherited))
    return batch
