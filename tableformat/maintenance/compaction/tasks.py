"""Makes the task that rewrites some files of one partition, with everything that its executor has to know.

For every operation that rewrites data files; what is rewritten together, and why, is decided elsewhere.
"""

from collections.abc import Sequence

from pyiceberg.manifest import DataFileContent
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform

from tableformat.engine import DeleteFile, RewriteTask, RowOrder, SourceFile
from tableformat.engine.lineage import with_lineage
from tableformat.inspection import LiveFile, names_one_file, schema_of_spec
from tableformat.maintenance.compaction.eligibility import schema_with_keys
from tableformat.maintenance.compaction.options import CompactionOptions


def rewrite_task(
    table: Table,
    task_id: str,
    files: Sequence[LiveFile],
    deletes: Sequence[LiveFile],
    options: CompactionOptions,
    order: RowOrder | None = None,
) -> RewriteTask:
    """`files` are of one partition and spec, and `deletes` are all that apply to any of them."""
    first, metadata = files[0], table.metadata
    spec, partition = metadata.specs()[first.spec_id], first.partition
    partition_schema = schema_of_spec(metadata, first.spec_id)
    partition_path = ""
    if partition_schema is not None and spec.fields:
        partition_path = spec.partition_to_path(partition, partition_schema)
    keeps_lineage = metadata.format_version >= 3
    schema = with_lineage(metadata.schema()) if keeps_lineage else metadata.schema()
    equality = [file for file in deletes if file.content == DataFileContent.EQUALITY_DELETES]
    positions = [file for file in deletes if file.content == DataFileContent.POSITION_DELETES]
    return RewriteTask(
        task_id=task_id,
        table=".".join(table.name()),
        sources=tuple(
            SourceFile(
                file.path,
                file.file_format.value,
                file.size_bytes,
                file.records,
                file.sequence_number,
                file.first_row_id,
            )
            for file in files
        ),
        position_deletes=tuple(_delete_file(file) for file in positions),
        equality_deletes=tuple(_delete_file(file) for file in equality),
        schema=schema,
        read_schema=schema_with_keys(table, schema, {field_id for file in equality for field_id in file.equality_ids}),
        spec=spec,
        partition=partition,
        partition_path=partition_path,
        identity_values={
            field.source_id: partition[position]
            for position, field in enumerate(spec.fields)
            if isinstance(field.transform, IdentityTransform) and partition[position] is not None
        },
        table_location=metadata.location,
        table_properties=dict(metadata.properties),
        target_file_bytes=options.target_file_bytes,
        keeps_lineage=keeps_lineage,
        order=order,
        memory_bytes=options.task_memory_bytes,
        verify_contents=options.verify_contents,
        io_properties=dict(table.io.properties),
    )


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
