"""AgentBehavior: the settings of a run, and which setting overrides which.

A field is declared here when it works.
"""

import difflib
import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal, cast

from pydantic import BeforeValidator, ConfigDict, Field, JsonValue, ValidationError

from zidane_core.context_options import (
    CompactSkip,
    MediaBudget,
    StaleReads,
    read_fraction,
    read_stale_reads,
)
from zidane_core.errors import InvalidRequestError
from zidane_core.models import ModelInfo
from zidane_core.values import Json, UserInput

ThinkingLevel = Literal["off", "minimal", "low", "medium", "high", "xhigh", "max", "adaptive"]
"""How much to reason (RUN-05); providers map it to what they have."""


CacheTtl = Literal["5m", "1h"]
"""How long a prompt cache entry lives; an hour costs twice the input price to write."""


def _budget(value: Any) -> Any:
    """Read 0, negative and NaN budgets as unbounded (BUD-01, BUD-03)."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value if math.isfinite(value) and value > 0 else None
    return value


def _attempts(value: Any) -> Any:
    """Read an attempt count below 1, non-finite or fractional as the default (PROV-03)."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return int(value) if math.isfinite(value) and value >= 1 and value == int(value) else 3
    return value


def _at_least_one(value: Any) -> Any:
    return max(1, value) if isinstance(value, int) else value


def _overrun(value: Any) -> Any:
    """Read the short forms `off` and `steer-next-turn`."""
    return {"mode": value} if isinstance(value, str) else value


class RetryConfig(UserInput):
    """How often and how soon a failed model call is tried again.

    Implements: PROV-03, PROV-04.
    """

    max_attempts: Annotated[int, BeforeValidator(_attempts)] = 3
    """Attempts in all, per target and turn; 1 means no retry."""
    initial_delay_ms: int = Field(default=1_000, ge=0)
    """Delay before the second attempt; doubles with each, with full jitter."""
    max_delay_ms: int = Field(default=30_000, ge=0)
    """Cap of each delay, also of one that the server asked for."""


class ThinkingDecay(UserInput):
    """How the thinking budget shrinks over a run.

    Without `factor` it is a step: the whole budget through `after_turn`, then `floor`. With one,
    each turn past `after_turn` multiplies by it, down to `floor`. On Anthropic every new value
    writes the whole prompt cache again, so prefer the step (THNK-09).

    Implements: THNK-05, THNK-06.
    """

    after_turn: int = Field(ge=0)
    floor: int = Field(ge=1)
    """Tokens."""
    factor: float | None = Field(default=None, gt=0, lt=1)


class ThinkingOverrun(UserInput):
    """What to do when a turn reasons for longer than expected (NUDGE-10)."""

    mode: Literal["off", "steer-next-turn"] = "steer-next-turn"
    threshold_tokens: int = Field(default=16_384, ge=1)
    message: str | None = None
    """What the model is told; None is a standard sentence."""


