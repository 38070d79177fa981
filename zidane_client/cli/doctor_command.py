"""`zidane doctor`: checks the server, the store, keys and workers, and says what to do."""

from contextlib import AsyncExitStack
from typing import Any, cast

from rich.console import Console
from rich.text import Text
from temporalio.service import RPCError

from activities.home import store_url
from activities.providers.registry import Providers
from activities.store import open_store
from worker import task_queue
from zidane_client.cli.exits import Exit, print_json
from zidane_client.cli.render import make_console
from zidane_client.cli.running import Server, server
from zidane_client.connection import configured_address
from zidane_client.pollers import live_pollers
from zidane_core.errors import AgentError, MissingKeyError, UsageError

_OFFLINE = "scripted"


async def doctor(*, as_json: bool) -> int:
    """Print what works and what does not; secrets are never printed."""
    report: dict[str, Any] = {"ok": False}
    async with AsyncExitStack() as stack:
        report["temporal"], found = await _temporal(stack)
        report["store"] = await _store()
        report["providers"] = _providers()
        report["task_queue"] = await _task_queue(found)
    report["ok"] = report["temporal"]["ok"] and report["store"]["ok"]
    report["advice"] = _advice(report)
    if as_json:
        print_json(report)
    else:
        _print(make_console(), report)
    return Exit.COMPLETED if report["ok"] else Exit.OUT_OF_REACH


async def _temporal(stack: AsyncExitStack) -> tuple[dict[str, Any], Server | None]:
    facts: dict[str, Any] = {"address": None, "namespace": None, "embedded": False, "ok": False}
    try:
        facts["address"] = configured_address()
        facts["embedded"] = facts["address"] is None
        found = await stack.enter_async_context(server())
        facts["address"], facts["namespace"] = found.address, found.temporal.namespace
        if found.embedded is not None:
            facts["ui"] = found.embedded.ui_url
        # A server may answer and not know the namespace.
        await live_pollers(found.temporal, task_queue())
    except AgentError as error:
        return {**facts, "error": error.message}, None
    except RPCError as error:
        return {**facts, "error": error.message}, None
    return {**facts, "ok": True}, found


async def _store() -> dict[str, Any]:
    try:
        url = store_url()
    except AgentError as error:
        return {"url": None, "ok": False, "error": error.message}
    shown = _without_password(url)
    try:
        store = await open_store(url)
    except AgentError as error:
        return {"url": shown, "ok": False, "error": error.message}
    try:
        await store.check()
    except AgentError as error:
        return {"url": store.url_shown, "ok": False, "error": error.message}
    else:
        return {"url": store.url_shown, "ok": True}
    finally:
        await store.close()


def _without_password(url: str) -> str:
    scheme, mark, rest = url.partition("://")
    if "@" not in rest:
        return url
    user, _, host = rest.rpartition("@")
    return f"{scheme}{mark}{user.partition(':')[0]}:***@{host}"


def _providers() -> dict[str, Any]:
    providers = Providers()
    return {name: _provider(providers, name) for name in providers.names if name != _OFFLINE}


def _provider(providers: Providers, name: str) -> dict[str, Any]:
    try:
        providers.check(f"{name}:any")
    except MissingKeyError as error:
        return {"ok": False, "needs": error.details.get("variable")}
    except UsageError as error:
        return {"ok": False, "needs": error.message}
    return {"ok": True}


async def _task_queue(found: Server | None) -> dict[str, Any]:
    pollers = 0
    if found is not None:
        try:
            pollers = len(await live_pollers(found.temporal, task_queue()))
        except RPCError:
            pollers = 0
    return {"name": task_queue(), "pollers": pollers}


def _advice(report: dict[str, Any]) -> list[str]:
    advice: list[str] = []
    temporal, queue = report["temporal"], report["task_queue"]
    if not temporal["ok"]:
        advice.append(str(temporal["error"]))
    if not report["store"]["ok"]:
        advice.append(str(report["store"]["error"]))
    if not any(provider["ok"] for provider in report["providers"].values()):
        advice.append(
            "No model provider has a key. Set one, such as ANTHROPIC_API_KEY, in the environment "
            "of the workers; `zidane demo` needs none."
        )
    if temporal["ok"] and not queue["pollers"]:
        command = "zidane dev" if temporal["embedded"] else "zidane worker"
        start = f"No worker polls task queue {queue['name']!r}. Start one: {command}."
        if temporal["embedded"]:
            start += " `zidane run` and `zidane watch` bring one along."
        advice.append(start)
    return advice


def _print(console: Console, report: dict[str, Any]) -> None:
    temporal, store, queue = report["temporal"], report["store"], report["task_queue"]
    kind = "embedded" if temporal["embedded"] else "configured"
    where = temporal["address"] or "not running"
    namespace = f", namespace {temporal['namespace']}" if temporal["namespace"] else ""
    _row(console, temporal["ok"], "temporal", f"{where} ({kind}{namespace})")
    if temporal.get("ui"):
        _row(console, None, "", f"UI {temporal['ui']}")
    _row(console, store["ok"], "store", str(store["url"]))
    pollers = queue["pollers"]
    many = f"{pollers} worker{'' if pollers == 1 else 's'}"
    _row(console, pollers > 0 or None, "task queue", f"{queue['name']}, {many}")
    for name, provider in cast("dict[str, dict[str, Any]]", report["providers"]).items():
        said = "key is set" if provider["ok"] else f"needs {provider['needs']}"
        _row(console, provider["ok"] or None, name, said)
    for line in report["advice"]:
        console.print()
        console.print(line, markup=False)


def _row(console: Console, ok: bool | None, name: str, said: str) -> None:
    mark, style = {True: ("✓", "green"), False: ("✗", "red")}.get(ok or False, ("·", "dim"))
    if ok is None:
        mark, style = "·", "dim"
    line = Text(mark, style=style).append(f" {name:<14}", style="bold").append(said)
    console.print(line, soft_wrap=True)
