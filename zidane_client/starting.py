"""Starts a run: from what a caller asks for to a checked payload and a workflow."""

import json
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from pydantic import JsonValue
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError

from activities.providers.registry import split_target
from zidane_client.connection import WORKFLOW_ID_PREFIX, WORKFLOW_TYPE, Connection
from zidane_core.agent import Agent
from zidane_core.behavior import AgentBehavior, parse_behavior
from zidane_core.content import Prompt, prompt_blocks, tool_result_to_text
from zidane_core.control import ControlName, QueuedUserMessage, Refused, parse_control
from zidane_core.errors import InvalidRequestError, SessionBusyError
from zidane_core.runs import MAX_PAYLOAD_BYTES, ModelTarget, RunRequest, parse_request
from zidane_core.values import Json, UserInput

MAX_SUMMARY_CHARS = 100
_SCRIPTED = "scripted"

ModelChoice = (
    str | ModelTarget | Mapping[str, str] | Sequence[str | ModelTarget | Mapping[str, str]]
)
"""`provider:model`, or several in fallback order."""

Message = str | QueuedUserMessage | Mapping[str, JsonValue]
"""Text, or a message with parts and notes."""


async def start_run(
    connection: Connection, agent: str | Agent, fields: Mapping[str, Any]
) -> tuple[str, str]:
    """Start a run from the fields of a RunRequest; return its session id and run id.

    Raises:
        UsageError: As `ZidaneClient.start` says; nothing was started.
        ServerUnreachableError: The server does not answer.
    """
    request = checked_request(agent, fields)
    _check_prompt(request.prompt)
    session_id = request.session_id or str(uuid.uuid4())
    packed = request.packed()
    # Read by nobody in the run, so it stays out of the run's input (RUN-17).
    metadata = packed.pop("metadata", None)
    memo = {"agent": request.agent, **({"metadata": metadata} if metadata else {})}
    checked_payload(packed, "The run request")
    checked_payload(memo, "The metadata")
    try:
        with connection.calling():
            started = await connection.temporal.start_workflow(
                WORKFLOW_TYPE,
                packed,
                id=WORKFLOW_ID_PREFIX + session_id,
                task_queue=connection.task_queue,
                id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
                id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
                memo=memo,
                static_summary=_summary_of(request.prompt),
            )
    except WorkflowAlreadyStartedError as error:
        raise SessionBusyError(
            f"Session {session_id!r} has an open run. Steer it (zidane steer {session_id} TEXT), "
            "queue a follow-up, or wait for its end.",
            session_id=session_id,
            run_id=error.run_id,
        ) from error
    return session_id, str(started.first_execution_run_id)


def checked_request(agent: str | Agent, fields: Mapping[str, Any]) -> RunRequest:
    """Return a run request as it may go on the wire.

    Paths become absolute here, because a worker's working directory is another one.

    Args:
        agent: Name, or the Agent, of which only the name travels.
        fields: Fields of RunRequest; None leaves one out.

    Raises:
        InvalidRequestError: A field is wrong, or holds a function (G-58).
        UnknownModelError: A model is not of the form `provider:model`.
    """
    given = {name: value for name, value in fields.items() if value is not None}
    for name, value in given.items():
        _refuse_functions(name, value)
    request: dict[str, Any] = {"agent": agent.name if isinstance(agent, Agent) else agent}
    request.update({name: _plain(value) for name, value in given.items()})
    if "behavior" in given:
        request["behavior"] = _behavior(given["behavior"])
    if "model" in given:
        request["model"] = _models(given["model"])
    if "workspace" in given:
        request["workspace"] = str(Path(given["workspace"]).expanduser().resolve())
    return parse_request(request)


