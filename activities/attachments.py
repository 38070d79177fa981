"""Attachments of the session by their handles, for tools that show an aged one again (MED-01)."""

import asyncio

from activities.store import Store
from zidane_core.content import ResultContent
from zidane_core.context.media import attachment, parse_handle

WAIT_S = 30.0
"""How long a plain body waits for the store."""


class SessionAttachments:
    """Reads attachments off the path of one session.

    Args:
        store: Where the session is.
        session_id: The session; handles of other sessions name nothing.
        head: The turn whose path counts.
        loop: The worker's event loop; plain bodies run in threads beside it.
    """

    def __init__(
        self, store: Store, session_id: str, head: str, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._store = store
        self._session_id = session_id
        self._head = head
        self._loop = loop

    async def __call__(self, handle: str) -> ResultContent | None:
        """Return the attachment; None when the handle names none of this conversation."""
        named = parse_handle(handle)
        if named is None:
            return None
        turn_id, number = named
        path = await self._store.path(self._session_id, self._head)
        turn = next((turn for turn in path if turn.id == turn_id), None)
        return attachment(turn, number) if turn is not None else None

    def wait(self, handle: str) -> ResultContent | None:
        """Return the same to a plain body, which has a thread to wait in."""
        asked = asyncio.run_coroutine_threadsafe(self(handle), self._loop)
        return asked.result(WAIT_S)
