"""When a new snapshot is said to have been made."""

import time

from pyiceberg.table.metadata import TableMetadata


def next_snapshot_ms(metadata: TableMetadata) -> int:
    """Now, or just after the table's last change: its writer's clock may be ahead of ours.

    Java refuses to load a table whose history goes back in time by more than a minute.
    """
    return max(int(time.time() * 1000), metadata.last_updated_ms + 1)
