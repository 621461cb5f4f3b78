"""Makes the task that rewrites some files of one partition, with everything that its executor has to know.

For every operation that rewrites data files; what is rewritten together, and why, is decided elsewhere.
"""

from collections.abc import Sequence

from pyiceberg.manifest import DataFileContent
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform, VoidTransform
from pyiceberg.typedef import Record
from pyiceberg.types import TimestampNanoType, TimestamptzNanoType

from tableformat.engine import DeleteFile, RewriteTask, RowOrder, SourceFile
from tableformat.engine.deletes import column_path
from tableformat.engine.lineage import with_lineage
from tableformat.engine.stored_types import stored_schema
from tableformat.engine.transforms import is_known
from tableformat.inspection import LiveFile, names_one_file, partition_path, schema_of_spec
from tableformat.maintenance.compaction.disputed import filled_structs
from tableformat.maintenance.compaction.eligibility import schema_with_keys
from tableformat.maintenance.compaction.options import CompactionOptions
from tableformat.maintenance.errors import UnsupportedTable


def rewrite_task(
    table: Table,
    task_id: str,
    files: Sequence[LiveFile],
    deletes: Sequence[LiveFile],
    options: CompactionOptions,
    order: RowOrder | None = None,
) -> RewriteTask:
    """`files` are of one partition and spec, and `deletes` are all that apply to any of them."""
    sources = tuple(
        SourceFile(
            file.path, file.file_format.value, file.size_bytes, file.records, file.sequence_number, file.first_row_id
        )
        for file in files
    )
    return TaskMaking(table, options, order).task(task_id, files[0].spec_id, files[0].partition, sources, deletes)


class TaskMaking:
    """Makes many tasks of one table. What they have in common is there once."""

    def __init__(self, table: Table, options: CompactionOptions, order: RowOrder | None) -> None:
        self._table = table
        self._options = options
        self._order = order
        metadata = table.metadata
        self._keeps_lineage = metadata.format_version >= 3
        schema = stored_schema(metadata)
        self._schema = with_lineage(schema) if self._keeps_lineage else schema
        self._properties, self._io_properties = dict(metadata.properties), dict(table.io.properties)
        self._specs = metadata.specs()
        self._partition_schemas: dict[int, Schema | None] = {}
        self._read_schemas: dict[frozenset[int], Schema] = {}

    def task(
        self,
        task_id: str,
        spec_id: int,
        partition: Record,
        sources: Sequence[SourceFile],
        deletes: Sequence[LiveFile],
    ) -> RewriteTask:
        """The sources are of the partition, and the deletes are all that apply to any of them."""
        spec, options = self._specs[spec_id], self._options
        # Each delete file once, in a certain order.
        applying = sorted(
            {(file.path, file.content_range): file for file in deletes}.values(),
            key=lambda file: (file.sequence_number, file.path, file.content_range or (0, 0)),
        )
        equality = [file for file in applying if file.content == DataFileContent.EQUALITY_DELETES]
        positions = [file for file in applying if file.content == DataFileContent.POSITION_DELETES]
        return RewriteTask(
            task_id=task_id,
            table=".".join(self._table.name()),
            sources=sources,
            position_deletes=tuple(_delete_file(file) for file in positions),
            equality_deletes=tuple(_delete_file(file) for file in equality),
            schema=self._schema,
            read_schema=self._read_schema(frozenset(key for file in equality for key in file.equality_ids)),
            spec=spec,
            partition=partition,
            partition_path=self._partition_path(spec, partition),
            identity_values={
                field.source_id: partition[position]
                for position, field in enumerate(spec.fields)
                if isinstance(field.transform, IdentityTransform)
            },
            table_location=self._table.metadata.location,
            table_properties=self._properties,
            target_file_bytes=options.target_file_bytes,
            keeps_lineage=self._keeps_lineage,
            order=self._order,
            memory_bytes=options.task_memory_bytes,
            verify_contents=options.verify_contents,
            io_properties=self._io_properties,
            output_spec=self._output_spec(spec),
        )

    def _output_spec(self, spec: PartitionSpec) -> PartitionSpec | None:
        current = self._table.spec()
        if not self._options.use_current_spec or spec.spec_id == current.spec_id:
            return None
        for field in current.fields:
            try:
                column_path(self._schema, field.source_id)
                known = is_known(field.transform, self._schema.find_type(field.source_id))
            except ValueError:
                known = isinstance(field.transform, VoidTransform)  # its column may be gone
            if not known:
                raise UnsupportedTable(
                    ".".join(self._table.name()),
                    f"the kernel does not know the transform {field.transform} of its partition field {field.name!r}",
                    "Leave files of older specs where they are, without use_current_spec",
                )
            if unreadable_partition(field, self._schema) and field.source_id not in _identities(spec):
                raise UnsupportedTable(
                    ".".join(self._table.name()),
                    f"its partition field {field.name!r} has nanoseconds as they are, which Iceberg Java's generic "
                    "reader returns as plain numbers",
                    "Partition by hour, day, month or year, or compact without use_current_spec",
                )
        self._require_same_null_structs(spec, current)
        return current

    def _require_same_null_structs(self, spec: PartitionSpec, current: PartitionSpec) -> None:
        """Java puts an identity value, be it null, into a struct that is null: other rows to it in one of the specs."""
        before, after = (dict(filled_structs(self._schema, each)) for each in (spec, current))
        for field_id in before.keys() ^ after.keys():
            name, struct = self._schema.find_column_name(field_id), {**before, **after}[field_id]
            raise UnsupportedTable(
                ".".join(self._table.name()),
                f"its identity partition column {name!r} is in the optional struct {struct!r}, and Iceberg Java reads "
                "a null struct of such a partition as a struct with a null field",
                "Make the struct required, or compact without use_current_spec",
            )

    def _partition_path(self, spec: PartitionSpec, partition: Record) -> str:
        if spec.spec_id not in self._partition_schemas:
            self._partition_schemas[spec.spec_id] = schema_of_spec(self._table.metadata, spec.spec_id)
        schema = self._partition_schemas[spec.spec_id]
        return partition_path(spec, partition, schema) if schema is not None and spec.fields else ""

    def _read_schema(self, key_ids: frozenset[int]) -> Schema:
        if key_ids not in self._read_schemas:
            self._read_schemas[key_ids] = schema_with_keys(self._table, self._schema, key_ids)
        return self._read_schemas[key_ids]


def unreadable_partition(field: PartitionField, schema: Schema) -> bool:
    """Whether Iceberg Java does not read rows of such a partition, not even its own, as it reads those of others.

    It takes identity partition values from the manifest, and does not convert those in nanoseconds.
    """
    return isinstance(field.transform, IdentityTransform) and isinstance(
        schema.find_type(field.source_id), TimestampNanoType | TimestamptzNanoType
    )


def _identities(spec: PartitionSpec) -> set[int]:
    """The source columns of the spec's identity fields."""
    return {field.source_id for field in spec.fields if isinstance(field.transform, IdentityTransform)}


def _delete_file(file: LiveFile) -> DeleteFile:
    return DeleteFile(
        path=file.path,
        file_format=file.file_format.value,
        size_bytes=file.size_bytes,
        records=file.records,
        sequence_number=file.sequence_number,
        equality_ids=file.equality_ids,
        referenced_data_file=file.path_bounds[0].decode() if file.path_bounds and names_one_file(file) else None,
        content_range=file.content_range,
    )
