"""The events of a streamed chat completion, with what servers do to them undone.

This is about the stream alone; what the chunks mean is read in `openai_stream`.
"""

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, cast

from openai import AsyncStream

# The SDK offers no other place at which an event can be seen before it is an exception.
from openai._streaming import ServerSentEvent, SSEBytesDecoder, SSEDecoder

from zidane_core.errors import matches_context_exceeded

_BOM = b"\xef\xbb\xbf"


class ChunkStream(AsyncStream[object]):
    """The SDK's stream, which remembers the `[DONE]` marker and knows errors of every shape.

    An error object under other keys, or a bare string, becomes the form that the SDK raises; an
    answer that is no stream but a whole JSON body counts as one chunk; a byte order mark and
    events without data are left out.

    Implements: K-OPENAI-03, K-OPENAI-10.
    """

    saw_done = False
    """The `[DONE]` marker came, or the answer was a whole body."""

    async def _iter_events(self) -> AsyncIterator[ServerSentEvent]:
        content_type = self.response.headers.get("content-type", "")
        if content_type.partition(";")[0].strip() == "application/json":
            body = b"".join([piece async for piece in self.response.aiter_bytes()])
            self.saw_done = True
            yield _readable(ServerSentEvent(data=body.removeprefix(_BOM).decode("utf-8")))
            return
        self._decoder = _WithoutBom(self._decoder)
        async for event in super()._iter_events():
            if not event.data.strip():
                continue
            self.saw_done = self.saw_done or event.data.startswith("[DONE]")
            yield _readable(event)


class _WithoutBom:
    """A decoder that skips the byte order mark, which hides the first event."""

    def __init__(self, decoder: SSEDecoder | SSEBytesDecoder) -> None:
        self._decoder = decoder

    def iter_bytes(self, iterator: Iterator[bytes]) -> Iterator[ServerSentEvent]:
        return self._decoder.iter_bytes(iterator)

    def aiter_bytes(self, iterator: AsyncIterator[bytes]) -> AsyncIterator[ServerSentEvent]:
        return self._decoder.aiter_bytes(_without_bom(iterator))


async def _without_bom(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    head = b""
    is_head = True
    async for piece in pieces:
        if not is_head:
            yield piece
            continue
        head += piece
        if len(head) >= len(_BOM):
            is_head = False
            yield head.removeprefix(_BOM)
    if is_head:
        yield head


def _readable(event: ServerSentEvent) -> ServerSentEvent:
    """Return an event that reports an error in the one form that the SDK raises."""
    if event.event != "error" and not any(key in event.data for key in ('"error', '"detail"')):
        return event
    try:
        chunk = json.loads(event.data)
    except ValueError:
        if event.event != "error":
            return event
        chunk = event.data
    error = _error_of(chunk, is_error=event.event == "error")
    return event if error is None else ServerSentEvent(data=json.dumps({"error": error}))


def _error_of(chunk: Any, *, is_error: bool) -> Mapping[str, Any] | None:
    """Return the error object of a chunk; None when it reports none."""
    if isinstance(chunk, str):
        return _worded(chunk, None) if is_error else None
    if not isinstance(chunk, Mapping):
        return None
    outer = cast("Mapping[str, Any]", chunk)
    found = outer.get("error") or _choice_error(outer.get("choices"))
    if isinstance(found, Mapping):
        error = cast("Mapping[str, Any]", found)
        is_worded = not error.get("code") and not error.get("type")
        return _worded(str(error.get("message") or error), None) if is_worded else error
    if isinstance(found, str):
        code = outer.get("code") or outer.get("error_type")
        return _worded(str(outer.get("message") or found), code)
    # vLLM's older form, and FastAPI's.
    if is_error or outer.get("object") == "error":
        return outer
    if "choices" not in outer and "detail" in outer:
        return {"message": str(outer["detail"])}
    return None


def _worded(said: str, code: Any) -> Mapping[str, Any]:
    """Return the error object of an error that is words alone."""
    if code is None and not matches_context_exceeded(said):
        # The request was taken, so what broke afterwards is the server's.
        code = "server_error"
    return {"message": said, "code": code}


def _choice_error(choices: Any) -> Any:
    if not isinstance(choices, list):
        return None
    found = (
        cast("Mapping[str, Any]", choice).get("error")
        for choice in cast("list[Any]", choices)
        if isinstance(choice, Mapping)
    )
    return next((error for error in found if error), None)
