"""The callers waiting to write in this process, of which one leads: it carries out all queued
operations.

A caller that arrives while no thread leads does so at once. The others wait until their operation
has been carried out or they may lead next. A wait of the main thread ends when a signal comes, so
that its handlers can be called; its ticket keeps its place meanwhile, and others may carry it out.
But it cannot become the leader, since the handler may do anything: write, close the store, fork, or
raise.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from leasehold.errors import StoreClosedError
from leasehold.interrupts import LOOK_SECONDS, SHIELD, Interrupted
from leasehold.stores.sqlite.writing.step import Step

T = TypeVar("T")

OPERATIONS_PER_COMMIT_MAX: Final = 512


class Ticket(Generic[T]):
    """One operation, its place in the queue, and the gate at which its caller waits."""

    gate: threading.Lock | None = None
    """None as long as no other thread may have to open it."""
    queue: deque[Ticket[Any]] | None = None
    is_away = False
    """Whether its caller is about to call handlers of signals instead of waiting."""
    leads = False
    done = False
    answer: T | None = None
    error: BaseException | None = None

    def __init__(self, operation: Callable[[Step], T]) -> None:
        self.operation = operation

    def close_gate(self) -> threading.Lock:
        """Create the gate if there is none: from now on another thread may lead."""
        if self.gate is None:
            gate = threading.Lock()
            gate.acquire()
            self.gate = gate
        return self.gate

    def outcome(self) -> T:
        if self.error is not None:
            raise self.error
        return self.answer  # type: ignore[return-value]  # set, once done without error


class WriteQueue:
    """The tickets of one process. Everything except `leave` is called inside the shield."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self._is_closed = False
        self._has_ended = False
        self.begin_anew()

    def begin_anew(self) -> None:
        """Create the locks; called again in a forked child, where waiting threads do not exist."""
        self._mutex = threading.Lock()
        self._idle = threading.Condition(self._mutex)
        self.waiting: deque[Ticket[Any]] = deque()
        self.is_led = False
        self.leader: int | None = None
        self._is_paused = False
        self._idlers = 0
        """How many threads wait until no thread leads."""

    def stand(self, ticket: Ticket[Any]) -> bool:
        """Queue a ticket, or return to its place; returns whether it leads from now on."""
        with self._mutex:
            if self._is_paused:
                self._wait_while(lambda: self._is_paused)
            if ticket.queue is not self.waiting:  # New here, or its process was forked meanwhile.
                if self._is_closed:
                    raise self._closed()
                ticket.queue = self.waiting
                self.waiting.append(ticket)
            elif ticket not in self.waiting:
                ticket.is_away = False
                return False
            elif self._is_closed and not self.is_led:
                raise self._closed()
            ticket.is_away = False
            if self.is_led:
                # Reset now, not later: a thread that becomes the leader just then passes through
                # its gate.
                ticket.leads = False
                ticket.close_gate()
                return False
            ticket.leads = self.is_led = True
            return True

    def wait(self, ticket: Ticket[Any]) -> None:
        """Wait until another caller has carried it out, or it is its turn to lead.

        Raises Interrupted if a signal comes first; the ticket keeps its place.
        """
        gate = ticket.close_gate()
        try:
            SHIELD.acquire(gate)
        except Interrupted:
            with self._mutex:
                if ticket in self.waiting and not ticket.leads:
                    ticket.is_away = True
                    raise
            # It is being carried out or is about to lead, which will be known in a moment.
            gate.acquire()

    def leave(self, ticket: Ticket[Any]) -> None:
        """Give up a place that was kept, after waiting for an operation in progress."""
        with SHIELD:
            with self._mutex:
                if ticket.queue is not self.waiting:
                    return
                if ticket in self.waiting:
                    self.waiting.remove(ticket)
                    return
                gate = ticket.close_gate()
            gate.acquire()

    def take(self, batch: list[Ticket[Any]]) -> bool:
        """Move queued operations to the batch; False if there were none or it is full."""
        taken = False
        if not self.waiting:
            return taken  # The next leader will serve a caller that arrives now.
        with self._mutex:
            while self.waiting and len(batch) < OPERATIONS_PER_COMMIT_MAX:
                batch.append(self.waiting.popleft())
                taken = True
        return taken

    def lead_unless(self, is_done: Callable[[], bool]) -> bool:
        """Lead without a ticket as soon as no other thread does; False if there is no need to."""
        with self._mutex:
            self._wait_while(lambda: self._is_paused)
            self._wait_while(lambda: self.is_led and not is_done())
            if is_done():
                return False
            self.is_led = True
            return True

    def pass_on(self, own: Ticket[Any] | None = None) -> None:
        """Let the next one lead, so that no thread works for the others for ever.

        If the leader was cut short, its own ticket, not even taken, gives up its place.
        """
        with self._mutex:
            self.leader = None
            if own is not None and own in self.waiting:
                own.is_away, own.leads = True, False
                own.close_gate()
            for heir in self.waiting:
                if not heir.is_away:
                    heir.leads = True
                    heir.close_gate().release()
                    return
            self.is_led = False
            if self._idlers:
                self._idle.notify_all()

    def close(self) -> bool:
        """Refuse new operations, and wait for running ones; True for the first call that finishes
        this.
        """
        with self._mutex:
            self._is_closed = True
            self._wait_while(lambda: self.is_led)
            is_first, self._has_ended = not self._has_ended, True
            return is_first

    def pause(self, seconds: float) -> bool:
        """Block new writes, and wait for running ones; False if that takes too long.

        A thread that is itself inside a write cannot do this. `resume` must always follow.
        """
        if not self._mutex.acquire(timeout=seconds):
            return False
        try:
            self._is_paused = True
            if self.leader == threading.get_ident():
                return False
            self._idlers += 1
            try:
                return self._idle.wait_for(lambda: not self.is_led, seconds)
            finally:
                self._idlers -= 1
        finally:
            self._mutex.release()

    def resume(self) -> None:
        """Let writes begin again."""
        with self._mutex:
            self._is_paused = False
            self._idle.notify_all()

    def _wait_while(self, condition: Callable[[], bool]) -> None:
        self._idlers += 1
        try:
            while condition():
                self._idle.wait(LOOK_SECONDS)
                if SHIELD.is_interrupted():
                    raise Interrupted
        finally:
            self._idlers -= 1

    def _closed(self) -> StoreClosedError:
        return StoreClosedError(f"the store {self._database} is closed")