def checked_payload(payload: Any, what: str) -> Any:
    """Return a payload that Temporal takes for sure.

    Raises:
        InvalidRequestError: It is no JSON, or has more than 256 KiB.
    """
    try:
        size = len(json.dumps(payload, ensure_ascii=False).encode())
    except (TypeError, ValueError) as error:
        raise InvalidRequestError(f"{what} is not JSON: {error}.") from error
    if size > MAX_PAYLOAD_BYTES:
        raise InvalidRequestError(
            f"{what} has {size} bytes, at most {MAX_PAYLOAD_BYTES} are taken. Put long text or "
            "media in a file of the workspace and name the file.",
            size=size,
        )
    return payload


def checked_message(name: ControlName, message: Message, id: str | None) -> Json:
    """Return the payload of a steer or follow-up.

    Checked here because a signal that the run refuses gives its sender no answer.

    Raises:
        InvalidRequestError: It is empty, has a field that does not exist, or is over 256 KiB.
    """
    match message:
        case str():
            packed: Json = {"prompt": message}
        case QueuedUserMessage():
            packed = message.packed()
        case _:
            packed = dict(message)
    if id is not None:
        packed["id"] = id
    checked_payload(packed, "The message")
    control = parse_control(name, packed, size=0)
    if isinstance(control, Refused):
        raise InvalidRequestError(f"The message was not sent: {control.reason}.")
    return packed


def _summary_of(prompt: Prompt | None) -> str | None:
    """Return the prompt's first line for the Temporal UI, at most 100 characters."""
    if prompt is None:
        return None
    text = (
        prompt
        if isinstance(prompt, str)
        else tool_result_to_text(tuple(part.to_block() for part in prompt))
    )
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    if len(line) > MAX_SUMMARY_CHARS:
        line = line[: MAX_SUMMARY_CHARS - 1] + "…"
    return line or None


def _check_prompt(prompt: Prompt | None) -> None:
    """Refuse a prompt that is there but holds nothing (RUN-02)."""
    if prompt is not None and not (isinstance(prompt, str) and prompt.strip()):
        if not isinstance(prompt, str) and prompt_blocks(prompt):
            return
        raise InvalidRequestError("The prompt is empty. Say what the agent shall do.")


def _refuse_functions(name: str, value: Any) -> None:
    match value:
        case Mapping():
            for key, entry in cast("Mapping[str, Any]", value).items():
                _refuse_functions(f"{name}.{key}", entry)
        case list() | tuple():
            for entry in cast("Sequence[Any]", value):
                _refuse_functions(name, entry)
        case _ if callable(value):
            shown = getattr(value, "__name__", None) or getattr(value, "name", None) or repr(value)
            raise InvalidRequestError(
                f"{name} holds the function {shown!r}, and code cannot travel to a worker. Give it "
                "a name there (Agent(tools=..., callables={name: function})) and put that name "
                "here.",
                field=name,
            )
        case _:
            return


def _plain(value: Any) -> Any:
    match value:
        case UserInput():
            return value.packed()
        case Mapping():
            return {key: _plain(v) for key, v in cast("Mapping[str, Any]", value).items()}
        case list() | tuple():
            return [_plain(entry) for entry in cast("Sequence[Any]", value)]
        case Path():
            return str(value)
        case _:
            return value


def _behavior(given: Any) -> Json:
    if isinstance(given, AgentBehavior):
        return given.packed()
    if not isinstance(given, Mapping):
        raise InvalidRequestError(
            f"behavior is an AgentBehavior or an object of its fields, got {given!r}.",
            field="behavior",
        )
    fields: Json = _plain(given)
    parse_behavior(fields)
    return fields


def _models(given: Any) -> Any:
    if isinstance(given, list | tuple):
        return [_model(entry) for entry in cast("Sequence[Any]", given)]
    entry = _model(given)
    return entry if isinstance(entry, str) else [entry]


def _model(given: Any) -> Any:
    if isinstance(given, ModelTarget):
        provider, model = given.provider, given.model or ""
    elif isinstance(given, str):
        provider, model = split_target(given)
    else:
        return _plain(given)
    if provider == _SCRIPTED and model:
        model = str(Path(model).expanduser().absolute())
    # A model's name alone: only a worker knows which of its providers may have it.
    return f"{provider}:{model}" if provider else model
