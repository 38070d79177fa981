"""One result per call, one call per result: repairs of the wire view, never of stored turns."""

import zlib
from typing import Literal

from zidane_core.content import ContentBlock, ToolCallBlock, ToolResultBlock
from zidane_core.errors import AgentToolPairingError
from zidane_core.session import Message
from zidane_core.tools import SYNTHETIC_TOOL_RESULT_PLACEHOLDER
from zidane_core.values import Value

RepairKind = Literal["missing_result", "orphan_result", "duplicate_call", "duplicate_result"]


MAX_CALL_ID_CHARS = 40
"""The shortest limit among the services, that of OpenAI's chat completions."""


class Repair(Value):
    """One repair of the wire view."""

    kind: RepairKind
    call_id: str


class Pairing:
    """Mends messages one by one, in order; what was mended never changes when more are added.

    A missing result gets a placeholder, an orphan or second result is left out, and a call
    whose id was used before gets a derived one together with its result.

    Implements: SESS-11.
    """

    def __init__(self) -> None:
        self._used: set[str] = set()
        self._open: list[tuple[str, str]] = []
        """Calls of the last assistant message without a result: stored id and id on the wire."""

    def add(self, message: Message, repairs: list[Repair]) -> list[Message]:
        """Return the message mended, behind a message of placeholders when results are missing."""
        if message.role == "assistant":
            missing = self.close(repairs)
            mended = self._calls(message, repairs)
            return [*missing, mended] if mended.content else missing
        if not self._open and not any(isinstance(b, ToolResultBlock) for b in message.content):
            return [message]
        return self._results(message, repairs)

    def close(self, repairs: list[Repair]) -> list[Message]:
        """Return the placeholders for calls that are still open: one message, or none."""
        if not self._open:
            return []
        blocks = tuple(_placeholder(wire_id) for _, wire_id in self._open)
        repairs.extend(Repair(kind="missing_result", call_id=stored) for stored, _ in self._open)
        self._open = []
        return [Message(role="user", content=blocks)]

    def still_open(self) -> tuple[str, ...]:
        """Return the wire ids of the calls that have no result yet."""
        return tuple(wire_id for _, wire_id in self._open)

    def _calls(self, message: Message, repairs: list[Repair]) -> Message:
        blocks: list[ContentBlock] = []
        for block in message.content:
            if not isinstance(block, ToolCallBlock):
                blocks.append(block)
                continue
            wire_id, again = _short(block.id), 2
            while wire_id in self._used:
                wire_id, again = _short(f"{block.id}-{again}"), again + 1
            if again > 2:
                repairs.append(Repair(kind="duplicate_call", call_id=block.id))
            self._used.add(wire_id)
            self._open.append((block.id, wire_id))
            blocks.append(
                block if wire_id == block.id else block.model_copy(update={"id": wire_id})
            )
        return message.model_copy(update={"content": tuple(blocks)})

    def _results(self, message: Message, repairs: list[Repair]) -> list[Message]:
        results: list[ContentBlock] = []
        others: list[ContentBlock] = []
        for block in message.content:
            if not isinstance(block, ToolResultBlock):
                others.append(block)
            elif (wire_id := self._take(block.call_id)) is not None:
                results.append(
                    block
                    if wire_id == block.call_id
                    else block.model_copy(update={"call_id": wire_id})
                )
            else:
                kind = "duplicate_result" if block.call_id in self._used else "orphan_result"
                repairs.append(Repair(kind=kind, call_id=block.call_id))
        for call_id, wire_id in self._open:
            repairs.append(Repair(kind="missing_result", call_id=call_id))
            results.append(_placeholder(wire_id))
        self._open = []
        content = (*results, *others)
        return [message.model_copy(update={"content": content})] if content else []

    def _take(self, call_id: str) -> str | None:
        """Close the first open call of that stored id; return its id on the wire, or None."""
        for at, (stored, wire_id) in enumerate(self._open):
            if stored == call_id:
                del self._open[at]
                return wire_id
        return None


def _short(call_id: str) -> str:
    """Return an id that every service takes for its length, the same for the same id."""
    if 0 < len(call_id) <= MAX_CALL_ID_CHARS:
        return call_id
    digest = zlib.crc32(call_id.encode("utf-8", "surrogatepass"))
    return f"{call_id[: MAX_CALL_ID_CHARS - 9] or 'call'}-{digest:08x}"


def _placeholder(call_id: str) -> ToolResultBlock:
    return ToolResultBlock(call_id=call_id, output=SYNTHETIC_TOOL_RESULT_PLACEHOLDER, is_error=True)


def check_repairs(repairs: list[Repair], *, strict: bool, max_repairs: int | None) -> None:
    """Fail when the wire view needed repairs that the behavior forbids.

    Raises:
        AgentToolPairingError: Any repair under `strict`, or more than `max_repairs`; details
            hold the full list.

    Implements: SESS-12, SESS-13, ERR-02.
    """
    if repairs and (strict or (max_repairs is not None and len(repairs) > max_repairs)):
        allowed = 0 if strict else max_repairs
        raise AgentToolPairingError(
            f"The conversation needs {len(repairs)} repairs of tool calls and results, {allowed} "
            f"are allowed; the first is {repairs[0].kind} of call {repairs[0].call_id!r}. Fork "
            "from an earlier turn, or loosen strict_tool_pairing / max_pairing_repairs_per_turn.",
            repairs=[repair.packed() for repair in repairs],
        )
