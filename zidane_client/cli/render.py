"""What the terminal shows of a run: live, line by line. Nothing here asks or decides anything."""

import json
import sys
from collections.abc import Mapping

from rich.console import Console
from rich.text import Text

from zidane_client.cli.event_lines import line_of
from zidane_client.cli.wording import (
    counted,
    duration,
    ended_because,
    one_line,
    plain,
    short,
    stats_line,
)
from zidane_client.following import Noted, Piece, Shown, TurnShown, Voided
from zidane_core.errors import AgentError
from zidane_core.events import RunEvent
from zidane_core.runs import RunResult, RunStatus
from zidane_core.usage import AgentStats

_MAX_WIDTH = 100
_ENDS: Mapping[str, tuple[str, str]] = {
    "completed": ("✓", "green"),
    "aborted": ("✗", "yellow"),
    "error": ("✗", "red"),
    "paused": ("‖", "yellow"),
    "suspended": ("‖", "yellow"),
    "parked": ("‖", "yellow"),
}


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Let the command end in order; rich would raise SystemExit through the event loop."""
        raise BrokenPipeError


def make_console(*, stderr: bool = False) -> Console:
    """Return a console; in a pipe it is plain and 120 columns wide, or as COLUMNS says."""
    console = _Console(highlight=False, stderr=stderr, soft_wrap=False)
    if not console.is_terminal and console.width == 80:
        return _Console(highlight=False, stderr=stderr, width=120)
    return console


class Screen:
    """Shows one run as it happens.

    On a terminal, text appears as it streams and running calls have a line that goes when they
    end. In a pipe only what stands is written: committed text, finished calls.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._is_live = console.is_terminal
        self._column_used = False
        """Whether the cursor stands behind streamed text."""
        self._transient = False
        """Whether the line of running calls is shown."""
        self._running: dict[str, str] = {}

    @property
    def width(self) -> int:
        """Columns that lines take at most."""
        return min(self._console.width, _MAX_WIDTH)

    def header(self, agent: str, model: str, session_id: str) -> None:
        """Name the run."""
        line = Text(agent, style="bold")
        line.append(f" · {plain(model)} · session {short(session_id)}", style="dim")
        self._line(line)

    def show(self, shown: Shown) -> None:
        """Show the next thing."""
        match shown:
            case Piece():
                if self._is_live:
                    self._stream(plain(shown.text), dim=shown.kind == "thinking")
            case Voided():
                if self._is_live:
                    self.note(f"cut off: {shown.reason or 'the attempt failed'}", "yellow")
            case TurnShown():
                if not self._is_live and shown.turn.text:
                    self._line(Text(plain(shown.turn.text)))
                self._break()
            case Noted():
                self._event(shown.event)

    def end_line(self) -> None:
        """End the line of streamed text, before another hand writes to the console."""
        self._break()

    def note(self, text: str, style: str = "dim") -> None:
        """Show a line of ours."""
        self._line(Text(f"  {plain(text)}", style=style))

    def _event(self, event: RunEvent) -> None:
        fields = {key: value for key, value in event.fields.items() if value is not None}
        match event.name:
            case "run:started":
                self.header(str(fields.get("agent")), str(fields.get("model")), event.session_id)
            case "tool:started":
                self._running[str(fields.get("call_id"))] = str(fields.get("title") or "")
                self._show_running()
            case "tool:done":
                self._running.pop(str(fields.get("call_id")), None)
                self._tool(fields)
            case "question:asked":
                self.question(event.session_id, str(fields["call_id"]), str(fields.get("text")))
            case _:
                line = line_of(event)
                if line is not None:
                    self.note(*line)

    def _tool(self, fields: Mapping[str, object]) -> None:
        mark, style = ("✗", "red") if fields.get("is_error") else ("✓", "green")
        took = duration(_int(fields.get("duration_ms")))
        room = self.width - len(took) - 6
        title = one_line(str(fields.get("title") or fields.get("name")), room)
        line = Text("  ").append(mark, style=style).append(f" {title}")
        if took:
            line.append(" " * max(1, self.width - line.cell_len - len(took)))
            line.append(took, style="dim")
        self._line(line)
        self._show_running()

    def question(self, session_id: str, call_id: str, text: str) -> None:
        """Show an open question and how to answer it."""
        self._line(Text(f"  ? {plain(text)}", style="bold cyan"))
        self.note(f"zidane answer {short(session_id)} {call_id} 'YOUR ANSWER'")

    def _show_running(self) -> None:
        if not self._is_live or not self._running:
            return
        self._break()
        titles = list(self._running.values())
        text = titles[0] if len(titles) == 1 else f"{len(titles)} calls: {', '.join(titles)}"
        self._write(f"\x1b[2m  … {one_line(text, self.width - 5)}\x1b[0m")
        self._transient = True

    # -- the end ----------------------------------------------------------------------------

    def ended(self, result: RunResult) -> None:
        """Show how a run ended."""
        if result.output is not None:
            self._line(Text(plain(json.dumps(result.output, indent=2, ensure_ascii=False))))
        self._summary(result.status, result.stats)
        if result.finish_reason is not None:
            self.note(ended_because(result.finish_reason), "yellow")
        if result.output_refused:
            refused = counted(len(result.output_refused), "earlier answer")
            self.note(f"{refused} refused; the last: {result.output_refused[-1]}", "yellow")
        for message in result.unconsumed:
            self.note(f"not taken ({message.queue}): {one_line(str(message.prompt), 70)}", "yellow")

    def failed(self, error: AgentError) -> None:
        """Show the usage of a run that failed; the error itself goes to stderr."""
        packed = error.details.get("result")
        stats = RunResult.unpacked(packed).stats if isinstance(packed, dict) else AgentStats()
        if stats.turns:
            self._summary("error", stats)

    def waits(self, status: RunStatus) -> None:
        """Show that a run is paused or parked, and what to do."""
        self._summary(status.phase.value, status.stats)
        if status.reason:
            self.note(status.reason, "yellow")
        self.note(f"zidane resume {short(status.session_id)}   goes on")
        self.note(f"zidane watch {short(status.session_id)}    follows it")

    def detached(self, session_id: str, advice: str) -> None:
        """Say that the run goes on without the watcher."""
        self._line(Text(f"Detached; the run goes on. {advice}", style="bold"))
        self.note(f"zidane watch {short(session_id)}   comes back")
        self.note(f"zidane abort {short(session_id)}   ends it")

    def _summary(self, status: str, stats: AgentStats) -> None:
        mark, style = _ENDS.get(status, ("·", "dim"))
        name = "failed" if status == "error" else status
        line = Text(f"{mark} {name}", style=f"bold {style}")
        line.append(f" · {stats_line(stats)}", style="dim")
        self._line(line)

    # -- lines ------------------------------------------------------------------------------

    def _stream(self, text: str, *, dim: bool) -> None:
        self._clear_transient()
        self._write(f"\x1b[2m{text}\x1b[0m" if dim else text)
        self._column_used = not text.endswith("\n")

    def _line(self, line: Text) -> None:
        self._break()
        self._console.print(line, soft_wrap=True)

    def _break(self) -> None:
        self._clear_transient()
        if self._column_used:
            self._write("\n")
            self._column_used = False

    def _clear_transient(self) -> None:
        if self._transient:
            self._write("\r\x1b[K")
            self._transient = False

    def _write(self, text: str) -> None:
        self._console.file.write(text)
        self._console.file.flush()


def _int(value: object) -> int | None:
    return int(value) if isinstance(value, int | float) else None


def hint(text: str) -> None:
    """Print a line of advice on stderr."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
