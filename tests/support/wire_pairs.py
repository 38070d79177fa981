"""Recorded pairs of a request and what a service answered: files of `tests/fixtures/wire`.

A pair is a JSON object: `asked` (fields of the ModelRequest), `request` (the body that we send),
`response` (`{"sse": [lines], "ending"}` or `{"status", "headers", "body"}`), and what we make of
it: `turn` (blocks, finish_reason, usage and so on) or `failure`.
"""

import dataclasses
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

from activities.providers.base import ModelRequest, ModelTurn, Provider
from tests.support.fake_llm import FakeLLM, Reply, Request, json_error
from tests.support.model_requests import RecordingSink, failure_of
from zidane_core.content import ContentBlock
from zidane_core.errors import ProviderError
from zidane_core.models import ModelInfo
from zidane_core.session import Message
from zidane_core.tools import ToolSpec

WIRE_FILES = Path(__file__).parent.parent / "fixtures" / "wire"
Pair = dict[str, Any]
BLOCK_TYPES = {kind.model_fields["type"].default for kind in get_args(get_args(ContentBlock)[0])}
"""Every content block there is (SESS-05)."""


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


async def play(provider: Provider, pair: Pair, fake_llm: FakeLLM) -> Request:
    """Play a pair through a provider; return the one request that came, its body checked."""
    fake_llm.reply(recorded_reply(pair))
    if "failure" in pair:
        with pytest.raises(ProviderError) as raised:
            await provider.stream(asked_request(pair), RecordingSink())
        assert failure_of(raised.value).packed() == pair["failure"]
    else:
        turn = await provider.stream(asked_request(pair), RecordingSink())
        assert packed_turn(turn) == pair["turn"]
    await provider.close()
    (request,) = fake_llm.requests
    assert request.body == pair["request"]
    return request


def finish_reasons_of(pairs: Iterable[Pair]) -> set[str]:
    """Return the finish reasons of the recorded turns."""
    return {pair["turn"]["finish_reason"] for pair in pairs if "turn" in pair}


def failures_of(pairs: Iterable[Pair]) -> list[Pair]:
    """Return the recorded failures."""
    return [pair["failure"] for pair in pairs if "failure" in pair]


def blocks_of(pairs: Iterable[Pair]) -> Iterator[Pair]:
    """Yield every block that was sent, received or left out."""
    for pair in pairs:
        for message in pair["asked"]["messages"]:
            yield from message["content"]
        yield from pair.get("turn", {}).get("blocks", ())
