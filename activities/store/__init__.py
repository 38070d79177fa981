"""The session store: turns, calls, runs, manifests, blobs, live events, tool state."""

from activities.store.call_work import CallStart
from activities.store.events import EventWriter
from activities.store.opening import open_store
from activities.store.sessions import Store
from activities.store.turn_work import PendingTurn, ResultsTurn, TurnStart

__all__ = [
    "CallStart",
    "EventWriter",
    "PendingTurn",
    "ResultsTurn",
    "Store",
    "TurnStart",
    "open_store",
]
