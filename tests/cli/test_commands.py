"""The command line end to end: what it prints, and with which code it ends (design.md, 6)."""

import asyncio
import os
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from tests.cli.conftest import Cli, ended
from zidane_core.runs import RunResult

pytestmark = pytest.mark.server

SHORT = """
turns:
  - text: "looking"
    usage: {input: 1000, output: 20, cost: 0.0125}
    tool_calls: [{name: shell, input: {command: "echo found"}}]
  - text: "done: {{prompt}}"
"""
ASKS = """
turns:
  - {text: "slowly", hang_ms: 600000}
"""
OUTAGE = "turns: [{error: {kind: auth, message: 'bad key', times: 1}, text: back}]"
FAILS = "turns: [{error: {kind: invalid, message: 'no such thing', times: 9}}]"
AGENTS = """
from activities.toolbox.human import ask_user
from zidane_core import Agent
asker = Agent("asker", tools=[ask_user])
many = [asker, Agent("other")]
nothing = 5
"""
QUESTION = """
turns:
  - tool_calls: [{id: q1, name: ask_user, input: {question: "Which one?"}}]
  - text: "you said {{last_result}}"
"""
ONE_LINE = re.compile(r"Error: [^\n]+\n")


@asynccontextmanager
async def worker(cli: Cli, *agents: str) -> AsyncGenerator[None]:
    """A worker process, drained at the end."""
    process = await cli.start("worker", *agents)
    assert process.stderr is not None
    async with asyncio.timeout(60):
        assert b"Worker for" in await process.stderr.readline()
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        assert (await ended(process)).code == 0


def test_help_needs_no_temporal():
    imported = "import sys, zidane_client.cli.app; sys.exit('temporalio' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", imported], check=False).returncode == 0


async def test_run_brings_a_worker_along_and_prints_text_calls_cost_and_turns(cli: Cli):
    """DUR-03, K-TEMPORAL-11 a."""
    model = cli.script(SHORT)
    run = await cli("run", "basic", "hello", "--model", model, "--session", "shown")
    assert run.code == 0, run.err
    for part in ("looking", "✓ shell echo found", "done: hello", "2 turns", "$0.0125", "completed"):
        assert part in run.out
    assert run.out.count("looking") == 1
    shown, listed, replayed = await asyncio.gather(
        cli("show", "sho", "--json"), cli("ps", "--json"), cli("replay", "shown", "--json")
    )
    assert [turn["role"] for turn in shown.json["turns"]] == ["user", "assistant"] * 2
    assert shown.json["status"] == "completed"
    assert [(each["session_id"], each["status"], each["turns"]) for each in listed.json] == [
        ("shown", "completed", 2)
    ]
    assert (replayed.code, replayed.json["ok"]) == (0, True)
    again, steered, plain = await asyncio.gather(
        cli("watch", "shown"), cli("steer", "shown", "more"), cli("show", "shown")
    )
    assert again.code == 0
    assert again.out == run.out
    assert steered.code == 2
    assert "is over" in steered.err
    assert "looking" in plain.out
    assert str(cli.folder) in shown.json["model"]


async def test_a_reader_that_goes_away_ends_the_command_and_not_the_run(cli: Cli):
    """As in `zidane run ... | head -1`: no traceback, no process that stays."""
    model = cli.script(SHORT)
    read, write = os.pipe()
    os.close(read)
    try:
        run = await ended(
            await cli.start(
                "run", "basic", "hi", "--model", model, "--session", "unread", stdout=write
            )
        )
    finally:
        os.close(write)
    assert (run.code, run.err) == (141, "")
    again = await cli("watch", "unread")
    assert (again.code, "done: hi" in again.out) == (0, True)


async def test_json_is_exactly_the_run_result(cli: Cli):
    model = cli.script(SHORT)
    run = await cli("run", "basic", "hello", "--model", model, "--json")
    assert run.code == 0
    # What an ordinary end has nothing to say about is not written.
    assert set(run.json) == set(RunResult.model_fields) - {"finish_reason", "output_refused"}
    assert run.json["text"] == "done: hello"