class AgentBehavior(UserInput):
    """How a run behaves. Durations in milliseconds, sizes in bytes, money in USD.

    Implements: RUN-04.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    max_turns: int | None = Field(default=None, ge=1)
    """Model turns of a run; None is unlimited (LOOP-02)."""
    max_tokens: int | None = Field(default=None, ge=1)
    """Output cap of one response; None leaves it to the provider (LOOP-12)."""
    max_consecutive_pause_turns: int = Field(default=0, ge=0)
    """Empty `pause` turns in a row before the run ends; 0 is unlimited (LOOP-07)."""
    resume_on_max_tokens: bool = False
    """Go on by itself after an answer that hit the output cap (LOOP-08)."""
    max_consecutive_length_resumes: int = Field(default=8, ge=0)
    """Such resumes in a row that gave text; 0 disables them (LOOP-09)."""
    max_consecutive_refusal_resumes: int = Field(default=3, ge=0)
    """Retries of a refused turn in a row; 0 disables them (LOOP-11)."""
    max_cost_usd: Annotated[float | None, BeforeValidator(_budget)] = None
    """Spend of a run, checked after each turn; None is unbounded (BUD-01)."""
    max_total_tokens: Annotated[int | None, BeforeValidator(_budget)] = None
    """Input plus output tokens of a run, cache excluded (BUD-02)."""
    max_wall_ms: Annotated[int | None, BeforeValidator(_budget)] = None
    """Time since the start of the run, waiting included (BUD-03, G-27)."""
    max_concurrent_tools: Annotated[int, BeforeValidator(_at_least_one)] = 10
    """Concurrency-safe calls that run at once; 1 is strictly sequential (TOOL-02)."""
    retry: RetryConfig = RetryConfig()
    hook_timeout_ms: int = Field(default=300_000, ge=0)
    """Watchdog on each hook dispatch; 0 is off (HOOK-04)."""
    provider_stream_start_timeout_ms: int = Field(default=300_000, ge=0)
    """From dispatch to the first event of a model stream; 0 is off (PROV-07)."""
    provider_stream_idle_timeout_ms: int = Field(default=0, ge=0)
    """Between two events of a model stream; 0 is off (PROV-08)."""
    provider_stream_timeout_ms: int = Field(default=1_800_000, ge=0)
    """A model call as a whole; 0 is off (PROV-09)."""
    thinking_budget: int | None = Field(default=None, ge=1)
    """Tokens of reasoning; overrides the level's own (THNK-02)."""
    thinking_decay: ThinkingDecay | str | None = None
    """How `thinking_budget` shrinks with the run's turns; a string names one of the agent's
    callables, `(run_turn, base_budget) -> tokens` (THNK-05 to THNK-07). No budget, no decay."""
    effort_hint: bool = True
    """Send the level as an effort where the service knows it (THNK-03)."""
    task_budget: int | None = Field(default=None, ge=1)
    """Tokens of reasoning for the whole task, with adaptive thinking on Anthropic (THNK-04)."""
    thinking_overrun_policy: Annotated[ThinkingOverrun | None, BeforeValidator(_overrun)] = None
    """Nudge a model that reasons at length; `off`, `steer-next-turn`, or its fields (NUDGE-10)."""
    cache: bool = True
    """Mark prompt cache break points (CACHE-01)."""
    cache_ttl: CacheTtl = "5m"
    """How long cache entries live, where the provider knows it (CACHE-02)."""
    output_schema: Json | None = Field(default=None, alias="schema")
    """JSON Schema that the final answer must fit; the value is in the stats (OUT-01)."""
    max_output_retries: int = Field(default=4, ge=0)
    """Answers that do not fit the schema before the run fails (OUT-02)."""
    model_catalog: Mapping[str, ModelInfo] | None = None
    """Facts of models by `provider:model`, over the worker's own (CAT-01)."""
    model_options: Mapping[str, JsonValue] | None = None
    """Options by id; a model ignores those that it does not declare (RUN-18)."""
    strict_tool_pairing: bool = False
    """Fail the run instead of repairing the wire view (SESS-12)."""
    max_pairing_repairs_per_turn: int | None = Field(default=None, ge=1)
    """Repairs of one wire view before the run fails; None is off (SESS-13)."""
    elide_stale_reads: Annotated[StaleReads, BeforeValidator(read_stale_reads)] = "off"
    """Reads that a later edit made untrue: `stub`, `notice` or `off`; true is `stub` (FILE-07)."""
    compact_strategy: str = "off"
    """`off`, `tail`, or the name of one of the agent's callables, `(messages) -> messages`
    (CMP-01)."""
    compact_threshold: int = Field(default=131_072, ge=1)
    """Bytes of tool output above which `tail` leaves the older out (CMP-04)."""
    compact_threshold_window_fraction: float | None = Field(default=None, gt=0)
    """Raises the threshold to this share of the window, at four bytes a token (CMP-05)."""
    compact_low_water_fraction: Annotated[float | None, BeforeValidator(read_fraction)] = None
    """Share of the threshold that a step of `tail` trims to; outside of 0 to 1 it is ignored
    (CMP-06)."""
    compact_keep_turns: int = Field(default=4, ge=0)
    """Newest messages that `tail` never touches (CMP-03)."""
    compact_skip: CompactSkip | None = None
    """When `tail` is left out (CMP-07)."""
    context_window: int | None = Field(default=None, ge=1)
    """Tokens of the model's window, over what the catalogue and the provider say (CMP-10)."""
    media_keep_turns: int | None = Field(default=None, ge=0)
    """Newest messages that keep their media, 0 none; None is off (MED-01)."""
    media_budget: MediaBudget | None = None
    """Media of a request before the oldest is left out; not with `media_keep_turns` (MED-02)."""
    extensions: Mapping[str, JsonValue] | None = None
    """The host's own settings; tools see them, the runtime never reads them (RUN-23)."""


