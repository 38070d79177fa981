"""A JSON Schema in the narrower form that OpenAI's strict mode takes; pure.

Strict mode wants every object closed and every property required, and refuses a schema that has
anything outside its subset of keywords. A schema that cannot be put so without changing which
answers are right is sent as it is, without strict mode; the answer is checked either way.
"""

from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from zidane_core.values import Json

MAX_DEPTH = 10
"""Levels of nesting that strict mode takes."""
MAX_PROPERTIES = 5_000

_DROPPED = frozenset({"$schema", "$id", "$comment", "default", "examples", "deprecated"})
"""Keywords that say nothing about which answers are right, and that strict mode refuses."""
_KEPT = frozenset(
    {
        "type",
        "title",
        "description",
        "enum",
        "const",
        "pattern",
        "multipleOf",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "minItems",
        "maxItems",
    }
)
_FORMATS = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
)


class _NotStrictError(Exception):
    """The schema has no strict form."""


def strict_schema(schema: Json) -> Json | None:
    """Return the schema as strict mode takes it; None when it has no such form.

    The result accepts only answers that the given schema accepts. Properties that may be null
    become required; one that may only be left out has no strict form, and neither has an object
    of any keys, `allOf`, `oneOf`, or a root that is not an object.
    """
    if schema.get("type") != "object" or "anyOf" in schema or "$ref" in schema:
        return None
    walk = _Walk(schema)
    try:
        return walk.node(schema, 0)
    except _NotStrictError:
        return None


class _Walk:
    def __init__(self, root: Json) -> None:
        self._root = root
        self._properties = 0

    def node(self, schema: JsonValue, depth: int) -> Json:
        if not isinstance(schema, dict) or depth > MAX_DEPTH:
            raise _NotStrictError
        made: Json = {}
        for keyword, value in schema.items():
            self._keyword(made, keyword, value, depth)
        if "object" in _types(schema):
            made.update(self._object(schema, depth))
        elif "properties" in schema:
            raise _NotStrictError
        if "array" in _types(schema) and "items" not in schema:
            raise _NotStrictError
        if not made.keys() & {"type", "enum", "const", "anyOf", "$ref"}:
            # A value of any type.
            raise _NotStrictError
        return made

    def _keyword(self, made: Json, keyword: str, value: JsonValue, depth: int) -> None:
        if keyword in _KEPT or (keyword == "format" and value in _FORMATS):
            made[keyword] = value
        elif keyword == "items":
            made[keyword] = self.node(value, depth + 1)
        elif keyword == "anyOf" and isinstance(value, list):
            made[keyword] = [self.node(branch, depth) for branch in value]
        elif keyword in ("$defs", "definitions") and isinstance(value, dict):
            made[keyword] = {name: self.node(each, 0) for name, each in value.items()}
        elif keyword == "$ref":
            # A reference may have no neighbours there, such as a description.
            made["anyOf"] = [{"$ref": value}]
        elif keyword not in _DROPPED and keyword not in (
            "properties",
            "required",
            "additionalProperties",
        ):
            raise _NotStrictError

    def _object(self, schema: Json, depth: int) -> Json:
        properties, required = schema.get("properties"), schema.get("required", [])
        if not isinstance(properties, dict) or not isinstance(required, list):
            raise _NotStrictError
        if not properties or schema.get("additionalProperties", False) is not False:
            raise _NotStrictError
        self._properties += len(properties)
        if self._properties > MAX_PROPERTIES:
            raise _NotStrictError
        if any(not _is_nullable(each) for key, each in properties.items() if key not in required):
            raise _NotStrictError
        if any(key not in properties for key in required):
            raise _NotStrictError
        return {
            "properties": {key: self.node(each, depth + 1) for key, each in properties.items()},
            "required": list(properties),
            "additionalProperties": False,
        }


def _types(schema: Mapping[str, JsonValue]) -> Sequence[JsonValue]:
    kind = schema.get("type")
    return kind if isinstance(kind, list) else [kind]


def _is_nullable(schema: JsonValue) -> bool:
    if not isinstance(schema, dict):
        return False
    branches = schema.get("anyOf")
    if isinstance(branches, list) and any(_is_nullable(branch) for branch in branches):
        return True
    values = schema.get("enum")
    if isinstance(values, list) and None not in values:
        return False
    return "null" in _types(schema)
