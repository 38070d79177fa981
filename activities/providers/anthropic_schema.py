"""A JSON Schema in the narrower form that Anthropic's structured outputs take; pure.

As the vendor's own transform does: objects are closed, keywords that the service refuses move
into the description, where the model may still heed them. Where that would change which answers
are right there is no such form, and the model is told of the schema instead. Either way the
answer is checked against the schema itself, elsewhere.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, cast

from pydantic import JsonValue

from zidane_core.values import Json

_FORMATS = frozenset(
    {
        "date-time",
        "time",
        "date",
        "duration",
        "email",
        "hostname",
        "uri",
        "ipv4",
        "ipv6",
        "uuid",
    }
)
_UNIONS = {"anyOf": "anyOf", "oneOf": "anyOf", "allOf": "allOf"}
_DEFINITIONS = ("$defs", "definitions")
_NOTES = frozenset({"$schema", "$id", "$comment"})
"""Keywords that say nothing about answers."""
_TYPES = frozenset({"object", "array", "string", "integer", "number", "boolean", "null"})


class _NoFormError(Exception):
    """The schema has no form that the service takes."""


def native_schema(schema: Json) -> Json | None:
    """Return the schema as the service takes it; None when it has no such form.

    The result keeps every property, its order and what is required. It has none when the schema
    refers to itself or to another document, or holds a value of any type or an object of any
    keys.
    """
    if any(not ref.startswith("#/") for ref in _refs(schema)) or _is_recursive(schema):
        return None
    try:
        return _node(schema)
    except _NoFormError:
        return None


def schema_note(schema: Json) -> str:
    """Return what a model is told of a schema that it cannot be held to."""
    written = json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
    return (
        "Give the final answer as JSON only, with no other text and no code fence. It must fit "
        f"this JSON Schema:\n{written}"
    )


def _node(value: JsonValue) -> Json:
    if not isinstance(value, dict):
        raise _NoFormError
    rest = {key: item for key, item in value.items() if key not in _NOTES}
    made: Json = {}
    for key in _DEFINITIONS:
        found = rest.pop(key, None)
        if isinstance(found, dict):
            made[key] = {name: _node(each) for name, each in found.items()}
    if "$ref" in rest:
        # A reference may have no neighbours there, such as a description.
        return {**made, "$ref": rest["$ref"]}
    kinds = _kinds(rest)
    if len(kinds) > 1:
        return {**made, "anyOf": [_node(_of_kind(rest, kind)) for kind in kinds]}
    made.update(_constraints(rest, kinds[0] if kinds else None))
    for key in ("description", "title"):
        if isinstance(text := rest.pop(key, None), str):
            made[key] = text
    rest.pop("type", None)
    if rest:
        said = ", ".join(f"{key}: {_shown(item)}" for key, item in rest.items())
        before = f"{made['description']}\n\n" if "description" in made else ""
        made["description"] = f"{before}{{{said}}}"
    return made


def _kinds(schema: Mapping[str, JsonValue]) -> list[str]:
    """Return the types that the schema names, or the one that its keywords imply."""
    named = schema.get("type")
    kinds = named if isinstance(named, list) else [named] if named is not None else []
    if any(kind not in _TYPES for kind in kinds):
        raise _NoFormError
    if not kinds and "properties" in schema:
        return ["object"]
    return [str(kind) for kind in kinds]


def _of_kind(schema: Json, kind: str) -> Json:
    """Return the branch for one of several types; a list of values goes to its own type."""
    branch = {**schema, "type": kind}
    values = schema.get("enum")
    if isinstance(values, list):
        branch["enum"] = [
            each for each in values if _kind_of(each) in (kind, *_WIDER.get(kind, ()))
        ]
        if not branch["enum"]:
            raise _NoFormError
    return branch


_WIDER = {"number": ("integer",)}


def _kind_of(value: JsonValue) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case dict():
            return "object"


def _constraints(rest: Json, kind: str | None) -> Json:
    """Take what the service knows out of `rest` and return it in the service's form."""
    made: Json = {}
    for key in ("enum", "const"):
        values = rest.get(key)
        listed = values if key == "enum" and isinstance(values, list) else [values]
        if key in rest and listed and not any(isinstance(each, dict | list) for each in listed):
            made[key] = rest.pop(key)
    if made:
        return made
    for key, name in _UNIONS.items():
        branches = rest.get(key)
        if isinstance(branches, list) and branches:
            del rest[key]
            return {name: [_node(branch) for branch in branches]}
    if kind is None:
        raise _NoFormError
    made["type"] = kind
    match kind:
        case "object":
            made.update(_object(rest))
        case "array":
            made.update(_array(rest))
        case "string" if rest.get("format") in _FORMATS:
            made["format"] = rest.pop("format")
        case _:
            pass
    return made


def _object(rest: Json) -> Json:
    properties = rest.pop("properties", None)
    extra = rest.pop("additionalProperties", None)
    if not isinstance(properties, dict) or not properties:
        if extra is not False:
            # An object of any keys; closed, it could only be empty.
            raise _NoFormError
        properties = {}
    made: Json = {
        "properties": {key: _node(each) for key, each in properties.items()},
        "additionalProperties": False,
    }
    if isinstance(required := rest.pop("required", None), list):
        if any(key not in properties for key in required):
            raise _NoFormError
        made["required"] = required
    return made


def _array(rest: Json) -> Json:
    made: Json = {}
    if "items" in rest:
        made["items"] = _node(rest.pop("items"))
    if rest.get("minItems") in (0, 1):
        made["minItems"] = rest.pop("minItems")
    return made


def _shown(value: JsonValue) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _refs(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in cast("dict[str, Any]", value).items():
            if key == "$ref" and isinstance(item, str):
                yield item
            else:
                yield from _refs(item)
    elif isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from _refs(item)


def _is_recursive(schema: Json) -> bool:
    """Say whether a definition reaches itself."""
    reached: dict[str, list[str]] = {}
    for place in _DEFINITIONS:
        found = schema.get(place)
        if isinstance(found, dict):
            reached.update({f"#/{place}/{name}": list(_refs(each)) for name, each in found.items()})
    # A reference to anything but a definition may be to a part that holds it.
    if any(ref not in reached for ref in _refs(schema)):
        return True
    return any(_reaches(name, name, reached, frozenset()) for name in reached)


def _reaches(goal: str, at: str, reached: Mapping[str, list[str]], seen: frozenset[str]) -> bool:
    return any(
        ref == goal or (ref not in seen and _reaches(goal, ref, reached, seen | {ref}))
        for ref in reached[at]
    )