_MEDIA_FIELDS = frozenset({"media_keep_turns", "media_budget"})


def _known_fields(value: Any) -> Any:
    """Drop the fields that a newer version wrote, so that an older worker can read them."""
    if not isinstance(value, dict):
        return value
    fields = cast(dict[str, Any], value)
    return {name: fields[name] for name in fields if name in AgentBehavior.model_fields}


StoredBehavior = Annotated[AgentBehavior, BeforeValidator(_known_fields)]
"""A behavior read back from history or store; unknown fields are dropped, not refused."""


def resolve_behavior(run: Json | None, agent: AgentBehavior | None) -> AgentBehavior:
    """Return the behavior of a run: the run's fields over the agent's over the defaults.

    `extensions` merges key by key, the run's keys winning; `model_catalog` also field by field
    within an entry (CAT-02). `media_keep_turns` and `media_budget` go together: a run that sets
    one drops the agent's other (MED-05).

    Raises:
        InvalidRequestError: A field does not exist or has a wrong value; names it and, for an
            unknown one, the nearest that exists.

    Implements: RUN-04, CAT-01, CAT-02, MED-05.
    """
    base: Json = agent.packed() if agent is not None else {}
    override = dict(run or {})
    if "schema" in override:
        override["output_schema"] = override.pop("schema")
    if override.keys() & _MEDIA_FIELDS:
        base = {name: base[name] for name in base if name not in _MEDIA_FIELDS}
    merged: Json = {**base, **override}
    ours, theirs = override.get("extensions"), base.get("extensions")
    if isinstance(ours, dict) and isinstance(theirs, dict):
        merged["extensions"] = {**theirs, **ours}
    if override.get("model_catalog") is not None:
        merged["model_catalog"] = _over(override["model_catalog"], base.get("model_catalog"))
    return parse_behavior(merged)


def _over(ours: JsonValue, theirs: JsonValue) -> JsonValue:
    """Merge two JSON values: objects key by key, and what one leaves open the other says."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return {**theirs, **{key: _over(ours[key], theirs.get(key)) for key in ours}}
    return theirs if ours is None else ours


def parse_behavior(fields: Json) -> AgentBehavior:
    """Read behavior fields as a person typed them; errors as in `resolve_behavior`."""
    try:
        return AgentBehavior.model_validate(fields)
    except ValidationError as error:
        raise InvalidRequestError(_explain(error), field=_path(error)) from error


def _path(error: ValidationError) -> str:
    return ".".join(str(part) for part in error.errors()[0]["loc"])


def _explain(error: ValidationError) -> str:
    first = error.errors()[0]
    where = f"behavior.{_path(error)}"
    if first["type"] != "extra_forbidden":
        return f"Bad value for {where}: {first['input']!r}. {first['msg']}."
    model = RetryConfig if first["loc"][0] == "retry" else AgentBehavior
    near = difflib.get_close_matches(
        str(first["loc"][-1]), list(model.model_fields), n=1, cutoff=0.4
    )
    hint = f" Did you mean {near[0]!r}?" if near else f" Known: {sorted(model.model_fields)}."
    return f"Unknown field {where}.{hint}"
