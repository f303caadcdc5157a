"""The schema's types as SQL writes them."""

import pyarrow as pa

SQL_TYPES = {
    pa.string(): "VARCHAR",
    pa.bool_(): "BOOLEAN",
    pa.int64(): "BIGINT",
    pa.float64(): "DOUBLE",
    pa.timestamp("us", tz="UTC"): "TIMESTAMP WITH TIME ZONE",
}


def sql_type(kind: pa.DataType) -> str:
    if pa.types.is_list(kind):
        return f"{sql_type(kind.value_type)}[]"
    if pa.types.is_map(kind):
        return f"MAP({sql_type(kind.key_type)}, {sql_type(kind.item_type)})"
    if pa.types.is_struct(kind):
        inner = ", ".join(f"{field.name} {sql_type(field.type)}" for field in kind)
        return f"STRUCT({inner})"
    return SQL_TYPES[kind]
