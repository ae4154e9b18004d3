"""Hints from a service: one thread polls for them, for all listeners of a store."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from leasehold.core.contract.wire import VERBS, HintsSince, encode, nonsense
from leasehold.core.model.records import Listener
from leasehold.env import Env
from leasehold.error_codes import CodedError
from leasehold.interrupts import SHIELD
from leasehold.stores.remote.carrying import FailedError, PollConnection
from leasehold.stores.remote.transport import Transport

logger = logging.getLogger("leasehold.remote")

WAIT_SECONDS: Final = 25.0
PAUSE_SECONDS_FIRST: Final = 0.1
PAUSE_SECONDS_MAX: Final = 5.0
NOWHERE: Final = "nowhere"
"""The cursor of a listener that has missed something: servers answer "look at everything"."""


class Listening:
    """Listeners of one store, and the thread that hears for them."""

    def __init__(self, transport: Transport, env: Env, *, ends: bool) -> None:
        """With `ends`, listeners also hear of ended jobs."""
        self._transport = transport
        self._env = env
        self._ends = ends
        self._is_refused = False
        """Whether the server is too old for `ends`, and reports everything."""
        self._begin()

    def _begin(self) -> None:
        self._condition = threading.Condition()
        self._listeners: list[Listener] = []
        self._thread: threading.Thread | None = None
        self._line: PollConnection | None = None
        self._closed = False

    def begin_anew(self) -> None:
        """Called in a forked child: the thread and the connection are the parent's."""
        listeners = self._listeners
        self._begin()
        for listener in listeners:
            self.subscribe(listener)

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call this listener from now on."""
        with self._condition:
            self._listeners.append(listener)
            if self._thread is None and not self._closed:
                # From here on nothing is missed, although the thread has not started yet.
                self._line = self._transport.carrier.line()
                cursor = self._first_cursor(self._line)
                with SHIELD:  # `close` joins the thread, which must have been started.
                    self._thread = threading.Thread(
                        target=self._run,
                        args=(self._line, cursor),
                        name="leasehold-hints",
                        daemon=True,
                    )
                    self._thread.start()

        def end() -> None:
            with suppress(ValueError):
                self._listeners.remove(listener)

        return end

    def close(self) -> None:
        """Hang up."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()
            line, thread = self._line, self._thread
        if line is not None:
            line.hang_up()
        if thread is not None and thread is not threading.current_thread():
            thread.join(1.0)

    def _first_cursor(self, line: PollConnection) -> str:
        try:
            return self._ask(line, None, 0.0).cursor
        except (FailedError, CodedError):
            return NOWHERE

    def _run(self, line: PollConnection, cursor: str) -> None:
        try:
            self._listen(line, cursor)
        finally:
            line.close()

    def _listen(self, line: PollConnection, cursor: str) -> None:
        pause_seconds = PAUSE_SECONDS_FIRST
        is_lost = False
        while not self._closed:
            try:
                hints = self._ask(line, cursor, 0.0 if is_lost else WAIT_SECONDS)
            except (FailedError, CodedError) as error:
                if self._closed:
                    return
                if not is_lost:
                    is_lost = True
                    # No warning: callers that work or wait use the service too, and warn then.
                    logger.info(
                        "%s does not answer (%s): it is asked again until it does",
                        self._transport.address,
                        error,
                    )
                self._rest(pause_seconds * self._env.random.uniform(0.5, 1.0))
                pause_seconds = min(2 * pause_seconds, PAUSE_SECONDS_MAX)
            else:
                if is_lost:
                    is_lost = False
                    logger.info("%s answers again", self._transport.address)
                pause_seconds = PAUSE_SECONDS_FIRST
                cursor = hints.cursor
                self._tell(hints)

    def _ask(self, line: PollConnection, cursor: str | None, wait_seconds: float) -> HintsSince:
        server = self._transport.server
        asked: dict[str, object] = {"cursor": cursor, "wait_seconds": wait_seconds}
        if not (self._ends or self._is_refused):
            asked["ends"] = False
        try:
            answer = line.call(server, "hints", encode(asked))
        except FailedError:
            self._is_refused = False  # The next server may be a newer one.
            self._transport.turn_from(server)
            raise
        except nonsense("hints"):
            if "ends" not in asked:
                raise
            self._is_refused = True
            return self._ask(line, cursor, wait_seconds)
        hints: HintsSince = VERBS["hints"].answer.decode(answer)
        return hints

    def _rest(self, seconds: float) -> None:
        with self._condition:
            if not self._closed:
                self._env.clock.wait(self._condition, seconds)

    def _tell(self, hints: HintsSince) -> None:
        for listener in tuple(self._listeners):
            try:
                if hints.is_ready:
                    listener.on_ready()
                if hints.ended != []:
                    listener.on_ended(hints.ended)
                if hints.cancel_requested != []:
                    listener.on_cancel_requested(hints.cancel_requested)
            except Exception:
                logger.exception("a listener failed; the others are still notified")
