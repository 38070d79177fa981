"""A token service of our own: answers refresh requests over HTTP and keeps their forms."""

import asyncio
import json
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl


class TokenService:
    """Listens on a free port of 127.0.0.1 while it is entered.

    Queue answers with `answer(status, body)`; each request takes the next. Forms are in `forms`.
    With `hold()` requests wait until `release()`.
    """

    def __init__(self) -> None:
        self.forms: list[dict[str, str]] = []
        self._answers: list[tuple[int, Any]] = []
        self._server: asyncio.Server | None = None
        self._arrived = asyncio.Event()
        self._open = asyncio.Event()
        self._open.set()

    @property
    def url(self) -> str:
        assert self._server is not None, "enter the service first"
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/token"

    def answer(self, status: int, **body: Any) -> None:
        self._answers.append((status, body))

    def hold(self) -> None:
        self._open.clear()

    def release(self) -> None:
        self._open.set()

    async def arrived(self) -> None:
        """Wait for the first request."""
        await self._arrived.wait()

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
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(head.partition("content-length:")[2].split("\r\n")[0])
        self.forms.append(dict(parse_qsl((await reader.readexactly(length)).decode())))
        self._arrived.set()
        await self._open.wait()
        unasked: tuple[int, Any] = (500, {})
        status, body = self._answers.pop(0) if self._answers else unasked
        raw = json.dumps(body).encode()
        writer.write(
            f"HTTP/1.1 {status} Answered\r\ncontent-type: application/json\r\n"
            f"content-length: {len(raw)}\r\nconnection: close\r\n\r\n".encode()
        )
        writer.write(raw)
        await writer.drain()
        writer.close()
