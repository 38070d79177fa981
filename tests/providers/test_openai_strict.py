"""JSON Schemas in the form of OpenAI's strict mode, and those that have none."""

from typing import Any

import pytest
from pydantic import BaseModel

from activities.providers.openai_strict import strict_schema
from zidane_core.values import Json


def closed(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


TEXT = {"type": "string"}
NULLABLE = {"anyOf": [{"type": "string"}, {"type": "null"}]}


class Inner(BaseModel):
    name: str
    note: str | None = None


class Outer(BaseModel):
    inner: Inner
    others: list[Inner]


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        (closed(a=TEXT), closed(a=TEXT)),
        ({"type": "object", "properties": {"a": TEXT}, "required": ["a"]}, closed(a=TEXT)),
        (
            {"type": "object", "properties": {"a": {**NULLABLE, "default": None}}},
            closed(a=NULLABLE),
        ),
        (closed(a={"type": ["string", "null"]}), closed(a={"type": ["string", "null"]})),
        (closed(a={"enum": ["x", 1]}), closed(a={"enum": ["x", 1]})),
        (
            closed(a={"$ref": "#/$defs/B", "description": "the b"})
            | {"$defs": {"B": closed(b=TEXT)}},
            closed(a={"anyOf": [{"$ref": "#/$defs/B"}], "description": "the b"})
            | {"$defs": {"B": closed(b=TEXT)}},
        ),
        ({**closed(a=TEXT), "$schema": "x", "examples": ["{}"]}, closed(a=TEXT)),
    ],
    ids=["strict", "open", "nullable", "type list", "enum", "reference", "annotations"],
)
def test_a_schema_is_closed_and_its_properties_are_required(
    schema: dict[str, Any], strict: dict[str, Any]
) -> None:
    """OUT-02."""
    assert strict_schema(schema) == strict


def test_the_given_schema_is_left_alone() -> None:
    schema: Json = {
        "type": "object",
        "properties": {"a": {"type": "string", "default": "x"}},
        "required": ["a"],
    }
    before = repr(schema)
    assert strict_schema(schema) == closed(a=TEXT)
    assert repr(schema) == before


def test_models_of_pydantic_have_a_strict_form() -> None:
    """OUT-02: nested models and fields that may be null."""
    made = strict_schema(Outer.model_json_schema())
    assert made is not None
    assert made["required"] == ["inner", "others"]
    inner: Any = made["$defs"]
    assert inner["Inner"]["required"] == ["name", "note"]
    assert inner["Inner"]["additionalProperties"] is False


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": TEXT}},
        {"type": "object", "properties": {"a": {"enum": ["x"], "type": ["string", "null"]}}},
        {"type": "object"},
        {"type": "object", "properties": {}},
        {**closed(a=TEXT), "additionalProperties": True},
        {**closed(a=TEXT), "additionalProperties": TEXT},
        {**closed(a=TEXT), "patternProperties": {"x": TEXT}},
        {**closed(a=TEXT), "required": ["a", "b"]},
        {"type": "array", "items": TEXT},
        {"anyOf": [closed(a=TEXT)]},
        {"type": "object", "anyOf": [closed(a=TEXT)]},
        {"$ref": "#/$defs/A", "$defs": {"A": closed(a=TEXT)}},
        closed(a={"type": "string", "minLength": 3}),
        closed(a={"type": "string", "format": "uri"}),
        closed(a={"allOf": [TEXT, TEXT]}),
        closed(a={"oneOf": [TEXT]}),
        closed(a={"type": "array"}),
        closed(a={}),
        closed(a=True),
        closed(a={"properties": {"b": TEXT}}),
    ],
)
def test_a_schema_that_strict_mode_would_refuse_or_change_has_no_strict_form(
    schema: dict[str, Any],
) -> None:
    """OUT-02: it is sent as it is, and the answer is checked all the same."""
    assert strict_schema(schema) is None


def test_a_schema_nested_too_deep_has_no_strict_form() -> None:
    schema: dict[str, Any] = closed(a=TEXT)
    for _ in range(11):
        schema = closed(a=schema)
    assert strict_schema(schema) is None
