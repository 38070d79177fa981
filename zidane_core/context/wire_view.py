"""The wire view: from the path of turns to the messages of a request.

Order of the passes up to `context:transform` (LOOP-15): drop turns that no model may see, start
from the latest summary, leave out what repairs of the history name, then mend the pairing. Each
is a pure function of the turns before it, so a longer path keeps its prefix; only a new summary
and a new repair change it. What comes after `context:transform` is in `context.passes`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from zidane_core.content import (
    AudioBlock,
    CompactSummaryBlock,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
    VideoBlock,
)
from zidane_core.context.media import handles_of
from zidane_core.context.pairing import Pairing, Repair
from zidane_core.context.repairs import furthest, left_out
from zidane_core.context.summaries import Compacted, compacted_by, is_summary
from zidane_core.errors import HistoryRepairKind
from zidane_core.session import HistoryRepair, Message, Turn


@dataclass(frozen=True)
class WireFacts:
    """What messages do not say of themselves; it outlives what hooks make of them."""

    runs: Mapping[str, str | None] = field(default_factory=dict[str, "str | None"])
    """The run of each call, by its id on the wire."""
    handles: Mapping[str, str] = field(default_factory=dict[str, str])
    """The handle of each attachment of the path, by its base64 or ref; the first one counts."""


class WireView:
    """The messages of a path, built turn by turn; adding a turn costs that turn only.

    Args:
        reach: For each repair of the history in effect, the index of the last turn it touches.

    Implements: LOOP-15, SESS-02, SESS-11, CTL-11, CMP-11.
    """

    def __init__(self, reach: Mapping[HistoryRepairKind, int] | None = None) -> None:
        self._reach = reach or {}
        self._begin(Compacted())

    def _begin(self, compacted: Compacted) -> None:
        self._compacted = compacted
        self._runs: dict[str, str | None] = {}
        self._handles: dict[str, str] = {}
        self._pairing = Pairing()
        self._messages: list[Message] = []
        self._repairs: list[Repair] = []
        self._turns = 0
        self._assistant_turns = 0
        self._last_turn_id: str | None = None
        self._size = 0
        self._stored_repairs: list[HistoryRepair] = []

    @property
    def size(self) -> int:
        """Characters of text and media that the view holds, roughly; for caches."""
        return self._size

    @property
    def assistant_turns(self) -> int:
        """Assistant turns on the path that count for a model."""
        return self._assistant_turns

    @property
    def facts(self) -> WireFacts:
        """What the later passes need to know of the path; it grows with the view."""
        return WireFacts(self._runs, self._handles)

    @property
    def compacted(self) -> Compacted:
        """What the summaries of the path leave of it."""
        return self._compacted

    def covers(self, path: Sequence[Turn]) -> bool:
        """Say whether the view was built from the head of this path."""
        if self._turns == 0:
            return True
        return self._turns <= len(path) and path[self._turns - 1].id == self._last_turn_id

    def reach(
        self, path: Sequence[Turn], repairs: Sequence[HistoryRepair]
    ) -> Mapping[HistoryRepairKind, int]:
        """Return how far each repair reaches: the path's own and those of the request."""
        new = [repair for turn in path[self._turns :] for repair in turn.repairs]
        wanted = [*self._stored_repairs, *new, *repairs]
        if not wanted:
            return {}
        return furthest(wanted, {turn.id: index for index, turn in enumerate(path)})

    def has_reach(self, reach: Mapping[HistoryRepairKind, int]) -> bool:
        """Say whether the view was built with exactly these repairs."""
        return self._reach == reach

    def extend(self, path: Sequence[Turn]) -> None:
        """Take in the turns of the path that are not in the view yet; it must cover the path.

        A new summary builds the view anew, once.
        """
        new = path[self._turns :]
        if any(map(is_summary, new)):
            self._begin(compacted_by(new, self._compacted))
            summary = self._compacted.summary
            index = next(at for at, turn in enumerate(path) if turn is summary)
            opening = path[index].model_copy(update={"content": self._compacted.opening})
            # A summary stands for both sides, so it speaks to the model.
            self._append(opening.model_copy(update={"role": "user"}), index)
        for index in range(self._turns, len(path)):
            self._add(path[index])

    def messages(self) -> tuple[Message, ...]:
        """Return the messages to send; calls without results get placeholders at the end."""
        still_open = self._pairing.still_open()
        if not still_open:
            return tuple(self._messages)
        pairing, repairs = Pairing(), list[Repair]()
        last = self._messages[-1]
        pairing.add(last, repairs)
        return (*self._messages, *pairing.close(repairs))

    def repairs(self) -> tuple[Repair, ...]:
        """Return every repair of the view, calls that are still open included."""
        open_calls = (
            Repair(kind="missing_result", call_id=call_id) for call_id in self._pairing.still_open()
        )
        return (*self._repairs, *open_calls)

    def _add(self, turn: Turn) -> None:
        index = self._turns
        self._turns += 1
        self._last_turn_id = turn.id
        self._stored_repairs.extend(turn.repairs)
        if turn.role not in ("user", "assistant") or turn.aborted:
            return
        if turn.role == "assistant":
            self._assistant_turns += 1
        for source, handle in handles_of(turn):
            self._handles.setdefault(source, handle)
        content = self._compacted.left_of(turn)
        same = content is turn.content
        self._append(turn if same else turn.model_copy(update={"content": content}), index)

    def _append(self, turn: Turn, index: int) -> None:
        """Append the turn's message; `index` is its place on the path."""
        content = turn.content
        for kind, through in self._reach.items():
            if index <= through:
                content = left_out(kind, turn.model_copy(update={"content": content}))
        content = _sendable(content)
        self._size += sum(map(_block_size, content))
        if not content:
            return
        role = "assistant" if turn.role == "assistant" else "user"
        made = self._pairing.add(Message(role=role, content=content), self._repairs)
        self._messages.extend(made)
        if role == "assistant" and made:
            calls = (b for b in made[-1].content if isinstance(b, ToolCallBlock))
            self._runs.update((call.id, turn.run_id) for call in calls)


def view_of(
    path: Sequence[Turn],
    repairs: Sequence[HistoryRepair] = (),
    cached: WireView | None = None,
) -> WireView:
    """Return the view of a path, going on from a cached one when that was built the same way.

    Args:
        path: The turns from the root to the head.
        repairs: What this request leaves out beyond what the path's own turns say.
        cached: A view of an earlier head of the session; it is changed and returned, or left.
    """
    view = cached if cached is not None and cached.covers(path) else WireView()
    reach = view.reach(path, repairs)
    if not view.has_reach(reach):
        view = WireView(reach)
    view.extend(path)
    return view


def _sendable(content: tuple[ContentBlock, ...]) -> tuple[ContentBlock, ...]:
    """Leave out empty text, which no provider takes."""
    if all(not isinstance(block, TextBlock) or block.text for block in content):
        return content
    return tuple(block for block in content if not isinstance(block, TextBlock) or block.text)


def _block_size(block: ContentBlock) -> int:
    match block:
        case TextBlock() | ThinkingBlock():
            return len(block.text)
        case ToolResultBlock():
            output = block.output
            return len(output) if isinstance(output, str) else sum(map(_block_size, output))
        case ImageBlock() | AudioBlock() | VideoBlock() | DocumentBlock():
            return len(block.data or "")
        case CompactSummaryBlock():
            return len(block.summary)
        case _:
            return 256
