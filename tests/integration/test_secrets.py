"""No key, header or token of a provider is kept or shown anywhere, whatever its service answers.

The services here echo the key that they were called with in every way that they can. The last
two keys have no beginning that would give them away.
"""

import asyncio
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from temporalio.client import Client, WorkflowFailureError
from temporalio.worker import Worker

from tests.cli.conftest import Cli
from tests.support.fake_llm import (
    FakeLLM,
    Reply,
    Request,
    anthropic_events,
    anthropic_turn,
    json_error,
    openai_chunks,
)
from tests.support.server import queue_of
from worker import ZidanePlugin
from zidane_client.embedded import EmbeddedServer
from zidane_core import Agent

pytestmark = [pytest.mark.server, pytest.mark.asyncio(loop_scope="session")]

SECRETS = {
    "anthropic": "sk-ant-api03-SECRETa1b2c3d4e5f6",
    "openai": "sk-proj-SECRETz9y8x7w6v5u4",
    "openai_compat": "c0ffee5ec2e7c0ffee5ec2e7deadbeef",
    "openrouter": "eyJhbGciOiJIUzI1NiJ9.SECRETbearer.payload",
}
MODELS = {
    "anthropic": "anthropic:claude-sonnet-5-5",
    "openai": "openai:gpt-5",
    "openai_compat": "openai_compat:local",
    "openrouter": "openrouter:any/model",
}


def refused(status: int, kind: str | None = None) -> Callable[[str], Reply]:
    """An answer that names the key in its message."""

    def reply(key: str) -> Reply:
        message = f"Incorrect API key provided: {key}. Authorization: Bearer {key}; x-api-key={key}"
        return json_error(status, {"error": {"type": kind or "some_error", "message": message}})

    return reply


def in_stream(key: str) -> Reply:
    error = {"type": "invalid_request_error", "message": f"request with {key} refused"}
    event = {"type": "error", "error": error}
    return Reply(anthropic_events(event).body + f"data: {json.dumps(event)}\n\n".encode())


CLASSES: dict[str, Callable[[str], Reply]] = {
    "auth": refused(401, "authentication_error"),
    "permission": refused(403, "permission_error"),
    "quota": refused(402),
    "invalid": refused(400, "invalid_request_error"),
    "missing": refused(404, "not_found_error"),
    "large": refused(413),
    "odd": refused(418),
    "limit": refused(429),
    "server": refused(500),
    "overloaded": refused(529, "overloaded_error"),
    "in the stream": in_stream,
    "in the code": lambda key: json_error(
        400, {"error": {"type": key, "code": f"bad_{key}", "message": "no"}}
    ),
    "no JSON": lambda key: Reply(
        f"<html>{key}</html>".encode(), status=400, content_type="text/html"
    ),
    "plain text": lambda key: Reply(f"no: {key}".encode(), status=400, content_type="text/plain"),
    "in a header": lambda key: json_error(400, {"error": {"message": "no"}}, retry_after=key),
    "malformed": lambda key: Reply(f"data: {{{key}\n\n".encode()),
    "cut off": lambda key: Reply(f": {key}\n\n".encode(), ending="drop"),
}


@dataclass
class Echo:
    """Answers by the class that the prompt names; keeps which keys it was called with."""

    keys: set[str]

    def answer(self, request: Request) -> Reply:
        headers = {**request.headers}
        key = headers.get("x-api-key") or headers["authorization"].removeprefix("Bearer ")
        self.keys.add(key)
        text = json.dumps(request.body["messages"])
        name = next((name for name in CLASSES if f"answer: {name}!" in text), None)
        if name is not None:
            return CLASSES[name](key)
        if "max_tokens" in request.body:
            return anthropic_turn({"type": "text", "text": "Well."}, model="claude-sonnet-5-5")
        return openai_chunks({"content": "Well."})


async def outcome(client: Client, queue: str, session: str, model: str, name: str) -> str:
    """Start a run, and return all that its history and its result say."""
    asked = {
        "agent": "tester",
        "prompt": f"answer: {name}!",
        "session_id": session,
        "model": model,
        "on_provider_failure": "fail",
        "model_options": {"api": "chat"},
        "behavior": {"retry": {"max_attempts": 2, "initial_delay_ms": 1, "max_delay_ms": 1}},
    }
    handle = await client.start_workflow(
        "AgentRun", asked, id=f"zidane-{session}", task_queue=queue
    )
    try:
        async with asyncio.timeout(60):
            said = json.dumps(await handle.result())
        assert name == "none", f"{model}: {name} did not fail"
    except WorkflowFailureError as error:
        said = f"{error!r} {error.cause!r} {getattr(error.cause, 'details', ())}"
        assert name != "none", said
    history = await handle.fetch_history()
    return said + history.to_json()


def found(key: str, texts: dict[str, bytes]) -> list[str]:
    """Where the key stands; its tail counts as well."""
    needles = (key.encode(), key[-12:].encode())
    return [place for place, text in texts.items() if any(needle in text for needle in needles)]


async def test_no_key_is_in_history_store_logs_results_or_output(
    server: EmbeddedServer,
    client: Client,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
):
    """PROV-05, ERR-07: with every class of failure, and with success."""
    caplog.set_level(logging.DEBUG)
    # At DEBUG the transport library writes down the answers' headers as they come.
    caplog.set_level(logging.INFO, logger="httpcore2")
    echo, queue = Echo(set()), queue_of("secrets")
    async with FakeLLM() as llm:
        llm.otherwise = echo.answer
        for name, key in SECRETS.items():
            monkeypatch.setenv(f"{name.upper()}_API_KEY", key)
            base_url = llm.url if name == "anthropic" else llm.openai_url
            monkeypatch.setenv(f"{name.upper()}_BASE_URL", base_url)
        url = f"sqlite:///{tmp_path / 'store' / 'zidane.db'}"
        plugin = ZidanePlugin([Agent("tester")], store=url)
        async with Worker(client, task_queue=queue, plugins=[plugin]):
            asked = [
                (f"{provider}-{name}".replace(" ", "-"), model, name)
                for provider, model in MODELS.items()
                for name in [*CLASSES, "none"]
            ]
            said = await asyncio.gather(*(outcome(client, queue, *each) for each in asked))
            # While the worker runs, what it wrote may still stand in the log of the database.
            files = sorted((tmp_path / "store").iterdir())
            raw = {f"file {file.name}": file.read_bytes() for file in files}
        cli = Cli(tmp_path, server.home, queue, {"ZIDANE_STORE": url, "COLUMNS": "400"})
        shown = [
            await cli("ps"),
            *[await cli("show", f"{name}-invalid", "--json") for name in MODELS],
        ]
    assert echo.keys == {*SECRETS.values()}
    assert any(name.endswith("-wal") for name in raw)
    logs: dict[str, bytes] = {}
    for record in caplog.records:
        place = f"log of {record.name}"
        line = f"{record.getMessage()} {record.exc_text or ''}\n"
        logs[place] = logs.get(place, b"") + line.encode()
    texts = {
        **raw,
        **{f"run {each[0]}": text.encode() for each, text in zip(asked, said, strict=True)},
        **logs,
        "output": "".join(each.out + each.err for each in shown).encode(),
        "own output": "".join(capfd.readouterr()).encode(),
    }
    assert b"anthropic-invalid" in texts["output"]
    for key in echo.keys:
        assert found(key, texts) == [], f"{key[:12]}..."
