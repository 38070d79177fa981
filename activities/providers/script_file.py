"""Script files of the scripted model: their form, reading them, errors that name the place."""

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from pydantic import ConfigDict, Field, ValidationError, model_validator

from zidane_core.errors import ClassifiedErrorKind, InvalidRequestError
from zidane_core.usage import TurnFinishReason, TurnUsage
from zidane_core.values import Json, UserInput


class ScriptedCall(UserInput):
    """A tool call of a scripted turn."""

    name: str = Field(min_length=1)
    """Canonical name."""
    input: Json = Field(default_factory=dict)
    id: str | None = None
    """None mints one from the turn and the position."""


class ScriptedError(UserInput):
    """A failure of the first attempts of a scripted turn."""

    status: int | None = Field(default=None, ge=400, le=599)
    """HTTP status; what it means is as with a real provider."""
    kind: ClassifiedErrorKind | None = None
    """What the failure is; None takes it from the status."""
    message: str | None = None
    """The sentence of the failure; None makes one."""
    retry_after_ms: int | None = Field(default=None, ge=0)
    times: int = Field(default=1, ge=0)
    """How many attempts fail; after them the turn goes on."""
    after_chars: int = Field(default=0, ge=0)
    """Characters of the turn's text that stream before the failure."""

    @model_validator(mode="after")
    def _has_cause(self) -> Self:
        if self.status is None and self.kind is None:
            raise ValueError("an error wants a status or a kind")
        return self


class ScriptedUsage(TurnUsage):
    """Usage as a script gives it; a field that does not exist is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ScriptedTurn(UserInput):
    """One answer of the scripted model; every field is optional."""

    text: str = ""
    thinking: str = ""
    tool_calls: tuple[ScriptedCall, ...] = ()
    finish_reason: TurnFinishReason | None = None
    """None is `tool-calls` with calls and `stop` without."""
    usage: ScriptedUsage | None = None
    """None estimates a token per four characters."""
    model: str | None = None
    """The model id to report; None reports the file's name."""
    chunk_chars: int | None = Field(default=None, ge=1)
    """Length of the streamed pieces; None streams each text whole."""
    delay_ms: int = Field(default=0, ge=0)
    """Wait between two pieces."""
    error: ScriptedError | None = None
    hang_ms: int = Field(default=0, ge=0)
    """Silent wait after all has streamed, before the turn ends."""


class Script(UserInput):
    """A whole script: turn n answers the request after n assistant turns."""

    turns: tuple[ScriptedTurn, ...]


@dataclass(frozen=True)
class _Cached:
    stamp: tuple[int, int]
    script: Script


_CACHE_SIZE = 64
_cache: dict[str, _Cached] = {}


def load_script(path: str) -> Script:
    """Return the script in a file; read again when the file has changed.

    `.json` files are JSON, all others YAML.

    Raises:
        InvalidRequestError: The file is missing or not a script; names file, turn and field.
    """
    cached = cached_script(path)
    if cached is not None:
        return cached
    stamp, text = _read(path)
    script = _parse(path, text)
    while len(_cache) >= _CACHE_SIZE:
        del _cache[next(iter(_cache))]
    _cache[path] = _Cached(stamp, script)
    return script


def cached_script(path: str) -> Script | None:
    """Return the script if this process has read it and the file is unchanged; reads nothing."""
    cached = _cache.get(path)
    if cached is None:
        return None
    try:
        stat = Path(path).stat()
    except OSError:
        return None
    return cached.script if cached.stamp == (stat.st_mtime_ns, stat.st_size) else None


def _read(path: str) -> tuple[tuple[int, int], str]:
    file = Path(path)
    try:
        # Stamped before reading: a change in between is then seen the next time.
        stat = file.stat()
        return (stat.st_mtime_ns, stat.st_size), file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise InvalidRequestError(
            f"Cannot read script {path!r}: {reason}. Give the path of a YAML or JSON file, "
            "relative to the worker's directory or absolute.",
            field="model",
            path=path,
        ) from error


def _parse(path: str, text: str) -> Script:
    try:
        loaded = json.loads(text) if Path(path).suffix == ".json" else _load_yaml(text)
    except ValueError as error:
        raise InvalidRequestError(
            f"Script {path!r} cannot be read: {error}", field="model", path=path
        ) from error
    if not isinstance(loaded, dict):
        raise InvalidRequestError(
            f"Script {path!r} must be a mapping with the key 'turns', got {type(loaded).__name__}.",
            field="model",
            path=path,
        )
    try:
        return Script.model_validate(loaded)
    except ValidationError as error:
        raise InvalidRequestError(
            _explain(path, error), field=_place(error.errors()[0]["loc"]), path=path
        ) from error


def _load_yaml(text: str) -> Any:
    # Imported on first use: a worker with real models reads no scripts.
    import yaml

    try:
        return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from error


def _place(loc: tuple[int | str, ...]) -> str:
    place = ""
    for part in loc:
        place += f"[{part}]" if isinstance(part, int) else f".{part}"
    return place.removeprefix(".")


def _explain(path: str, error: ValidationError) -> str:
    first = error.errors()[0]
    loc = first["loc"]
    turn = f"turn {loc[1]}: " if len(loc) > 1 and isinstance(loc[1], int) else ""
    where = f"Script {path!r}, {turn}{_place(loc)}"
    if first["type"] == "extra_forbidden":
        known = _known_fields(loc)
        near = difflib.get_close_matches(_place(loc).rpartition(".")[2], known, n=1)
        hint = f"Did you mean {near[0]!r}?" if near else f"Known: {known}."
        return f"{where} is no field. {hint}"
    if first["type"] == "missing":
        return f"{where} is missing."
    return f"{where}: {first['msg']}, got {first['input']!r}."


_MODELS: Mapping[str, type[ScriptedCall | ScriptedError | ScriptedUsage]] = {
    "tool_calls": ScriptedCall,
    "error": ScriptedError,
    "usage": ScriptedUsage,
}


def _known_fields(loc: tuple[int | str, ...]) -> list[str]:
    """Return the fields of the object in which the unknown one stands."""
    if len(loc) < 3:
        return sorted(Script.model_fields)
    if len(loc) == 3:
        return sorted(ScriptedTurn.model_fields)
    return sorted(_MODELS.get(str(loc[2]), ScriptedTurn).model_fields)
