"""One thread that does a process's work on a file in order, at half a pool's cost per hop."""

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")
_Job = tuple[asyncio.AbstractEventLoop, "asyncio.Future[Any]", Callable[[], Any]]


class WorkThread:
    """Runs functions one after the other, in the order in which they were given.

    A caller that is cancelled leaves its function running: a transaction ends as it would have.
    """

    def __init__(self, name: str) -> None:
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def run(self, function: Callable[[], T]) -> "asyncio.Future[T]":
        """Run a function in the thread; the future has its result or exception."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._jobs.put((loop, future, function))
        return future

    def stop(self) -> None:
        """End the thread when all that it was given is done; does not wait."""
        self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            loop, future, function = job
            result: Any = None
            failure: BaseException | None = None
            # Whatever is raised belongs to the caller; the thread must go on.
            try:
                result = function()
            except BaseException as error:
                failure = error
            try:
                loop.call_soon_threadsafe(_settle, future, result, failure)
            except RuntimeError:
                # The loop is closed: nobody waits for the answer.
                continue


def _settle(future: "asyncio.Future[Any]", result: Any, failure: BaseException | None) -> None:
    if future.cancelled():
        return
    if failure is None:
        future.set_result(result)
    else:
        future.set_exception(failure)
