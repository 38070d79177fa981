"""The fragments of a chat completion's tool calls to whole calls; pure.

Servers leave out or repeat indexes and ids, send a call twice or its arguments as an object, so
what begins a call and what goes on with one is read from all that a fragment has.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from activities.providers.call_input import call_block, cut_off
from activities.providers.progress import Progress
from zidane_core.content import ToolCallBlock
from zidane_core.tools import ToolSpec

_LEGACY_INDEX = -1


@dataclass
class _OpenCall:
    id: str
    name: str = ""
    arguments: list[str] = field(default_factory=list[str])
    is_announced: bool = False

    @property
    def raw_arguments(self) -> str:
        return "".join(self.arguments)

    @property
    def is_whole(self) -> bool:
        """Whether the arguments so far are a JSON object, so that nothing can follow."""
        if not self.arguments or not self.arguments[-1].rstrip().endswith("}"):
            return False
        try:
            return isinstance(json.loads(self.raw_arguments), dict)
        except (ValueError, RecursionError):
            return False


class CallReader:
    """Puts the tool calls of one completion together; every piece also goes to the sink.

    Implements: K-OPENAI-01, K-OPENAI-02, K-OPENAI-04.
    """

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._calls: list[_OpenCall] = []
        self._call_at_index: dict[int, _OpenCall] = {}

    @property
    def written(self) -> list[str]:
        """All arguments that came, for an estimate of the output."""
        return [call.name + call.raw_arguments for call in self._calls]

    def feed(self, delta: Mapping[str, Any]) -> None:
        """Take the fragments of a delta, in the present form and in the one before it."""
        fragments = delta.get("tool_calls")
        for fragment in cast("list[Any]", fragments) if isinstance(fragments, list) else ():
            if isinstance(fragment, Mapping):
                self._take(cast("Mapping[str, Any]", fragment))
        legacy = delta.get("function_call")
        if isinstance(legacy, Mapping):
            self._take({"index": _LEGACY_INDEX, "function": legacy})

    def finish(self, tools: Iterable[ToolSpec], *, is_cut: bool) -> list[ToolCallBlock]:
        """Return the calls in the order in which they began.

        Args:
            tools: The request's tools, for the canonical names.
            is_cut: The output limit ended the turn, so that the last call is not whole.
        """
        known = tuple(tools)
        calls: list[ToolCallBlock] = []
        seen: set[tuple[str, str, str]] = set()
        for position, call in enumerate(self._calls):
            raw = call.raw_arguments
            sent = (call.id, call.name, raw)
            # The same call under another index; equal calls with ids of their own are two calls.
            is_repeated = bool(call.id) and sent in seen
            is_nothing = not call.name and not raw.strip()
            if is_repeated or is_nothing:
                continue
            seen.add(sent)
            block = call_block(call.id, call.name, raw, known)
            if is_cut and position == len(self._calls) - 1:
                block = cut_off(block, raw)
            calls.append(block)
        return calls

    def _take(self, fragment: Mapping[str, Any]) -> None:
        function = fragment.get("function")
        inner = cast("Mapping[str, Any]", function if isinstance(function, Mapping) else {})
        arguments: Any = inner.get("arguments")
        # Some servers send the object itself (K-OPENAI-02).
        piece = arguments if isinstance(arguments, str) else ""
        if arguments is not None and not isinstance(arguments, str):
            piece = json.dumps(arguments)
        call = self._call_of(fragment, str(inner.get("name") or ""), piece)
        if not call.is_announced and (call.name or piece):
            call.is_announced = True
            self._progress.tool_call(call.name)
        if piece:
            call.arguments.append(piece)
            self._progress.tool_arguments(piece)

    def _call_of(self, fragment: Mapping[str, Any], name: str, piece: str) -> _OpenCall:
        """Return the call that a fragment goes on with, or a new one (K-OPENAI-01)."""
        call_id = str(fragment.get("id") or "")
        index = fragment.get("index")
        if isinstance(index, int):
            current = self._call_at_index.get(index)
        else:
            current = self._calls[-1] if self._calls else None
        if current is None or _begins_another(current, call_id, name, piece):
            current = _OpenCall(call_id, name)
            self._calls.append(current)
        current.name = current.name or name
        current.id = current.id or call_id
        if isinstance(index, int):
            self._call_at_index[index] = current
        return current


def _begins_another(current: _OpenCall, call_id: str, name: str, piece: str) -> bool:
    """Say whether a fragment that could go on with `current` begins another call.

    A call bears a name, so a new id alone begins none: some servers mint one for every fragment.
    """
    is_other_id = call_id != "" and current.id not in ("", call_id)
    if not name:
        return is_other_id and current.is_whole
    if is_other_id:
        return True
    if current.name and name != current.name:
        return True
    # The name once more: a call like the one before, unless it closes that one.
    closes = call_id != "" and not piece.strip()
    return not closes and current.is_whole
