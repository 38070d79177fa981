"""Simple coercions of a call's arguments towards its schema; the check itself is an activity's.

Models write `"true"` for true, `"3"` for 3, or an array as a JSON string. A value is changed
only when the schema does not take it as it is and takes the changed one by its type.
"""

import json
from typing import cast

from pydantic import JsonValue

from zidane_core.values import Json

_TRUE_FALSE = {"true": True, "false": False}


def coerce_arguments(arguments: Json, schema: Json) -> Json:
    """Return the arguments with simple coercions by the schema's top-level properties.

    A string stays as it is wherever the schema takes a string.

    Implements: TOOL-08, K-OPENAI-08.
    """
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return arguments
    return {name: _coerce(value, _types(properties.get(name))) for name, value in arguments.items()}


def _types(prop: JsonValue) -> frozenset[str]:
    if not isinstance(prop, dict):
        return frozenset()
    kind = prop.get("type")
    found: set[str] = {kind} if isinstance(kind, str) else set()
    if isinstance(kind, list):
        found.update(item for item in kind if isinstance(item, str))
    for branch in ("anyOf", "oneOf"):
        options = prop.get(branch)
        for option in options if isinstance(options, list) else []:
            found |= _types(option)
    return frozenset(found)


def _coerce(value: JsonValue, types: frozenset[str]) -> JsonValue:
    if not isinstance(value, str) or not types or "string" in types:
        return value
    if "boolean" in types and value.lower() in _TRUE_FALSE:
        return _TRUE_FALSE[value.lower()]
    try:
        decoded = cast(JsonValue, json.loads(value))
    except ValueError:
        return value
    return decoded if _type_of(decoded) & types else value


def _type_of(value: JsonValue) -> set[str]:
    match value:
        case bool():
            return {"boolean"}
        case int():
            return {"integer", "number"}
        case float():
            return {"number"}
        case list():
            return {"array"}
        case dict():
            return {"object"}
        case None:
            return {"null"}
        case str():
            return {"string"}
