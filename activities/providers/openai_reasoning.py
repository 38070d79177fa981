"""OpenRouter's `reasoning_details`, put together from a stream's deltas; pure.

They go back to the service as they are, so a field is only ever joined, never changed.
"""

from collections.abc import Mapping
from typing import Any, cast

from zidane_core.content import clean_json
from zidane_core.values import Json

_JOINED = {"reasoning.text": "text", "reasoning.summary": "summary"}
"""The field that comes in pieces, by a detail's type; others come whole."""


class ReasoningDetails:
    """The details of one completion, in the order in which they began."""

    def __init__(self) -> None:
        self._details: list[dict[str, Any]] = []
        self._pieces: list[list[str]] = []

    def feed(self, deltas: Any) -> str:
        """Take the details of a delta; return what of them people can read."""
        said: list[str] = []
        for delta in cast("list[Any]", deltas) if isinstance(deltas, list) else ():
            if isinstance(delta, Mapping):
                said.append(self._take(dict(cast("Mapping[str, Any]", delta))))
        return "".join(said)

    def finish(self) -> tuple[Json, ...]:
        """Return the whole details; none when the service sent none."""
        whole: list[Json] = []
        for detail, pieces in zip(self._details, self._pieces, strict=True):
            joined = _JOINED.get(str(detail.get("type")))
            text = {joined: "".join(pieces)} if joined is not None and pieces else {}
            whole.append(cast("Json", clean_json({**detail, **text})))
        return tuple(whole)

    def _take(self, delta: dict[str, Any]) -> str:
        joined = _JOINED.get(str(delta.get("type")))
        piece = delta.get(joined) if joined is not None else None
        text = piece if isinstance(piece, str) else ""
        at = self._open_detail(delta) if joined is not None else None
        if at is None:
            self._details.append(delta)
            self._pieces.append([text] if isinstance(piece, str) else [])
        else:
            known = {key: value for key, value in delta.items() if value is not None}
            self._details[at].update(known)
            if isinstance(piece, str):
                self._pieces[at].append(text)
        return text

    def _open_detail(self, delta: Mapping[str, Any]) -> int | None:
        """Return the place of the detail that a delta goes on with; None when it is a new one.

        The same type and index go together, unless both have an id and they differ. Without an
        index only the last detail can be meant, and a signature closes it.
        """
        for at in reversed(range(len(self._details))):
            open_detail = self._details[at]
            index = delta.get("index")
            if open_detail.get("type") == delta.get("type") and open_detail.get("index") == index:
                ids = {open_detail.get("id"), delta.get("id")} - {None}
                is_closed = index is None and open_detail.get("signature") is not None
                return at if len(ids) < 2 and not is_closed else None
            if index is None:
                return None
        return None
