"""Column types as people write them: Iceberg's own words, without ids.

A declaration says `list<struct<sku: string, qty: int>>`; ids belong to the table, which gives and keeps them. Types
come out as PyIceberg's, with the id 0 in every nested place. `required` may stand before any nested type, as in
Iceberg's own notation (`struct<sku: required string>`); what does not say so is optional. Errors point at the
character.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyiceberg.exceptions import ValidationError
from pyiceberg.transforms import (
    BucketTransform,
    Transform,
    TruncateTransform,
    UnknownTransform,
    VoidTransform,
    parse_transform,
)
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    GeographyType,
    GeometryType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UnknownType,
    UUIDType,
)

from tableformat.errors import PermanentError
from tableformat.suggestions import nearest
from tableformat.types_as_written import VARIANT, TypeAsWritten, is_geospatial

UNASSIGNED_ID = 0

MAX_DEPTH = 32
"""Deeper nesting than this is no table that people work with, and would exhaust the stack of every reader."""

_PLAIN: dict[str, Callable[[], IcebergType]] = {
    "boolean": BooleanType,
    "int": IntegerType,
    "long": LongType,
    "float": FloatType,
    "double": DoubleType,
    "date": DateType,
    "time": TimeType,
    "timestamp": TimestampType,
    "timestamptz": TimestamptzType,
    "timestamp_ns": TimestampNanoType,
    "timestamptz_ns": TimestamptzNanoType,
    "string": StringType,
    "uuid": UUIDType,
    "binary": BinaryType,
    "unknown": UnknownType,
    VARIANT: lambda: TypeAsWritten(VARIANT),
}
_WITH_PARAMETERS = ("decimal", "fixed", "geometry", "geography", "list", "map", "struct")

# What people write who come from another engine, and what Iceberg calls it.
_OTHER_ENGINES = {
    "integer": "int",
    "bigint": "long",
    "varchar": "string",
    "text": "string",
    "bool": "boolean",
    "real": "float",
    "array": "list",
    "row": "struct",
    "numeric": "decimal",
    "bytes": "binary",
    "varbinary": "binary",
    "datetime": "timestamp",
}


class InvalidTypeError(PermanentError):
    """A type that could not be read; `position` is the offending character, counted from 0."""

    def __init__(self, text: str, position: int, problem: str) -> None:
        super().__init__(f"{problem} (at character {position + 1})\n  {text}\n  {' ' * position}^")
        self.text = text
        self.position = position
        self.problem = problem


def parse_type(text: str) -> IcebergType:
    """The type that the text names; `InvalidTypeError` if it names none."""
    parser = _Parser(text)
    parsed = parser.type(depth=0)
    parser.end()
    return parsed


def type_text(iceberg_type: IcebergType) -> str:
    """The text that `parse_type` reads back as the same type, ids aside."""
    if isinstance(iceberg_type, StructType):
        return f"struct<{', '.join(_field_text(field) for field in iceberg_type.fields)}>"
    if isinstance(iceberg_type, ListType):
        return f"list<{_required(iceberg_type.element_required)}{type_text(iceberg_type.element_type)}>"
    if isinstance(iceberg_type, MapType):
        value = f"{_required(iceberg_type.value_required)}{type_text(iceberg_type.value_type)}"
        return f"map<{type_text(iceberg_type.key_type)}, {value}>"
    if isinstance(iceberg_type, TypeAsWritten) and is_geospatial(iceberg_type):
        name, *parameters = iceberg_type.parts
        return f"{name}({', '.join(map(repr, parameters))})"
    return str(iceberg_type)


def _field_text(field: NestedField) -> str:
    plain = bool(field.name) and all(_is_name_character(character) for character in field.name)
    name = field.name if plain and not field.name[0].isdigit() else "`" + field.name.replace("`", "``") + "`"
    return f"{name}: {_required(field.required)}{type_text(field.field_type)}"


def _required(required: bool) -> str:
    return "required " if required else ""


def _is_name_character(character: str) -> bool:
    return character.isalnum() or character == "_"


@dataclass
class _Parser:
    text: str
    position: int = 0

    def type(self, depth: int) -> IcebergType:
        self._skip_blanks()
        start = self.position
        if depth > MAX_DEPTH:
            raise self._error(start, f"types nest deeper than {MAX_DEPTH} levels")
        word = self._word()
        if not word:
            raise self._error(start, f"a type is expected here, {self._found(start)}")
        if word in _PLAIN:
            return _PLAIN[word]()
        with_parameters: dict[str, Callable[[], IcebergType]] = {
            "decimal": self._decimal,
            "fixed": self._fixed,
            "geometry": lambda: self._geospatial(GeometryType, at_most=1),
            "geography": lambda: self._geospatial(GeographyType, at_most=2),
            "list": lambda: self._list(depth),
            "map": lambda: self._map(depth),
            "struct": lambda: self._struct(depth),
        }
        if word in with_parameters:
            return with_parameters[word]()
        raise self._unknown_word(word, start)

    def end(self) -> None:
        self._skip_blanks()
        if self.position < len(self.text):
            raise self._error(self.position, f"the type ends here, {self._found(self.position)}")

    def _decimal(self) -> DecimalType:
        self._expect("(")
        precision_at, precision = self._number("the precision")
        self._expect(",")
        scale_at, scale = self._number("the scale")
        self._expect(")")
        if not 1 <= precision <= 38:
            raise self._error(precision_at, f"the precision of a decimal is 1 to 38, not {precision}")
        if scale > precision:
            raise self._error(scale_at, f"the scale {scale} is larger than the precision {precision}")
        return DecimalType(precision, scale)

    def _fixed(self) -> FixedType:
        opening = self._expect("[", "(")
        length_at, length = self._number("the length")
        self._expect("]" if opening == "[" else ")")
        if length < 1:
            raise self._error(length_at, "the length of a fixed is at least 1")
        return FixedType(length)

    def _list(self, depth: int) -> ListType:
        self._expect("<")
        required = self._requirement()
        element = self.type(depth + 1)
        self._expect(">")
        return ListType(element_id=UNASSIGNED_ID, element=element, element_required=required)

    def _map(self, depth: int) -> MapType:
        self._expect("<")
        self._skip_blanks()
        key_at = self.position
        if self._requirement(given_only=True):
            raise self._error(key_at, "a map's key is always required: leave the word out")
        key = self.type(depth + 1)
        self._expect(",")
        required = self._requirement()
        value = self.type(depth + 1)
        self._expect(">")
        return MapType(
            key_id=UNASSIGNED_ID, key_type=key, value_id=UNASSIGNED_ID, value_type=value, value_required=required
        )

    def _struct(self, depth: int) -> StructType:
        self._expect("<")
        fields: list[NestedField] = []
        seen: dict[str, str] = {}
        while True:
            self._skip_blanks()
            at = self.position
            name = self._field_name()
            if name.lower() in seen:
                raise self._error(at, f"the struct has a field {seen[name.lower()]!r} already (engines ignore case)")
            seen[name.lower()] = name
            self._expect(":")
            required = self._requirement()
            fields.append(NestedField(UNASSIGNED_ID, name, self.type(depth + 1), required=required))
            if self._expect(",", ">") == ">":
                return StructType(*fields)

    def _field_name(self) -> str:
        start = self.position
        if self._peek() == "`":
            return self._quoted("`", "the field's name")
        name = self._word()
        if not name:
            raise self._error(start, f"a field's name is expected here, {self._found(start)}")
        if name[0].isdigit():
            raise self._error(
                start, "a field's name is expected here; ids are the table's own (quote with ` if it is a name)"
            )
        return name

    def _requirement(self, *, given_only: bool = False) -> bool:
        self._skip_blanks()
        start = self.position
        word = self._word()
        if word in ("required", "optional"):
            return word == "required" or given_only
        self.position = start
        return False

    def _geospatial(self, plain: Callable[[], IcebergType], *, at_most: int) -> IcebergType:
        """With a reference system, in the words of Iceberg's Java library, which takes quotes for a part of it."""
        parameters = self._quoted_parameters(at_most=at_most)
        name = str(plain())
        return TypeAsWritten(f"{name}({', '.join(parameters)})") if parameters else plain()

    def _quoted_parameters(self, *, at_most: int) -> list[str]:
        self._skip_blanks()
        if self._peek() != "(":
            return []
        self._expect("(")
        parameters: list[str] = []
        while True:
            self._skip_blanks()
            if self._peek() not in ("'", '"'):
                raise self._error(self.position, f"a quoted name is expected here, {self._found(self.position)}")
            parameters.append(self._quoted(self._peek(), "the name"))
            if self._expect(*((",", ")") if len(parameters) < at_most else (")",))) == ")":
                return parameters

    def _quoted(self, quote: str, what: str) -> str:
        start = self.position
        self.position += 1
        value = ""
        while self.position < len(self.text):
            character = self.text[self.position]
            self.position += 1
            if character != quote:
                value += character
            elif quote == "`" and self._peek() == quote:  # doubled: the character itself
                value += quote
                self.position += 1
            elif not value:
                raise self._error(start, f"{what} is empty")
            else:
                return value
        raise self._error(start, f"{what} has no closing {quote}")

    def _number(self, what: str) -> tuple[int, int]:
        self._skip_blanks()
        start = self.position
        while self._peek() in tuple("0123456789"):
            self.position += 1
        if start == self.position:
            raise self._error(start, f"{what} is expected here as a whole number, {self._found(start)}")
        return start, int(self.text[start : self.position])

    def _expect(self, *wanted: str) -> str:
        self._skip_blanks()
        found = self._peek()
        if found not in wanted:
            alternatives = " or ".join(f"'{character}'" for character in wanted)
            raise self._error(self.position, f"{alternatives} is expected here, {self._found(self.position)}")
        self.position += 1
        return found

    def _word(self) -> str:
        start = self.position
        while self.position < len(self.text) and _is_name_character(self.text[self.position]):
            self.position += 1
        return self.text[start : self.position]

    def _peek(self) -> str:
        return self.text[self.position] if self.position < len(self.text) else ""

    def _skip_blanks(self) -> None:
        while self._peek().isspace():
            self.position += 1

    def _found(self, position: int) -> str:
        return f"but '{self.text[position]}' was found" if position < len(self.text) else "but the text ends"

    def _unknown_word(self, word: str, start: int) -> InvalidTypeError:
        lower = word.lower()
        meant = _OTHER_ENGINES.get(lower, lower)
        if meant in _PLAIN or meant in _WITH_PARAMETERS:
            problem = f"there is no type '{word}'; Iceberg calls it '{meant}'"
        else:
            types = (*_PLAIN, *_WITH_PARAMETERS)
            near = nearest(word, types)
            problem = f"there is no type '{word}'; " + (
                f"did you mean '{near}'?" if near else f"use {', '.join(types)}"
            )
        return self._error(start, problem)

    def _error(self, position: int, problem: str) -> InvalidTypeError:
        return InvalidTypeError(self.text, position, problem)


def parse_partition_transform(text: str) -> Transform[Any, Any]:
    """A transform as Iceberg writes it: identity, bucket[16], truncate[4], year, month, day, hour."""
    try:
        transform = parse_transform(text.strip())
    except ValidationError:  # bucket or truncate without its number
        transform = UnknownTransform(text)
    if isinstance(transform, (UnknownTransform, VoidTransform)):
        known = "identity, bucket[N], truncate[W], year, month, day, hour"
        problem = f"there is no transform {text!r}; there are {known}"
        raise InvalidTypeError(text, 0, problem)
    number = transform.num_buckets if isinstance(transform, BucketTransform) else 1
    if (transform.width if isinstance(transform, TruncateTransform) else number) < 1:
        raise InvalidTypeError(text, text.index("[") + 1, "the number of a transform is at least 1")
    return transform
