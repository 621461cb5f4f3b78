"""Which of a snapshot's manifests are written anew: those of a spec and content that are more than their size asks for.

Manifests of data meet those of data only, of deletes those of deletes, and of a partition spec those of that spec. A
group is planned only if it comes out with fewer manifests. How few is known when they are written, by the same measure
of their size, so that a second plan on a quiet table is empty.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, PositiveInt
from pyiceberg.manifest import ManifestContent, ManifestFile
from pyiceberg.table import Table, TableProperties

from tableformat.commits.manifest_rewrite import manifests_asked_for
from tableformat.inspection import read_manifests, schema_of_spec
from tableformat.maintenance.errors import UnsupportedTable
from tableformat.plurals import plural
from tableformat.properties import positive_number


class ManifestOptions(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    target_bytes: PositiveInt | None = None
    """Without it, the table's `commit.manifest.target-size-bytes`."""
    min_manifests: PositiveInt = 2
    """Groups of fewer are left alone."""


@dataclass(frozen=True)
class ManifestGroup:
    spec_id: int
    content: ManifestContent
    manifests: tuple[ManifestFile, ...]
    target_bytes: int

    @property
    def expected(self) -> int:
        """At most: what small manifests take together is less than what they take apart."""
        return manifests_asked_for(self.bytes, self.target_bytes)

    @property
    def entries(self) -> int:
        return sum((each.added_files_count or 0) + (each.existing_files_count or 0) for each in self.manifests)

    @property
    def bytes(self) -> int:
        return sum(manifest.manifest_length for manifest in self.manifests)


@dataclass(frozen=True)
class ManifestPlan:
    table: str
    snapshot_id: int | None
    groups: tuple[ManifestGroup, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not self.groups

    @property
    def paths(self) -> frozenset[str]:
        return frozenset(manifest.manifest_path for group in self.groups for manifest in group.manifests)

    def __str__(self) -> str:
        if self.is_empty:
            return f"manifests of {self.table}: nothing to do"
        size, entries = sum(group.bytes for group in self.groups), sum(group.entries for group in self.groups)
        return (
            f"manifests of {self.table} at snapshot {self.snapshot_id}: {plural(len(self.paths), 'manifest')} of "
            f"{plural(size, 'byte')} and {plural(entries, 'entry', 'entries')} to "
            f"{sum(group.expected for group in self.groups):,} at most"
        )


def manifest_target_bytes(properties: Mapping[str, str]) -> int:
    """The table's own, or Iceberg's default where it says nothing that can be read."""
    return positive_number(
        properties, TableProperties.MANIFEST_TARGET_SIZE_BYTES, TableProperties.MANIFEST_TARGET_SIZE_BYTES_DEFAULT
    )


def plan_manifests(table: Table, options: ManifestOptions) -> ManifestPlan:
    name, snapshot = ".".join(table.name()), table.current_snapshot()
    if snapshot is None:
        return ManifestPlan(name, None)
    target = options.target_bytes or manifest_target_bytes(table.metadata.properties)
    members: dict[tuple[int, ManifestContent], list[ManifestFile]] = defaultdict(list)
    for manifest in read_manifests(table.io, snapshot):
        members[manifest.partition_spec_id, manifest.content].append(manifest)
    groups = []
    for (spec_id, content), manifests in sorted(members.items()):
        group = ManifestGroup(spec_id, content, tuple(manifests), target)
        if len(manifests) >= options.min_manifests and group.expected < len(manifests):
            if schema_of_spec(table.metadata, spec_id) is None:
                raise UnsupportedTable(
                    name,
                    f"its partition spec {spec_id} cannot be understood",
                    "Rewrite it with the engine that made it.",
                )
            groups.append(group)
    return ManifestPlan(name, snapshot.snapshot_id, tuple(groups))
