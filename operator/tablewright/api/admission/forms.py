"""How each text of the API is written, by the pattern that the CRDs give it: a pattern tells people nothing."""

from collections.abc import Iterator
from functools import cache
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from tablewright.api.texts import Form


@cache
def forms() -> dict[str, Form]:
    # Only whoever finds a problem pays for these: they bring the table library with them.
    from tablewright.api.catalog import TableCatalog
    from tablewright.api.policy import TablePolicy
    from tablewright.api.run import MaintenanceRun
    from tablewright.api.table import ManagedTable

    kinds = (ManagedTable, TableCatalog, TablePolicy, MaintenanceRun)
    return {form.pattern: form for kind in kinds for form in _of_model(kind, set())}


def _of_model(model: type[BaseModel], seen: set[type[BaseModel]]) -> Iterator[Form]:
    if model not in seen:
        seen.add(model)
        for field in model.model_fields.values():
            yield from _of_field(field, seen)


def _of_field(field: FieldInfo, seen: set[type[BaseModel]]) -> Iterator[Form]:
    yield from (each for each in field.metadata if isinstance(each, Form))
    yield from _of_annotation(field.annotation, seen)


def _of_annotation(annotation: Any, seen: set[type[BaseModel]]) -> Iterator[Form]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield from _of_model(annotation, seen)
    elif get_origin(annotation) is Annotated:
        yield from (each for each in annotation.__metadata__ if isinstance(each, Form))
        yield from _of_annotation(annotation.__origin__, seen)
    else:
        for inner in get_args(annotation):
            yield from _of_annotation(inner, seen)
