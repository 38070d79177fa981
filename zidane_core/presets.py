"""Behavior fields worth starting from, as data: a base for `behavior` of an agent or a run."""

from zidane_core.values import Json

UNATTENDED: Json = {
    "elide_stale_reads": "off",
    "media_budget": {"max_items": 80, "max_bytes": 20 * 1024 * 1024},
    "repeat_guard": {
        "tools": ["*"],
        "count_blocked_calls": True,
        "results": True,
        "cycles": True,
        "loose_limit": 24,
        "count_invalid": True,
    },
    "tool_output_budget": 262_144,
    "unknown_tool_recovery": {},
    "text_tool_call_rescue": {},
}
"""For runs that nobody watches (LIFE-08, DUR-18). Thresholds are the guard's defaults; every tool
is watched, but a tool that polls is stopped only when its result stands still, or by the loose
limit: 24 equal calls in a row. Merge it under your own fields, as in `{**UNATTENDED, ...}`."""
