"""What would be done to a table, one value for each thing that a reviewer would want to see.

Values only: the commit itself is built beside them in `difference`, from the same comparison. Each change names the
declaration's field, what the table says now (`before`) and what it will say (`after`), as short texts.
"""

from dataclasses import dataclass
from functools import cached_property

from tableformat.declaration.refusals import column_field

_PAST = {verb: f"{verb}d" for verb in ("create", "upgrade", "rename", "describe", "remove")}
_PAST |= {"drop": "dropped", "make": "made", "let": "let", "identify": "identified", "set": "set"}


@dataclass(frozen=True)
class Change:
    """The common face of all changes."""

    @property
    def field(self) -> str:
        raise NotImplementedError

    @property
    def before(self) -> str | None:
        return None

    @property
    def after(self) -> str | None:
        return None

    @property
    def sentence(self) -> str:
        """What is to be done: it begins with a verb."""
        raise NotImplementedError

    @property
    def done(self) -> str:
        """The same once it is done."""
        verb, _, rest = self.sentence.partition(" ")
        return f"{_PAST.get(verb, f'{verb}ed')} {rest}"


@dataclass(frozen=True)
class CreateTable(Change):
    name: str
    columns: tuple[str, ...]
    partitioning: tuple[str, ...]
    sort_order: tuple[str, ...]
    format_version: int

    @property
    def field(self) -> str:
        return "identifier"

    @property
    def after(self) -> str:
        return self.name

    @property
    def sentence(self) -> str:
        partitioned = f", partitioned by {', '.join(self.partitioning)}" if self.partitioning else ""
        ordered = f", sorted by {', '.join(self.sort_order)}" if self.sort_order else ""
        columns = ", ".join(self.columns)
        return f"create table {self.name} (format version {self.format_version}{partitioned}{ordered}): {columns}"


@dataclass(frozen=True)
class UpgradeFormat(Change):
    old: int
    new: int

    @property
    def field(self) -> str:
        return "formatVersion"

    @property
    def before(self) -> str:
        return str(self.old)

    @property
    def after(self) -> str:
        return str(self.new)

    @property
    def sentence(self) -> str:
        return f"upgrade the format from version {self.old} to {self.new}"


@dataclass(frozen=True)
class ColumnChange(Change):
    """`path` is the column's full name, level by level, as it will be."""

    path: tuple[str, ...]

    @property
    def field(self) -> str:
        return column_field(self.path)

    @cached_property
    def name(self) -> str:
        return ".".join(self.path)


@dataclass(frozen=True)
class AddColumn(ColumnChange):
    type: str
    required: bool
    initial_default: str | None

    @property
    def after(self) -> str:
        default = "" if self.initial_default is None else f" default {self.initial_default}"
        return f"{'required ' if self.required else ''}{self.type}{default}"

    @property
    def sentence(self) -> str:
        return f"add column {self.name}: {self.after}"


@dataclass(frozen=True)
class DropColumn(ColumnChange):
    type: str

    @property
    def before(self) -> str:
        return self.type

    @property
    def sentence(self) -> str:
        return f"drop column {self.name}: {self.type}"


@dataclass(frozen=True)
class RenameColumn(ColumnChange):
    old_name: str

    @property
    def field(self) -> str:
        return column_field(self.path, "name")

    @property
    def before(self) -> str:
        return self.old_name

    @property
    def after(self) -> str:
        return self.path[-1]

    @property
    def sentence(self) -> str:
        return f"rename column {'.'.join((*self.path[:-1], self.old_name))} to {self.path[-1]}"


@dataclass(frozen=True)
class WidenColumn(ColumnChange):
    old_type: str
    new_type: str

    @property
    def field(self) -> str:
        return column_field(self.path, "type")

    @property
    def before(self) -> str:
        return self.old_type

    @property
    def after(self) -> str:
        return self.new_type

    @property
    def sentence(self) -> str:
        return f"widen column {self.name} from {self.old_type} to {self.new_type}"


