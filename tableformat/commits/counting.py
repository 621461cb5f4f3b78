"""Files as a snapshot's summary counts them."""

from pyiceberg.manifest import DataFile

from tableformat.inspection import LiveFile


def counted(file: LiveFile) -> DataFile:
    """As much of it as a summary counts.

    A deletion vector has the size of its own part of its Puffin file: the whole, once for each of the vectors in it,
    would be more than Java ever added to the totals.
    """
    data_file = DataFile.from_args(
        3,
        content=file.content,
        file_path=file.path,
        file_format=file.file_format,
        partition=file.partition,
        record_count=file.records,
        file_size_in_bytes=file.size_bytes if file.content_range is None else file.content_range[1],
    )
    data_file.spec_id = file.spec_id
    return data_file
