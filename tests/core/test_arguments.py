import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from zidane_core.arguments import coerce_arguments
from zidane_core.values import Json


def coerced(value: JsonValue, prop: Json) -> JsonValue:
    return coerce_arguments({"x": value}, {"type": "object", "properties": {"x": prop}})["x"]


@pytest.mark.parametrize(
    ("value", "prop", "becomes"),
    [
        ("true", {"type": "boolean"}, True),
        ("False", {"type": "boolean"}, False),
        ("yes", {"type": "boolean"}, "yes"),
        ("3", {"type": "integer"}, 3),
        ("3.5", {"type": "integer"}, "3.5"),
        ("3.5", {"type": "number"}, 3.5),
        ("3", {"type": "number"}, 3),
        ("true", {"type": "integer"}, "true"),
        ("null", {"type": "null"}, None),
        ('["a"]', {"type": "array"}, ["a"]),
        ('{"a": 1}', {"type": "object"}, {"a": 1}),
        ("[1", {"type": "array"}, "[1"),
        ("3", {"type": ["integer", "null"]}, 3),
        ("null", {"anyOf": [{"type": "integer"}, {"type": "null"}]}, None),
        ("3", {"oneOf": [{"type": "integer"}, {"type": "boolean"}]}, 3),
    ],
)
def test_simple_strings_become_what_the_schema_wants(
    value: JsonValue, prop: Json, becomes: JsonValue
):
    """TOOL-08, K-OPENAI-08."""
    made = coerced(value, prop)
    assert made == becomes
    assert type(made) is type(becomes)


@pytest.mark.parametrize(
    "prop", [{"type": "string"}, {"type": ["string", "integer"]}, {"anyOf": [{"type": "string"}]}]
)
def test_a_string_stays_where_the_schema_takes_one(prop: Json):
    """TOOL-08: "3" may be meant."""
    assert coerced("3", prop) == "3"


@pytest.mark.parametrize("prop", [{}, {"enum": [1, 2]}, {"$ref": "#/x"}])
def test_a_property_without_a_type_changes_nothing(prop: Json):
    assert coerced("3", prop) == "3"


@given(st.dictionaries(st.text(max_size=3), st.integers() | st.booleans() | st.none()))
def test_what_is_no_string_is_never_touched(arguments: Json):
    schema: Json = {"properties": {name: {"type": "array"} for name in arguments}}
    assert coerce_arguments(arguments, schema) == arguments


def test_unknown_arguments_and_odd_schemas_pass_through():
    assert coerce_arguments({"y": "3"}, {"properties": {"x": {"type": "integer"}}}) == {"y": "3"}
    assert coerce_arguments({"x": "3"}, {"properties": []}) == {"x": "3"}
    assert coerce_arguments({"x": "3"}, {}) == {"x": "3"}