async def test_a_wrong_argument_is_one_readable_line_and_exit_code_2(cli: Cli):
    """RUN-02, K-TEMPORAL-11."""
    (cli.folder / "mine.py").write_text(AGENTS)
    short, broken = cli.script(SHORT), cli.script("turns: 5", "broken.yaml")
    wrong = {
        ("nobody", "x", "--model", short): "Unknown agent 'nobody'",
        ("basic", "x"): "No model",
        ("basic", "x", "--model", "nope:m"): "Unknown provider 'nope'",
        ("basic", "x", "--model", "anthropic:m"): "ANTHROPIC_API_KEY",
        ("basic", "x", "--model", broken): "turns",
        ("basic", "x", "--model", short, "--set", "behavior.max_trns=1"): "max_turns",
        ("basic", "x", "--model", short, "--workspace", "none"): "not a folder",
        ("basic", "x", "--agents", "nomodule:a"): "'nomodule' was not found",
    }
    async with worker(cli):
        runs = [await cli("run", *arguments) for arguments in wrong]
        listed = await cli("ps", "--json")
    for run, says in zip(runs, wrong.values(), strict=True):
        assert run.code == 2
        assert ONE_LINE.fullmatch(run.err)
        assert says in run.err
    assert listed.json == []


async def test_what_is_out_of_reach_is_exit_code_5_with_what_to_do(cli: Cli):
    """K-TEMPORAL-11 b."""
    newer = cli.folder / "newer.db"
    with sqlite3.connect(newer) as database:
        database.execute("CREATE TABLE zidane_schema (version_num TEXT)")
        database.execute("INSERT INTO zidane_schema VALUES ('9999')")
    database.close()
    model = cli.script(SHORT)
    dead, nowhere, too_new = await asyncio.gather(
        cli("run", "basic", "x", "--model", model, TEMPORAL_ADDRESS="127.0.0.1:1"),
        cli("ps", ZIDANE_STORE="postgresql://me:secret@127.0.0.1:1/none"),
        cli("ps", ZIDANE_STORE=f"sqlite:///{newer}"),
    )
    assert (dead.code, nowhere.code, too_new.code) == (5, 5, 5)
    assert "zidane dev" in dead.err
    assert "secret" not in nowhere.err
    assert "'9999'" in too_new.err


async def test_a_failed_run_is_exit_code_1_and_its_result_is_the_document(cli: Cli):
    run = await cli("run", "basic", "x", "--model", cli.script(FAILS), "--json", "--fail")
    assert run.code == 1
    assert run.json["status"] == "error"
    assert run.json["error"]["type"] == "AgentProviderError"
    assert "no such thing" in run.err


async def test_a_parked_run_is_exit_code_4_and_resume_goes_on(cli: Cli):
    """DUR-10."""
    model = cli.script(OUTAGE)
    async with worker(cli):
        run = await cli("run", "basic", "x", "--model", model, "--session", "p", "--json")
        assert run.code == 4
        assert run.json["status"] == "parked"
        assert "bad key" in run.json["reason"]
        watched = await cli("watch", "p")
        assert watched.code == 4
        assert "zidane resume p" in watched.out
        assert (await cli("resume", "p")).code == 0
        watched = await cli("watch", "p", "--json")
        assert watched.code == 0
        assert watched.json["text"] == "back"


async def test_an_aborted_run_is_exit_code_3_and_a_suspended_one_4(cli: Cli):
    """CTL-08, CTL-09."""
    model = cli.script(ASKS)
    async with worker(cli):
        for session in ("one", "two"):
            started = await cli("run", "basic", "x", "-m", model, "-s", session, "-d", "--json")
            assert set(started.json) == {"session_id", "run_id", "workflow_id"}
        watches = [await cli.start("watch", session) for session in ("one", "two")]
        assert (await cli("abort", "one", "--reason", "enough")).code == 0
        assert (await cli("suspend", "two")).code == 0
        assert [(await ended(process)).code for process in watches] == [3, 4]


