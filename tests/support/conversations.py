"""Any path of turns that a store may hold: hypothesis strategies, sane and insane blocks alike."""

import dataclasses
from collections.abc import Sequence

from hypothesis import strategies as st

from zidane_core.content import (
    AudioBlock,
    CompactSummaryBlock,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    ProviderReasoningBlock,
    RedactedThinkingBlock,
    ServerToolResultBlock,
    ServerToolUseBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolOutput,
    ToolResultBlock,
    VideoBlock,
)
from zidane_core.session import Turn, TurnRole
from zidane_core.values import Json

DATA = "aGVsbG8="
"""Base64 of five bytes."""
MODEL = "model-a"
"""The model that the requests go to."""
TEXTS = ["", " \n", "hi", "ok \ud83d end", "\udca9", "Grüße 🎉", "x" * 300, '{"a": 1}']
IDS = ["", "toolu_1", "call_1", "shell:0", "a b", "ü", "\ud83d", "y" * 90, "call_1-2", "none"]
NAMES = ["shell", "read_file", "gone", "a.b", "", "z" * 80, "mit leer", "ünder"]
PRODUCERS = ["anthropic", "openai", "openrouter", "openai_compat", None]

texts = st.sampled_from(TEXTS)
arguments = st.sampled_from(
    [{}, {"path": "a.txt"}, {"b": {"c": ["\ud83d", 1, None]}, "a": 1.5}, {"\udca9": True}]
)


def _image(draw: st.DrawFn) -> ImageBlock:
    kind = draw(st.sampled_from(["image/png", "image/jpeg", "image/svg+xml", "image/tiff"]))
    return ImageBlock(media_type=kind, data=draw(st.sampled_from([DATA, DATA, "", "%%"])))


@st.composite
def media(draw: st.DrawFn) -> ImageBlock | DocumentBlock | AudioBlock | VideoBlock:
    """An attachment: healthy, of a foreign type, empty, broken, or an open reference."""
    match draw(st.integers(0, 8)):
        case 0 | 1:
            return _image(draw)
        case 2:
            return ImageBlock(media_type="image/png", ref="blob-1")
        case 3:
            name = draw(st.sampled_from(["a.pdf", None, "\ud83d.pdf", ""]))
            return DocumentBlock(media_type="application/pdf", data=DATA, name=name)
        case 4:
            return DocumentBlock(media_type="text/plain", data=draw(texts), encoding="text")
        case 5:
            return DocumentBlock(media_type="text/csv", data="Zg==", name="t.csv")
        case 6:
            return DocumentBlock(media_type="application/zip", data=DATA)
        case 7:
            kind = draw(st.sampled_from(["audio/wav", "audio/ogg"]))
            return AudioBlock(media_type=kind, data=DATA)
        case _:
            return VideoBlock(media_type="video/mp4", data=DATA)


@st.composite
def outputs(draw: st.DrawFn) -> ToolOutput:
    """A tool's output."""
    if draw(st.booleans()):
        return draw(texts)
    parts = st.one_of(texts.map(lambda text: TextBlock(text=text)), media())
    return tuple(draw(st.lists(parts, max_size=3)))


@st.composite
def reasoning(draw: st.DrawFn) -> ContentBlock:
    """Reasoning of any producer and model, signed or cut off."""
    producer = draw(st.sampled_from(PRODUCERS))
    model = draw(st.sampled_from([MODEL, "model-b", None]))
    match draw(st.integers(0, 3)):
        case 0:
            return RedactedThinkingBlock(
                data="opaque", signature_producer=producer, signature_model=model
            )
        case 1:
            number = draw(st.integers(1, 3))
            return ProviderReasoningBlock(
                producer=producer or "openai",
                model=model,
                details=(_details(number),) if draw(st.booleans()) else (),
                reasoning_text=draw(st.sampled_from([None, "", "Hm.", "\ud83d"])),
            )
        case _:
            return ThinkingBlock(
                text=draw(texts),
                signature=draw(st.sampled_from(["sig", "sig", "", None])),
                signature_producer=producer,
                signature_model=model,
            )


def _details(number: int) -> Json:
    return {
        "type": "reasoning",
        "id": f"rs_{number}",
        "summary": [],
        "encrypted_content": f"sealed-{number}",
    }


