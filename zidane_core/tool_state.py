"""Tool state: a small durable map that only tools write, staged per call and journaled as ops.

Writes are staged while a call runs. When the call's result is recorded its ops go to the
store and, with the receipt, into the workflow's history; the snapshot follows the receipts.
"""

import json
from collections.abc import Iterable, Mapping

from pydantic import JsonValue

from zidane_core.errors import UsageError
from zidane_core.values import Value

DEFAULT_MAX_VALUE_BYTES = 65_536
"""Largest single value, in bytes of JSON (STATE-04, G-40)."""
MAX_OPS_BYTES = 262_144
"""Largest sum of one call's ops, in bytes of JSON (G-40)."""
MAX_SNAPSHOT_BYTES = 524_288
"""Largest state as a whole, so that it always fits a continue-as-new."""


class ToolStateOp(Value):
    """Set a key to a value, or delete it (STATE-01)."""

    key: str
    value: JsonValue = None
    delete: bool = False


Snapshot = Mapping[str, JsonValue]


def apply_ops(snapshot: Snapshot, ops: Iterable[ToolStateOp]) -> dict[str, JsonValue]:
    """Return the snapshot with the ops applied in order; applying them twice changes nothing more.

    Implements: STATE-05, STATE-08, STATE-14.
    """
    state = dict(snapshot)
    for op in ops:
        if op.delete:
            state.pop(op.key, None)
        else:
            state[op.key] = op.value
    return state


class ToolStateView:
    """What one call sees: the committed snapshot under its own staged writes.

    Other calls in flight are invisible. Limits are checked when a value is staged.

    Implements: STATE-02, STATE-03, STATE-10.
    """

    def __init__(
        self, snapshot: Snapshot, *, max_value_bytes: int = DEFAULT_MAX_VALUE_BYTES
    ) -> None:
        self._snapshot = snapshot
        self._staged: list[ToolStateOp] = []
        self._max_value_bytes = max_value_bytes

    def get(self, key: str, default: JsonValue = None) -> JsonValue:
        """Return a key's value, or `default` when the key is not set."""
        return self._merged().get(key, default)

    def has(self, key: str) -> bool:
        """Say whether the key is set; a key set to None (JSON null) is."""
        return key in self._merged()

    def keys(self) -> tuple[str, ...]:
        """Return the keys in ascending order."""
        return tuple(sorted(self._merged()))

    def set(self, key: str, value: JsonValue) -> None:
        """Stage a value.

        Raises:
            UsageError: The value is not JSON, or too large (64 KiB a value, 256 KiB a call,
                512 KiB in all).
        """
        try:
            size = len(json.dumps(value, allow_nan=False).encode())
        except (TypeError, ValueError) as error:
            raise UsageError(f"Tool state {key!r} takes JSON values only: {error}.") from error
        if size > self._max_value_bytes:
            raise UsageError(
                f"Tool state {key!r} is {size} bytes of JSON, at most {self._max_value_bytes} are "
                "allowed. Keep large things in a file and store its path."
            )
        self._stage(ToolStateOp(key=key, value=value))

    def delete(self, key: str) -> None:
        """Stage the deletion of a key; a key that is not set is no error."""
        self._stage(ToolStateOp(key=key, delete=True))

    def pending(self) -> tuple[ToolStateOp, ...]:
        """Return the staged ops in order, without taking them."""
        return tuple(self._staged)

    def restore(self, ops: Iterable[ToolStateOp]) -> None:
        """Stage ops that were journaled earlier, in place of what is staged."""
        self._staged = list(ops)

    def clear(self) -> None:
        """Drop what is staged."""
        self._staged = []

    def _merged(self) -> Snapshot:
        return apply_ops(self._snapshot, self._staged) if self._staged else self._snapshot

    def _stage(self, op: ToolStateOp) -> None:
        staged = [*self._staged, op]
        for what, size, limit in (
            ("this call's tool state", _ops_bytes(staged), MAX_OPS_BYTES),
            (
                "the run's tool state",
                _json_bytes(apply_ops(self._snapshot, staged)),
                MAX_SNAPSHOT_BYTES,
            ),
        ):
            if size > limit:
                raise UsageError(
                    f"Setting {op.key!r} would make {what} {size} bytes of JSON; at most {limit} "
                    "are allowed. Delete keys, or keep large things in a file."
                )
        self._staged = staged


def _ops_bytes(ops: Iterable[ToolStateOp]) -> int:
    return sum(len(op.model_dump_json().encode()) for op in ops)


def _json_bytes(value: Mapping[str, JsonValue]) -> int:
    return len(json.dumps(value).encode())


class ToolStateController:
    """One agent's tool state in one process: a view per call over one committed snapshot.

    Implements: STATE-07, STATE-12.
    """

    def __init__(self, snapshot: Snapshot | None = None) -> None:
        self._committed: dict[str, JsonValue] = dict(snapshot or {})
        self._views: dict[str, ToolStateView] = {}

    def begin(self, call_id: str) -> ToolStateView:
        """Return the call's view; the same one when asked again."""
        return self._views.setdefault(call_id, ToolStateView(self._committed))

    def pending(self, call_id: str) -> tuple[ToolStateOp, ...]:
        """Return a call's staged ops; empty when it staged none."""
        view = self._views.get(call_id)
        return view.pending() if view is not None else ()

    def commit(self, call_id: str) -> tuple[ToolStateOp, ...]:
        """Merge a call's ops into the snapshot, drop its view, and return the ops."""
        ops = self.pending(call_id)
        self._views.pop(call_id, None)
        if ops:
            self._committed = apply_ops(self._committed, ops)
        return ops

    def discard(self, call_id: str) -> None:
        """Drop a call's view and what it staged."""
        self._views.pop(call_id, None)

    def snapshot(self) -> dict[str, JsonValue]:
        """Return a copy of the committed map."""
        return dict(self._committed)
