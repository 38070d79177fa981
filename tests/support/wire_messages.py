"""Builders of wire messages and paths for the tests of the context passes, and one strategy."""

import base64
import struct
from collections.abc import Sequence

from hypothesis import strategies as st

from zidane_core.content import (
    ContentBlock,
    ImageBlock,
    ResultContent,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
)
from zidane_core.session import Message, Turn, TurnRole
from zidane_core.values import Json


def user(*blocks: ContentBlock | str) -> Message:
    return Message(role="user", content=_blocks(blocks))


def answer(*blocks: ContentBlock | str) -> Message:
    return Message(role="assistant", content=_blocks(blocks))


def turn(turn_id: str, role: TurnRole, *blocks: ContentBlock | str, run: str = "r1") -> Turn:
    return Turn(id=turn_id, role=role, content=_blocks(blocks), created_at=0, run_id=run)


def call(call_id: str, name: str = "look", **arguments: str) -> ToolCallBlock:
    given: Json = dict(arguments)
    return ToolCallBlock(id=call_id, name=name, input=given)


def result(
    call_id: str, output: str | tuple[ResultContent, ...] = "ok", *, outcome: str | None = None
) -> ToolResultBlock:
    metadata: Json | None = {"outcome": outcome} if outcome else None
    return ToolResultBlock(call_id=call_id, output=output, metadata=metadata)


def used(number: int, output: str | tuple[ResultContent, ...]) -> tuple[Message, Message]:
    """A call and its result, as two messages."""
    return answer(call(f"c{number}")), user(result(f"c{number}", output))


def picture(seed: int, size: int = 0, edge: int = 10) -> ImageBlock:
    """A PNG's head of that edge, then filling up to `size` base64 characters."""
    head = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", edge, 1) + b"%06d" % seed
    data = base64.b64encode(head).decode()
    return ImageBlock(media_type="image/png", data=data + "A" * max(0, size - len(data)))


def _blocks(blocks: Sequence[ContentBlock | str]) -> tuple[ContentBlock, ...]:
    return tuple(TextBlock(text=b) if isinstance(b, str) else b for b in blocks)


@st.composite
def tool_heavy(draw: st.DrawFn) -> tuple[Message, ...]:
    """Conversations with reads, edits, floods of output and pictures, in any order."""
    made: list[Message] = [user("go")]
    paths = st.sampled_from(["a.py", "b.py"])
    for number in range(draw(st.integers(0, 14))):
        ids = [f"c{number}-{at}" for at in range(draw(st.integers(1, 2)))]
        calls, results = list[ToolCallBlock](), list[ToolResultBlock]()
        for call_id in ids:
            kind = draw(st.sampled_from(["read_file", "edit", "shell", "look"]))
            output: str | tuple[ResultContent, ...] = "x" * draw(st.integers(0, 300))
            outcome = None
            if kind == "edit":
                outcome = draw(st.sampled_from(["edited", "noop", "failed"]))
            elif kind == "look":
                edge = draw(st.sampled_from([10, 3_000]))
                shot = picture(number, draw(st.integers(0, 200)), edge)
                output = (TextBlock(text="see " * 40), shot)
            calls.append(call(call_id, kind, path=draw(paths)))
            results.append(result(call_id, output, outcome=outcome))
        made += [answer("ok", *calls), user(*results)]
    return tuple(made)
