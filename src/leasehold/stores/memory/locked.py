"""The one lock of the memory store, and the two ways to use it: a verb reads, or changes.

A verb runs inside the shield against interrupts: Ctrl-C finds it either done or not begun.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from leasehold.core.model.records import Listener
from leasehold.errors import StoreClosedError
from leasehold.interrupts import SHIELD, Interrupted
from leasehold.stores.memory import dependents
from leasehold.stores.memory.finished import make_room
from leasehold.stores.memory.state import News, State
from leasehold.stores.verbs.atomic import AtomicStore

P = ParamSpec("P")
T = TypeVar("T")

logger = logging.getLogger("leasehold.stores.memory")


class LockedState(AtomicStore):
    """The state, and the listeners to its changes."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._lock = threading.Lock()
        self._listeners: list[Listener] = []
        self._closed = False

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        with SHIELD, self._lock:
            self._check_open()
            self._listen([*self._listeners, listener])

        def end() -> None:
            with SHIELD, self._lock:
                self._listen([each for each in self._listeners if each is not listener])

        return end

    def close(self) -> None:
        with SHIELD, self._lock:
            self._closed = True
            self._listen([])

    def _look(
        self, verb: Callable[Concatenate[State, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a verb that only reads the state."""
        with SHIELD, self._lock:
            if self._closed:
                self._check_open()
            self._state.look()
            return verb(self._state, *args, **kwargs)

    def _now(self, look: State) -> int:
        return look.now

    def _write(self, operation: Callable[[State], T]) -> T:
        """Carry out what may change the state, then wake the listeners it concerns."""
        state = self._state
        links = state.links
        news, told = None, True
        with SHIELD:
            with self._lock:
                if self._closed:
                    self._check_open()
                state.tick()
                answer = operation(state)
                if links.ended or links.lowered or links.changed:
                    dependents.resolve(state)
                    told = False
                if state.finished.count > state.ended_max:
                    make_room(state)
                if state.news is not None:
                    news = self._take_news()
            if news is not None:
                _publish(*news)
        if not told:
            self._resolve_the_rest()
        return answer

    def _take_news(self) -> tuple[News, list[Listener]] | None:
        news = self._state.news
        if news is None or not news:
            return None
        self._state.news = News()
        return news, self._listeners

    def _resolve_the_rest(self) -> None:
        """Handle the dependents that were too many for one hold of the lock."""
        links = self._state.links
        while links.ended or links.lowered or links.changed:
            with SHIELD:
                with self._lock:
                    self._state.begin_budgets()
                    dependents.resolve(self._state)
                    make_room(self._state)
                    news = self._take_news()
                if news is not None:
                    _publish(*news)

    def _listen(self, listeners: list[Listener]) -> None:
        # Lists are replaced, never changed, so iterating over one is safe.
        self._listeners = listeners
        self._state.news = News() if listeners else None

    def _check_open(self) -> None:
        if self._closed:
            raise StoreClosedError("this memory store is closed: its jobs are gone")


def _publish(news: News, listeners: list[Listener]) -> None:
    for listener in listeners:
        try:
            if news.ready:
                listener.on_ready()
            if news.ended:
                listener.on_ended(news.ended)
            if news.cancel_requested:
                listener.on_cancel_requested(news.cancel_requested)
        except (Exception, Interrupted):
            # The write is done and must be reported to its caller, even if a listener raises.
            logger.exception("a listener of the memory store failed: %r", listener)
