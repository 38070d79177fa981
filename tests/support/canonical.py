"""A session as it must look the same however its runs were driven."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from activities.store import Store
from zidane_core.values import Json

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[1-8][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
_LIVE = {"stream_duration_ms", "time_to_first_token_ms", "duration_ms", "elapsed"} | {
    "time_till_first_token_ms"
}
_TIMES = {"created_at", "started_at", "ended_at"}
_MEASURED = re.compile(r"[0-9.e+]+ ms spent")


class _Canon:
    """Numbers ids by their first appearance; drops what only a clock decides."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self._ids: dict[str, str] = {}

    def of(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            fields = cast(Mapping[str, Any], value)
            return {
                name: self.of(field)
                # Sorted: a payload that went through Temporal has its keys in another order.
                for name, field in sorted(fields.items())
                if name not in _LIVE | _TIMES and not self._is_measured(name, fields)
            }
        if isinstance(value, list | tuple):
            return [self.of(item) for item in cast(list[Any], value)]
        if isinstance(value, str):
            text = _MEASURED.sub("N ms spent", value.replace(self._folder, "FOLDER"))
            return _UUID.sub(lambda found: self._number(found[0]), text)
        return value

    @staticmethod
    def _is_measured(name: str, fields: Mapping[str, Any]) -> bool:
        return name == "spent" and fields.get("limit") == "wallClock"

    def _number(self, found: str) -> str:
        return self._ids.setdefault(found, f"id-{len(self._ids)}")


async def canonical_session(store: Store, session_id: str, folder: Path) -> Json:
    """Return path, runs and tool state of a session in canonical form.

    Ids are numbered by first appearance; times are dropped once their order is checked; live
    measurements are dropped; aborted turns are left out, as they are not on the path. A run's
    manifest is left out: it holds the folder.
    """
    head = await store.session_head(session_id)
    path = await store.path(session_id, head)
    times = [turn.created_at for turn in path]
    assert times == sorted(times), f"turns are out of order in time: {times}"
    records = await store.list_runs(limit=1000)
    runs = sorted(
        (record for record in records if record.session_id == session_id),
        key=lambda record: record.started_at,
    )
    canon = _Canon(folder)
    canon.of(session_id)
    return {
        "turns": canon.of([turn.packed() for turn in path]),
        "runs": canon.of([{**record.packed(), "manifest": None} for record in runs]),
        "state": canon.of(await store.tool_state(session_id)),
    }


def canonical_result(result: Json, folder: Path) -> Json:
    """Return a run's result in canonical form."""
    return _Canon(folder).of(result)
