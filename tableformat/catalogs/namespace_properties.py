"""The one rule for the properties of a namespace, in every catalog: they are text before anything is written.

Numbers and booleans become text as PyIceberg makes it of a table's properties. Whatever else Python could turn into
text (None, a list, bytes) is rejected: each server would do something of its own with it, and the namespace might not
be readable afterwards.
"""

from pyiceberg.typedef import Properties
from pyiceberg.types import transform_dict_value_to_str


def as_text(properties: Properties) -> dict[str, str]:
    """The properties with text for keys and values; `ValueError` names the one that cannot be text."""
    for key, value in properties.items():
        if not isinstance(key, str):
            raise ValueError(
                f"namespace property {key!r}: the key is of type {type(key).__name__}. Use text for the key"
            )
        if not isinstance(value, str | int | float):  # a bool is an int
            raise ValueError(
                f"namespace property {key!r}: the value is of type {type(value).__name__}. Use text, or remove the "
                "property"
            )
    text = transform_dict_value_to_str(properties)
    for key, value in text.items():
        try:
            f"{key}{value}".encode()
        except UnicodeEncodeError:
            raise ValueError(f"namespace property {key!r}: key or value is not valid Unicode: {value!r}") from None
    return text