@dataclass(frozen=True)
class ChangeRequired(ColumnChange):
    """To optional at any time; to required only while the table has never held a row."""

    required: bool

    @property
    def field(self) -> str:
        return column_field(self.path, "required")

    @property
    def before(self) -> str:
        return _boolean(not self.required)

    @property
    def after(self) -> str:
        return _boolean(self.required)

    @property
    def sentence(self) -> str:
        return f"make column {self.name} {'required' if self.required else 'optional'}"


@dataclass(frozen=True)
class ChangeDoc(ColumnChange):
    old: str | None
    new: str | None

    @property
    def field(self) -> str:
        return column_field(self.path, "doc")

    @property
    def before(self) -> str | None:
        return self.old

    @property
    def after(self) -> str | None:
        return self.new

    @property
    def sentence(self) -> str:
        return f"describe column {self.name} as {self.new!r}" if self.new else f"remove the doc of column {self.name}"


@dataclass(frozen=True)
class ChangeWriteDefault(ColumnChange):
    old: str | None
    new: str

    @property
    def field(self) -> str:
        return column_field(self.path, "writeDefault")

    @property
    def before(self) -> str | None:
        return self.old

    @property
    def after(self) -> str:
        return self.new

    @property
    def sentence(self) -> str:
        was = f" (it was {self.old})" if self.old is not None else ""
        return f"let new rows have {self.new} in column {self.name} by default{was}"


@dataclass(frozen=True)
class ReorderColumns(Change):
    """`parent` is empty for the columns themselves."""

    parent: tuple[str, ...]
    old: tuple[str, ...]
    new: tuple[str, ...]

    @property
    def field(self) -> str:
        return column_field(self.parent) if self.parent else "schema.columns"

    @property
    def before(self) -> str:
        return ", ".join(self.old)

    @property
    def after(self) -> str:
        return ", ".join(self.new)

    @property
    def sentence(self) -> str:
        what = f"fields of {'.'.join(self.parent)}" if self.parent else "columns"
        return f"reorder the {what}: {self.after}"


@dataclass(frozen=True)
class ListChange(Change):
    """Something that is replaced as a whole: the words are for people."""

    old: tuple[str, ...]
    new: tuple[str, ...]

    @property
    def before(self) -> str:
        return ", ".join(self.old)

    @property
    def after(self) -> str:
        return ", ".join(self.new)


@dataclass(frozen=True)
class ChangeIdentifier(ListChange):
    @property
    def field(self) -> str:
        return "schema.identifierColumns"

    @property
    def sentence(self) -> str:
        return f"identify rows by {self.after}" if self.new else "identify rows by no column any more"


@dataclass(frozen=True)
class ChangePartitioning(ListChange):
    @property
    def field(self) -> str:
        return "partitioning"

    @property
    def sentence(self) -> str:
        how = f"by {self.after}" if self.new else "not at all"
        return f"partition new files {how} (files that are there keep theirs: {self.before or 'none'})"

    @property
    def done(self) -> str:
        return f"changed the partitioning of new files from {self.before or 'none'} to {self.after or 'none'}"


@dataclass(frozen=True)
class ChangeSortOrder(ListChange):
    @property
    def field(self) -> str:
        return "layout.order.columns"

    @property
    def sentence(self) -> str:
        return f"sort new files by {self.after}" if self.new else "sort new files no more"

    @property
    def done(self) -> str:
        return f"changed the sort order of new files from {self.before or 'none'} to {self.after or 'none'}"


@dataclass(frozen=True)
class SetProperty(Change):
    key: str
    old: str | None
    new: str

    @property
    def field(self) -> str:
        return f"properties[{self.key}]"

    @property
    def before(self) -> str | None:
        return self.old

    @property
    def after(self) -> str:
        return self.new

    @property
    def sentence(self) -> str:
        return f"set property {self.key} to {self.new!r}" + (f" (it was {self.old!r})" if self.old is not None else "")


@dataclass(frozen=True)
class UnsetProperty(Change):
    key: str
    old: str

    @property
    def field(self) -> str:
        return f"properties[{self.key}]"

    @property
    def before(self) -> str:
        return self.old

    @property
    def sentence(self) -> str:
        return f"remove property {self.key} (it was {self.old!r})"


def _boolean(value: bool) -> str:
    return "true" if value else "false"
