"""A model service that fails in a seeded way before each turn, and counts what it sold.

A `FlakyLLM` answers on a FakeLLM: the number of assistant messages in a request says which turn
is asked for; of each turn the planned faults come first, then the turn itself, once.
"""

import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from tests.support.fake_llm import (
    Reply,
    Request,
    anthropic_events,
    anthropic_turn,
    json_error,
    openai_chunks,
)

Dialect = Literal["anthropic", "chat"]
Fault = Literal[
    "429",
    "500",
    "503",
    "529",
    "overload before text",
    "overload after text",
    "overload in a call",
    "dropped",
    "early end",
    "malformed",
    "silent",
    "error in a 200",
]
FAULTS: tuple[Fault, ...] = get_args(Fault)
OVERLOAD = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
CHAT_OVERLOAD = {"error": {"message": "Overloaded", "code": "server_is_overloaded"}}
STATUSES = ("429", "500", "503", "529")


def plan_faults(seed: int, turns: int, *, max_silent: int = 2) -> list[list[Fault]]:
    """Return what goes wrong before each turn: nothing, one fault or two."""
    dice = random.Random(seed)
    plan: list[list[Fault]] = []
    silent = 0
    for _ in range(turns):
        faults: list[Fault] = []
        for _ in range(dice.choice([0, 1, 1, 2])):
            fault = dice.choice(FAULTS)
            while fault == "silent" and silent >= max_silent:
                fault = dice.choice(FAULTS)
            silent += fault == "silent"
            faults.append(fault)
        plan.append(faults)
    return plan


@dataclass
class FlakyLLM:
    """Answers requests; give `answer` to `FakeLLM.otherwise`.

    Args:
        dialect: How it speaks.
        turns: Turns of the conversation: a call of `step` with its number in each but the last.
        faults: What goes wrong before each turn, in order; none at all when empty.
    """

    dialect: Dialect
    turns: int
    faults: Sequence[Sequence[Fault]] = ()
    sold: Counter[int] = field(default_factory=Counter[int])
    """How often each turn was answered to its end: what a customer pays for."""
    failed: Counter[int] = field(default_factory=Counter[int])
    """How often each turn was refused or broken off."""

    def answer(self, request: Request) -> Reply:
        """Return the fault that is due, or the turn that is asked for."""
        turn = sum(message["role"] == "assistant" for message in request.body["messages"])
        planned = self.faults[turn] if turn < len(self.faults) else ()
        if self.failed[turn] < len(planned):
            fault = planned[self.failed[turn]]
            self.failed[turn] += 1
            return self._broken(fault, turn)
        self.sold[turn] += 1
        return self._whole(turn)

    def _whole(self, turn: int) -> Reply:
        said, is_last = f"Turn {turn}.", turn == self.turns - 1
        if self.dialect == "anthropic":
            text = {"type": "text", "text": said}
            if is_last:
                return anthropic_turn(text, model="claude-sonnet-5-5")
            call = {"type": "tool_use", "id": f"toolu_{turn}", "name": "step", "input": {"n": turn}}
            return anthropic_turn(text, call, stop_reason="tool_use", model="claude-sonnet-5-5")
        usage = {"prompt_tokens": 100 + turn, "completion_tokens": 10, "total_tokens": 110 + turn}
        deltas: list[Mapping[str, Any]] = [{"role": "assistant", "content": said}]
        if not is_last:
            deltas.append({"tool_calls": [_chat_call(turn, json.dumps({"n": turn}))]})
        reason = "stop" if is_last else "tool_calls"
        return openai_chunks(*deltas, finish_reason=reason, usage=usage, model="gpt-5")

    def _broken(self, fault: Fault, turn: int) -> Reply:
        if fault in STATUSES:
            body = OVERLOAD if self.dialect == "anthropic" else CHAT_OVERLOAD
            headers = {"retry_after_ms": "1"} if fault == "429" else {}
            plain = {"error": {"type": "api_error", "message": "Try again"}}
            return json_error(int(fault), body if fault == "529" else plain, **headers)
        if fault == "error in a 200":
            if self.dialect == "anthropic":
                return json_error(200, OVERLOAD)
            return Reply(f"data: {json.dumps(CHAT_OVERLOAD)}\n\n".encode())
        whole = self._whole(turn).body
        heads = _anthropic_heads(whole) if self.dialect == "anthropic" else _chat_heads(turn)
        overload = (
            anthropic_events(OVERLOAD).body
            if self.dialect == "anthropic"
            else f"data: {json.dumps(CHAT_OVERLOAD)}\n\n".encode()
        )
        match fault:
            case "overload before text":
                return Reply(heads["start"] + overload)
            case "overload after text":
                return Reply(heads["text"] + overload)
            case "overload in a call":
                return Reply(heads["call"] + overload)
            case "dropped":
                return Reply(heads["call"], ending="drop")
            case "early end":
                return Reply(heads["text"])
            case "malformed":
                return Reply(heads["text"] + b"data: {broken\n\n" + overload)
            case _:
                return Reply(heads["text"], ending="hang")


def _chat_call(turn: int, arguments: str) -> Mapping[str, Any]:
    function = {"name": "step", "arguments": arguments}
    return {"index": 0, "id": f"call_{turn}", "type": "function", "function": function}


def _anthropic_heads(whole: bytes) -> Mapping[str, bytes]:
    """Where a stream may break: behind its start, its text, or within the call's arguments."""
    events = [event + b"\n\n" for event in whole.split(b"\n\n") if event]
    call: list[bytes] = [
        b'event: content_block_start\ndata: {"type":"content_block_start","index":1,'
        b'"content_block":{"type":"tool_use","id":"toolu_cut","name":"step","input":{}}}\n\n',
        b'event: content_block_delta\ndata: {"type":"content_block_delta","index":1,'
        b'"delta":{"type":"input_json_delta","partial_json":"{\\"n\\": 1"}}\n\n',
    ]
    text = events[:4]
    return {"start": events[0], "text": b"".join(text[:3]), "call": b"".join([*text, *call])}


def _chat_heads(turn: int) -> Mapping[str, bytes]:
    def chunks(*deltas: Mapping[str, Any]) -> bytes:
        return openai_chunks(*deltas, finish_reason=None, done=False).body

    start: Mapping[str, Any] = {"role": "assistant", "content": ""}
    text = {"content": f"Turn {turn} is cut"}
    cut = {"tool_calls": [_chat_call(turn, '{"n": 1')]}
    return {"start": chunks(start), "text": chunks(start, text), "call": chunks(start, text, cut)}
