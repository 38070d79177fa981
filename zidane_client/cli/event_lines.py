"""What a watcher reads of the loop's decisions: one line per event, with its reason; pure."""

from collections.abc import Callable, Mapping
from typing import Any

from zidane_client.cli.wording import duration
from zidane_core.events import EventName, RunEvent

_LEFT_OUT: Mapping[str, str] = {
    "thinking": "earlier reasoning",
    "media": "images and documents",
    "history": "reasoning, images and server tool blocks",
}

Line = Callable[[Mapping[str, Any]], str]

_LINES: Mapping[EventName, tuple[str, Line]] = {
    "stream:retry": (
        "yellow",
        lambda f: f"↻ {f.get('message')} Tries again in {duration(f.get('delay_ms'))}.",
    ),
    "model:fallback": ("yellow", lambda f: f"↻ {f.get('message')} Goes on with {f.get('to')}."),
    "context:compacted": ("yellow", lambda f: f"↻ {f.get('message')} Older texts are cut short."),
    "history:repair": (
        "yellow",
        lambda f: f"↻ {f.get('message')} Goes on without {_LEFT_OUT.get(str(f.get('kind')))}.",
    ),
    "output:rejected": ("yellow", lambda f: f"✗ answer refused: {f.get('reason')}"),
    "thinking:overrun": ("yellow", lambda f: f"→ nudged after {f.get('tokens')} reasoning tokens"),
    "steer:inject": ("cyan", lambda _: "→ a message was delivered"),
    "control:refused": ("yellow", lambda f: f"refused {f.get('name')}: {f.get('reason')}"),
    "budget:exceeded": ("yellow", lambda f: f"budget exceeded: {f.get('limit')}"),
    "agent:abort": ("yellow", lambda f: f"abort: {f.get('reason')}"),
    "run:resumed": ("dim", lambda _: "resumed"),
}


def line_of(event: RunEvent) -> tuple[str, str] | None:
    """Return an event's line and its style; None for an event that has no line of its own."""
    found = _LINES.get(event.name)
    if found is None:
        return None
    style, line = found
    return line({key: value for key, value in event.fields.items() if value is not None}), style
