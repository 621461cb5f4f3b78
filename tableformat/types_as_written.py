"""Types that PyIceberg cannot parse (`variant`, `geometry(EPSG:4326)`), known by their text, which never changes.

A schema that has one then loads, and is written again to the letter. PyIceberg 0.12 takes a reference system only in
quotes, and writes it in quotes; to Iceberg's Java library these would be part of the name. Importing this module
teaches the types to PyIceberg for the whole process.
"""

import re
from functools import wraps
from typing import Any

from pydantic import ValidatorFunctionWrapHandler, model_serializer, model_validator
from pyiceberg.typedef import TableVersion
from pyiceberg.types import GeographyType, GeometryType, IcebergType, ListType, MapType, NestedField, PrimitiveType
from typing_extensions import override

VARIANT = "variant"
_GEOSPATIAL = re.compile(r"(geometry|geography)\s*\(([^,]*?)(?:,(.*))?\)", re.IGNORECASE)


class TypeAsWritten(PrimitiveType):
    root: str

    def __init__(self, root: str) -> None:
        super().__init__(root=root)

    @model_validator(mode="wrap")  # type: ignore[misc]  # as PyIceberg's own, which this takes the place of
    @classmethod
    def handle_primitive_type(cls, v: Any, handler: ValidatorFunctionWrapHandler) -> IcebergType:
        return handler(v)  # type: ignore[no-any-return]  # the text as it is, which PyIceberg's own would parse

    @model_serializer
    def ser_model(self) -> str:
        return self.root

    @property
    @override
    def is_primitive(self) -> bool:
        """As in Java, no value of it identifies, orders or partitions rows."""
        return False

    @property
    def parts(self) -> tuple[str, ...]:
        """Its name, and what follows in brackets, without the quotes that PyIceberg writes there."""
        if match := _GEOSPATIAL.fullmatch(self.root):
            name, *parameters = match.groups()
            return name.lower(), *(each.strip().strip("'\"") for each in parameters if each is not None)
        return (self.root,)

    @override
    def minimum_format_version(self) -> TableVersion:
        return 3

    def __repr__(self) -> str:
        return f"TypeAsWritten({self.root!r})"

    def __getnewargs__(self) -> tuple[str]:
        return (self.root,)

    def __hash__(self) -> int:
        return hash(self.parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TypeAsWritten) and self.parts == other.parts


def is_geospatial(iceberg_type: IcebergType) -> bool:
    as_written = isinstance(iceberg_type, TypeAsWritten) and len(iceberg_type.parts) > 1
    return as_written or isinstance(iceberg_type, GeometryType | GeographyType)


def is_variant(iceberg_type: IcebergType) -> bool:
    return isinstance(iceberg_type, TypeAsWritten) and iceberg_type.root == VARIANT


def _type(given: Any) -> Any:
    if isinstance(given, str) and (given == VARIANT or _GEOSPATIAL.fullmatch(given)):
        return TypeAsWritten(given)
    return given


def _teach(model: type[IcebergType], places: dict[int, tuple[str, ...]]) -> None:
    """Let the constructor know the types: every name of a type comes in through one, from JSON as well."""
    construct: Any = model.__init__
    names = [name for aliases in places.values() for name in aliases]

    @wraps(construct)
    def knowing(self: IcebergType, *values: Any, **named: Any) -> None:
        positional = (_type(value) if place in places else value for place, value in enumerate(values))
        construct(
            self, *positional, **{name: _type(value) if name in names else value for name, value in named.items()}
        )

    model.__init__ = knowing  # type: ignore[method-assign, assignment]


_teach(NestedField, {2: ("type", "field_type")})
_teach(ListType, {1: ("element",)})
_teach(MapType, {1: ("key", "key_type"), 3: ("value", "value_type")})
