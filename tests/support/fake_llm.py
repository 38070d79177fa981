"""A model service of our own: an HTTP server that answers with scripted bodies, byte for byte.

Use the `fake_llm` fixture (import it into a conftest.py) or `async with FakeLLM() as llm`. Queue
replies with `llm.reply(...)`; they are served in order, whatever the path. A request for which
none is queued gets `llm.otherwise`, by default a 500 that says so. Requests are in `llm.requests`.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

SSE_FILES = Path(__file__).parent.parent / "fixtures" / "sse"


@dataclass(frozen=True)
class Reply:
    """One HTTP answer."""

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    content_type: str = "text/event-stream"
    ending: str = "clean"
    """`clean`: the body ends as HTTP wants; `drop`: the connection breaks after the body;
    `hang`: nothing more comes until the client goes away."""


@dataclass(frozen=True)
class Request:
    """One request as it came."""

    path: str
    headers: Mapping[str, str]
    """Keys in lower case."""
    body: dict[str, Any]


def sse_file(name: str, *, ending: str = "clean") -> Reply:
    """Return the reply that a file of `tests/fixtures/sse` holds."""
    return Reply((SSE_FILES / name).read_bytes(), ending=ending)


def anthropic_events(*events: Mapping[str, Any], ending: str = "clean") -> Reply:
    """Return a stream of Anthropic events, each under its type."""
    lines = (f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
    return Reply("".join(lines).encode(), ending=ending)


def anthropic_turn(
    *blocks: Mapping[str, Any],
    stop_reason: str = "end_turn",
    model: str = "fake-claude",
    usage: Mapping[str, Any] | None = None,
) -> Reply:
    """Return a whole Anthropic stream of finished blocks, each sent in one delta.

    Takes text, thinking (with `signature`), tool_use and any block that comes whole.
    """
    counts = {"input_tokens": 120, "output_tokens": 1, **(usage or {})}
    events: list[Mapping[str, Any]] = [
        {
            "type": "message_start",
            "message": {
                "id": "msg_1",
                "type": "message",
                "role": "assistant",
                "model": model,
                "content": [],
                "stop_reason": None,
                "stop_sequence": None,
                "usage": counts,
            },
        }
    ]
    for index, block in enumerate(blocks):
        events += _block_events(index, block)
    delta = {"stop_reason": stop_reason, "stop_sequence": None}
    events.append({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 30}})
    events.append({"type": "message_stop"})
    return anthropic_events(*events)


def _block_events(index: int, block: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    def event(kind: str, **fields: Any) -> Mapping[str, Any]:
        return {"type": kind, "index": index, **fields}

    start: Mapping[str, Any] = block
    deltas: list[Mapping[str, Any]] = []
    match block["type"]:
        case "text":
            start = {"type": "text", "text": ""}
            deltas = [{"type": "text_delta", "text": block["text"]}]
        case "thinking":
            start = {"type": "thinking", "thinking": "", "signature": ""}
            deltas = [
                {"type": "thinking_delta", "thinking": block["thinking"]},
                {"type": "signature_delta", "signature": block.get("signature", "")},
            ]
        case "tool_use" | "server_tool_use":
            start = {**block, "input": {}}
            raw = block["input"] if isinstance(block["input"], str) else json.dumps(block["input"])
            deltas = [{"type": "input_json_delta", "partial_json": raw}]
        case _:
            pass
    return (
        event("content_block_start", content_block=start),
        *(event("content_block_delta", delta=delta) for delta in deltas),
        event("content_block_stop"),
    )


def openai_chunks(
    *deltas: Mapping[str, Any],
    finish_reason: str | None = "stop",
    usage: Mapping[str, Any] | None = None,
    done: bool = True,
    model: str = "fake-oai",
    ending: str = "clean",
) -> Reply:
    """Return a stream of chat completion chunks, one per delta, then reason, usage and marker."""

    def chunk(choices: Sequence[Mapping[str, Any]], **fields: Any) -> Mapping[str, Any]:
        base = {"id": "cc-1", "object": "chat.completion.chunk", "created": 1, "model": model}
        return {**base, "choices": choices, **fields}

    chunks = [chunk([{"index": 0, "delta": d, "finish_reason": None}]) for d in deltas]
    if finish_reason is not None:
        chunks.append(chunk([{"index": 0, "delta": {}, "finish_reason": finish_reason}]))
    if usage is not None:
        chunks.append(chunk([], usage=usage))
    lines = [f"data: {json.dumps(item)}\n\n" for item in chunks]
    return Reply("".join([*lines, "data: [DONE]\n\n" if done else ""]).encode(), ending=ending)


def json_error(status: int, body: Mapping[str, Any], **headers: str) -> Reply:
    """Return an error answer; underscores in header names become dashes."""
    named = {key.replace("_", "-"): value for key, value in headers.items()}
    return Reply(
        json.dumps(body).encode(), status=status, headers=named, content_type="application/json"
    )


class FakeLLM:
    """The server. Listens on a free port of 127.0.0.1 while it is entered."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.disconnected = 0
        """Clients that went away while a reply hung."""
        self.otherwise: Callable[[Request], Reply] = _exhausted
        self._replies: list[Reply] = []
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Condition()

    @property
    def url(self) -> str:
        """The base URL without a path: Anthropic's base URL."""
        assert self._server is not None, "enter the server first"
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    @property
    def openai_url(self) -> str:
        """The base URL of chat completions."""
        return f"{self.url}/v1"

    @property
    def bodies(self) -> list[dict[str, Any]]:
        """The bodies of all requests so far, in order."""
        return [request.body for request in self.requests]

    def reply(self, *replies: Reply) -> None:
        """Queue replies behind those that wait."""
        self._replies.extend(replies)

    async def received(self, count: int) -> None:
        """Wait until that many requests have come in all."""
        async with self._changed:
            await self._changed.wait_for(lambda: len(self.requests) >= count)

    async def left(self, count: int) -> None:
        """Wait until that many clients have gone away from a hanging reply."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.disconnected >= count)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            request = await _read_request(reader)
            if request is not None:
                await self._answer(request, reader, writer)
        except (ConnectionError, asyncio.CancelledError):
            # The client is gone, or the test is over.
            pass
        finally:
            writer.close()
            self._open.discard(task)

    async def _answer(
        self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        reply = self._replies.pop(0) if self._replies else self.otherwise(request)
        async with self._changed:
            self.requests.append(request)
            self._changed.notify_all()
        headers = {
            "content-type": reply.content_type,
            "transfer-encoding": "chunked",
            "connection": "close",
            **reply.headers,
        }
        lines = "".join(f"{key}: {value}\r\n" for key, value in headers.items())
        writer.write(f"HTTP/1.1 {reply.status} Scripted\r\n{lines}\r\n".encode())
        if reply.body:
            writer.write(b"%x\r\n%s\r\n" % (len(reply.body), reply.body))
        if reply.ending == "clean":
            writer.write(b"0\r\n\r\n")
        await writer.drain()
        if reply.ending == "hang":
            # The client sends nothing more, so this returns when it closes the connection.
            await reader.read()
            async with self._changed:
                self.disconnected += 1
                self._changed.notify_all()


async def _read_request(reader: asyncio.StreamReader) -> Request | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    except asyncio.IncompleteReadError:
        return None
    headers: dict[str, str] = {}
    for line in head[1:]:
        key, colon, value = line.partition(":")
        if colon:
            headers[key.lower()] = value.strip()
    raw = await reader.readexactly(int(headers.get("content-length", "0")))
    return Request(head[0].split(" ")[1], headers, json.loads(raw) if raw else {})


def _exhausted(request: Request) -> Reply:
    message = f"No reply is queued for {request.path}"
    return json_error(500, {"error": {"type": "api_error", "message": message}})


@pytest.fixture
async def fake_llm() -> AsyncIterator[FakeLLM]:
    """A running FakeLLM for one test."""
    async with FakeLLM() as llm:
        yield llm
