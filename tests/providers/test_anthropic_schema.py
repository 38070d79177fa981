"""JSON Schemas in the form that Anthropic's structured outputs take."""

from typing import Any, cast

import pytest
from anthropic import transform_schema
from pydantic import BaseModel, Field

from activities.providers.anthropic import AnthropicProvider
from activities.providers.anthropic_schema import native_schema
from activities.providers.anthropic_wire import build_body
from tests.support.model_requests import model_request
from zidane_core.values import Json


class _Address(BaseModel):
    city: str
    zip: str | None = None


class _Person(BaseModel):
    """A person."""

    name: str = Field(min_length=1, description="In full.")
    age: int = Field(ge=0, le=150)
    home: _Address
    tags: list[str] = Field(min_length=1, max_length=3)


SHAPES: tuple[Json, ...] = (
    _Person.model_json_schema(),
    {"type": "object", "properties": {"a": {"type": "string", "format": "uri"}}},
    {"type": "object", "properties": {"a": {"enum": ["x", 1, None]}}, "required": ["a"]},
    {"type": "object", "properties": {"a": {"oneOf": [{"type": "null"}, {"const": 3}]}}},
    {
        "type": "object",
        "properties": {"a": {"type": "array", "minItems": 2, "items": {"type": "null"}}},
    },
    {"type": "object", "properties": {"a": {"type": "number", "minimum": 1, "title": "A"}}},
)


@pytest.mark.parametrize("schema", SHAPES)
def test_the_form_is_that_of_the_vendors_own_transform(schema: Any) -> None:
    """OUT-02."""
    assert _plain(native_schema(schema)) == _plain(transform_schema(schema))


def test_keywords_that_the_service_refuses_move_into_the_description() -> None:
    """OUT-02."""
    schema: Json = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {"n": {"type": "integer", "minimum": 1, "description": "Count."}},
        "required": ["n"],
        "additionalProperties": True,
    }
    assert native_schema(schema) == {
        "type": "object",
        "properties": {"n": {"type": "integer", "description": "Count.\n\n{minimum: 1}"}},
        "required": ["n"],
        "additionalProperties": False,
    }


def test_several_types_become_branches() -> None:
    """OUT-02: the vendor's transform cannot, the service can."""
    schema: Json = {
        "type": "object",
        "properties": {"a": {"type": ["string", "null"], "enum": ["x", None], "title": "A"}},
    }
    made = native_schema(schema)
    assert made is not None
    assert made["properties"] == {
        "a": {"anyOf": [{"enum": ["x"], "title": "A"}, {"enum": [None], "title": "A"}]}
    }


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {"type": "object", "additionalProperties": {"type": "string"}},
        {"type": "object", "properties": {"any": {}}},
        {"type": "object", "properties": {"any": True}},
        {"type": "object", "properties": {"a": {"type": "date"}}},
        {"type": "object", "properties": {"a": {"type": "null"}}, "required": ["b"]},
        {"type": "object", "properties": {"self": {"$ref": "#"}}},
        {"type": "object", "properties": {"a": {"$ref": "https://example.com/schema"}}},
        {
            "type": "object",
            "properties": {"a": {"$ref": "#/$defs/N"}},
            "$defs": {"N": {"type": "object", "properties": {"next": {"$ref": "#/$defs/N"}}}},
        },
    ],
)
def test_a_schema_without_such_a_form_is_told_to_the_model(schema: Any) -> None:
    """OUT-02: a value of any type, an object of any keys, and one that refers to itself."""
    assert native_schema(schema) is None
    body = build_body(model_request(system="Be brief.", output_schema=schema))
    assert "output_config" not in body
    assert [block["text"][:9] for block in body["system"]] == ["Be brief.", "Give the "]
    assert "cache_control" in body["system"][-1]


def test_the_schema_goes_beside_the_effort() -> None:
    """OUT-02, THNK-03."""
    schema: Json = {
        "type": "object",
        "properties": {"n": {"type": "integer"}},
        "required": ["n"],
        "additionalProperties": False,
    }
    body = build_body(model_request(thinking="low", output_schema=schema))
    assert body["output_config"] == {
        "effort": "low",
        "format": {"type": "json_schema", "schema": schema},
    }


@pytest.mark.parametrize(
    ("model", "supports"),
    [
        ("claude-opus-5-5", True),
        ("claude-haiku-4-5", True),
        ("claude-opus-4-1", False),
        ("claude-sonnet-4-20250514", False),
        ("kimi-k3", False),
    ],
)
def test_models_that_are_too_old_are_not_held_to_a_schema(model: str, supports: bool) -> None:
    """OUT-02."""
    assert AnthropicProvider(api_key="k").supports_schema(model) is supports


def _plain(value: Any) -> Any:
    """Without the vendor's way of writing values into descriptions."""
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        said = str(fields.get("description", "")).split("{")[0]
        plain = {key: _plain(item) for key, item in fields.items()}
        return (
            {**plain, "description": said} if isinstance(plain.get("description"), str) else plain
        )
    return [_plain(item) for item in cast("list[Any]", value)] if isinstance(value, list) else value
