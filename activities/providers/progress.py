"""What an attempt has streamed so far: by it the loop decides whether a failed one is retried."""

from activities.providers.base import StreamSink
from zidane_core.content import clean_text
from zidane_core.errors import ProviderError, ProviderFailure


class Progress:
    """A sink that passes everything on and remembers what had arrived.

    Implements: PROV-06, K-PAIRING-02.
    """

    def __init__(self, sink: StreamSink) -> None:
        self._sink = sink
        self.streamed = False
        """Text or tool-call content has arrived, or a server tool ran."""
        self.server_tool_ran = False
        """A tool of the provider's own ran."""
        self.thinking_chars = 0
        """Characters of reasoning that have arrived."""

    def text(self, delta: str) -> None:
        """Pass on a piece of text; an empty one is no event."""
        if delta:
            self.streamed = True
            self._sink.text(clean_text(delta))

    def thinking(self, delta: str) -> None:
        """Pass on a piece of reasoning; an empty one is no event."""
        if delta:
            self.thinking_chars += len(delta)
            self._sink.thinking(clean_text(delta))

    def tool_call(self, name: str) -> None:
        """Pass on that a tool call began."""
        self.streamed = True
        self._sink.tool_call(clean_text(name))

    def tool_arguments(self, delta: str) -> None:
        """Pass on a piece of arguments; an empty one is no event."""
        if delta:
            self._sink.tool_arguments(clean_text(delta))

    def server_tool(self, name: str) -> None:
        """Pass on that a tool of the provider's own ran."""
        self.server_tool_ran = True
        self._sink.server_tool(clean_text(name))

    def failed(self, failure: ProviderFailure) -> ProviderError:
        """Return the error to raise: `failure` with what had arrived before it."""
        return ProviderError(
            failure.model_copy(
                update={
                    "streamed": self.streamed,
                    "discarded_thinking": self.thinking_chars,
                    "server_tool_ran": self.server_tool_ran,
                }
            )
        )
