"""Random types, declarations and edits of declarations, as Hypothesis strategies."""

from hypothesis import strategies as st
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

names = st.text(alphabet="abcdefgh_xyz `.ü9", min_size=1, max_size=6)

primitives: st.SearchStrategy[IcebergType] = st.one_of(
    st.sampled_from(
        [
            BooleanType(),
            IntegerType(),
            LongType(),
            FloatType(),
            DoubleType(),
            DateType(),
            TimeType(),
            TimestampType(),
            TimestamptzType(),
            StringType(),
            UUIDType(),
            BinaryType(),
        ]
    ),
    st.integers(1, 38).flatmap(lambda precision: st.builds(DecimalType, st.just(precision), st.integers(0, precision))),
    st.builds(FixedType, st.integers(1, 20)),
)


def iceberg_types(field_names: st.SearchStrategy[str] = names) -> st.SearchStrategy[IcebergType]:
    """Types of any shape, with the id 0 in every nested place, as the grammar gives them."""

    def nested(inner: st.SearchStrategy[IcebergType]) -> st.SearchStrategy[IcebergType]:
        fields = st.lists(
            st.builds(NestedField, st.just(0), field_names, inner, st.booleans()),
            min_size=1,
            max_size=3,
            unique_by=lambda field: field.name.lower(),
        )
        return st.one_of(
            st.builds(ListType, st.just(0), inner, st.booleans()),
            st.builds(MapType, st.just(0), primitives, st.just(0), inner, st.booleans()),
            fields.map(lambda chosen: StructType(*chosen)),
        )

    return st.recursive(primitives, nested, max_leaves=5)
