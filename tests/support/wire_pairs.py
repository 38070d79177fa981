"""Recorded pairs of a request and what a service answered: files of `tests/fixtures/wire`.

A pair is a JSON object: `asked` (fields of the ModelRequest), `request` (the body that we send),
`response` (`{"sse": [lines], "ending"}` or `{"status", "headers", "body"}`), and what we make of
it: `turn` (blocks, finish_reason, usage and so on) or `failure`.
"""

import dataclasses
import json
from pathlib import Path
from typing import Any

from activities.providers.base import ModelRequest, ModelTurn
from tests.support.fake_llm import Reply, json_error
from zidane_core.models import ModelInfo
from zidane_core.session import Message
from zidane_core.tools import ToolSpec

WIRE_FILES = Path(__file__).parent.parent / "fixtures" / "wire"
Pair = dict[str, Any]


def pairs_of(folder: str) -> dict[str, Pair]:
    """Return the pairs of a folder by name."""
    files = sorted((WIRE_FILES / folder).glob("*.json"))
    return {file.stem: json.loads(file.read_text("utf-8")) for file in files}


def asked_request(pair: Pair) -> ModelRequest:
    """Return the model call of a pair."""
    fields: dict[str, Any] = {"system": "", **pair["asked"]}
    fields["messages"] = tuple(map(Message.unpacked, fields["messages"]))
    fields["tools"] = tuple(map(ToolSpec.unpacked, fields.get("tools", ())))
    fields["info"] = ModelInfo.model_validate(fields.get("info", {}))
    return ModelRequest(**fields)


def recorded_reply(pair: Pair) -> Reply:
    """Return the answer of a pair, byte for byte."""
    response = pair["response"]
    if "sse" in response:
        body = "\n".join(response["sse"]).encode()
        return Reply(body, ending=response.get("ending", "clean"))
    return json_error(response["status"], response["body"], **response.get("headers", {}))


def packed_turn(turn: ModelTurn) -> Pair:
    """Return a turn as a pair holds it: fields that hold their default are left out."""
    packed = {
        "blocks": [block.packed() for block in turn.blocks],
        "finish_reason": turn.finish_reason,
        "usage": turn.usage.packed(),
        "input_transformations": list(turn.input_transformations),
        "request_id": turn.request_id,
    }
    defaults = {field.name: field.default for field in dataclasses.fields(ModelTurn)}
    return {key: value for key, value in packed.items() if value and value != defaults[key]}