async def test_ctrl_c_detaches_and_says_how_to_come_back(cli: Cli):
    """DUR-03."""
    model = cli.script(ASKS)
    async with worker(cli):
        process = await cli.start("run", "basic", "x", "--model", model, "--session", "s")
        assert process.stdout is not None
        async with asyncio.timeout(60):
            assert b"session s" in await process.stdout.readline()
        process.send_signal(signal.SIGINT)
        run = await ended(process)
        assert run.code == 130
        assert "zidane watch s" in run.out
        listed = await cli("ps", "--json")
        assert [each["status"] for each in listed.json] == ["running"]
        assert (await cli("abort", "s")).code == 0
        assert (await cli("watch", "s")).code == 3


async def test_a_question_is_shown_and_answered(cli: Cli):
    """DUR-03."""
    (cli.folder / "mine.py").write_text(AGENTS)
    model = cli.script(QUESTION)
    async with worker(cli, "mine:many"):
        process = await cli.start("run", "asker", "x", "--model", model, "--session", "q")
        assert process.stdout is not None
        async with asyncio.timeout(60):
            while b"zidane answer q q1" not in await process.stdout.readline():
                pass
        assert (await cli("answer", "q", "q9", "red")).code == 2
        assert (await cli("answer", "q", "q1", "red")).code == 0
        run = await ended(process)
    assert run.code == 0
    assert "you said red" in run.out


async def test_a_detached_run_without_a_worker_waits_and_says_so(cli: Cli):
    model = cli.script(SHORT)
    started = await cli("run", "basic", "hello", "-m", model, "-s", "ab1", "-d")
    assert started.code == 0
    assert "No worker polls" in started.err
    assert (await cli("run", "basic", "x", "-m", model, "-s", "ab1", "-d")).code == 2
    assert (await cli("run", "basic", "x", "-m", model, "-s", "ab2", "-d")).code == 0
    ambiguous = await cli("steer", "ab", "hi")
    assert ambiguous.code == 2
    assert "ab1" in ambiguous.err
    assert "ab2" in ambiguous.err
    watched = await cli("watch", "ab1", "--json")
    assert (watched.code, watched.json["text"]) == (0, "done: hello")


async def test_settings_reach_the_run(cli: Cli):
    """RUN-04."""
    run = await cli(
        "run", "basic", "x", "-m", cli.script(SHORT), "--json",
        "--set", "behavior.max_turns=1", "--set", "behavior.retry.max_attempts=1",
    )  # fmt: skip
    assert (run.code, run.json["stats"]["turns"]) == (0, 1)


async def test_doctor_tells_what_works_without_secrets(cli: Cli):
    key = "sk-very-secret"
    well, broken = await asyncio.gather(
        cli("doctor", "--json", ANTHROPIC_API_KEY=key),
        cli("doctor", "--json", ZIDANE_STORE="postgresql://me:hidden@127.0.0.1:1/none"),
    )
    assert well.code == 0
    report = well.json
    assert report["ok"] is True
    assert set(report) >= {"ok", "temporal", "store", "providers", "task_queue"}
    assert set(report["temporal"]) >= {"address", "namespace", "embedded", "ok"}
    assert report["temporal"]["embedded"] is True
    assert report["providers"]["anthropic"] == {"ok": True}
    assert report["providers"]["openai"] == {"ok": False, "needs": "OPENAI_API_KEY"}
    assert report["task_queue"] == {"name": cli.queue, "pollers": 0}
    assert key not in well.out + well.err
    assert broken.code == 5
    assert broken.json["store"]["ok"] is False
    assert "hidden" not in broken.out + broken.err


async def test_doctor_says_when_the_server_is_down(cli: Cli):
    report = await cli("doctor", "--json", TEMPORAL_ADDRESS="127.0.0.1:1")
    assert report.code == 5
    assert report.json["temporal"]["ok"] is False
    assert report.json["temporal"]["address"] == "127.0.0.1:1"
    assert any("zidane dev" in line for line in report.json["advice"])


async def test_dev_serves_until_it_is_interrupted(cli: Cli):
    process = await cli.start("dev")
    assert process.stdout is not None
    async with asyncio.timeout(60):
        lines = [(await process.stdout.readline()).decode() for _ in range(4)]
    assert "127.0.0.1:" in lines[0]
    assert "http://127.0.0.1:" in lines[1]
    assert "basic" in lines[3]
    os.kill(process.pid, signal.SIGINT)
    assert (await ended(process)).code == 0