@dataclasses.dataclass
class Path:
    """Draws a path turn by turn, as a core might have stored it."""

    draw: st.DrawFn
    turns: list[Turn] = dataclasses.field(default_factory=list[Turn])
    servers: int = 0

    def grow(self) -> None:
        """Add what may come next: a person's turn, or an answer and the results of its calls."""
        match self.draw(st.integers(0, 6)):
            case 0:
                self.add("user", self.spoken())
            case 1:
                role: TurnRole = self.draw(st.sampled_from(["system", "command"]))
                self.add(role, [TextBlock(text="aside")])
            case _:
                self.answer()

    def spoken(self) -> list[ContentBlock]:
        """What a person or the loop says."""
        words: st.SearchStrategy[ContentBlock] = texts.map(lambda text: TextBlock(text=text))
        summary = CompactSummaryBlock(summary=self.draw(texts))
        blocks: list[ContentBlock] = []
        blocks += self.draw(st.lists(st.one_of(words, words, media()), max_size=3))
        return [summary, *blocks] if self.draw(st.integers(0, 9)) == 0 else blocks

    def answer(self) -> None:
        """An assistant turn, aborted now and then, and its results."""
        blocks = self.draw(st.lists(self.said(), max_size=4))
        aborted = self.draw(st.integers(0, 7)) == 0
        if self.draw(st.integers(0, 4)) == 0:
            blocks += self.server_tools()
        self.add("assistant", blocks, aborted=aborted)
        calls = [block.id for block in blocks if isinstance(block, ToolCallBlock)]
        if calls and not aborted:
            self.results(calls)

    def said(self) -> st.SearchStrategy[ContentBlock]:
        call = st.builds(
            ToolCallBlock, id=st.sampled_from(IDS), name=st.sampled_from(NAMES), input=arguments
        )
        words = st.builds(
            TextBlock,
            text=texts,
            signature_producer=st.sampled_from(PRODUCERS),
            citations=st.sampled_from([(), ({"type": "char_location", "cited_text": "\ud83d"},)]),
        )
        return st.one_of(words, reasoning(), call, call)

    def server_tools(self) -> list[ContentBlock]:
        """A search of the provider's own; without its result the turn is paused."""
        self.servers += 1
        use: Json = {"type": "server_tool_use", "id": f"srvtoolu_{self.servers}"}
        found: Json = {"type": "web_search_tool_result", "tool_use_id": use["id"], "content": []}
        if self.draw(st.integers(0, 3)) == 0:
            # OpenAI's stand alone: call and result are one item.
            whole: Json = {"type": "web_search_call", "id": f"ws_{self.servers}"}
            return [ServerToolUseBlock(producer="openai", raw={**whole, "status": "completed"})]
        producer = "anthropic"
        asked = ServerToolUseBlock(
            producer=producer, raw={**use, "name": "web_search", "input": {"q": "\ud83d"}}
        )
        if self.draw(st.booleans()):
            return [asked, ServerToolResultBlock(producer=producer, raw=found)]
        return [asked]

    def results(self, calls: Sequence[str]) -> None:
        """One result per call, mostly."""
        blocks: list[ContentBlock] = []
        for call in calls:
            for _ in range(self.draw(st.sampled_from([1, 1, 1, 1, 0, 2]))):
                blocks.append(self.result(call))
        if self.draw(st.integers(0, 5)) == 0:
            blocks.insert(0, self.result("orphan"))
        if self.draw(st.integers(0, 3)) == 0:
            blocks += self.spoken()
        self.add("user", blocks)

    def result(self, call_id: str) -> ToolResultBlock:
        is_error = self.draw(st.booleans())
        return ToolResultBlock(call_id=call_id, output=self.draw(outputs()), is_error=is_error)

    def add(
        self, role: TurnRole, content: Sequence[ContentBlock], *, aborted: bool = False
    ) -> None:
        self.turns.append(
            Turn(
                id=f"t{len(self.turns)}",
                role=role,
                content=tuple(content),
                created_at=len(self.turns),
                aborted=aborted,
            )
        )


@st.composite
def paths(draw: st.DrawFn) -> list[Turn]:
    """A path that begins with a prompt and ends where a model is asked."""
    path = Path(draw)
    path.add("user", [*path.spoken(), TextBlock(text="go")])
    for _ in range(draw(st.integers(0, 7))):
        path.grow()
    return path.turns


def asked_at(path: Sequence[Turn]) -> list[int]:
    """Return the lengths of the path at which a model was asked, the whole path last.

    A model is asked before each of its turns; an aborted turn was never part of a request.
    """
    lengths = [at for at, turn in enumerate(path) if turn.role == "assistant" and not turn.aborted]
    return [*(at for at in lengths if at > 0), len(path)]
