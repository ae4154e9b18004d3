"""Who waits to write in this process, and who of them leads: carries out what all have queued.

A caller that comes while no thread leads does so at once. The others wait, until their operation
has been carried out or they may lead next. A wait of the main thread ends when a signal comes, so
that its handlers can be called; its ticket keeps its place meanwhile, and may be carried out by
others. Only it cannot be let lead, since the handler may do anything: write, close the store, fork,
or raise.
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
    """There is none while no other thread may have to open it."""
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
        """Make a gate, unless there is one: from now on another thread may lead."""
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
    """The tickets of one process. All but `leave` is called inside the shield."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self._is_closed = False
        self._has_ended = False
        self.begin_anew()

    def begin_anew(self) -> None:
        """Make what threads wait at; in a forked child again, where those threads are not."""
        self._mutex = threading.Lock()
        self._idle = threading.Condition(self._mutex)
        self.waiting: deque[Ticket[Any]] = deque()
        self.is_led = False
        self.leader: int | None = None
        self._is_paused = False
        self._idlers = 0
        """How many wait until no thread leads."""

    def stand(self, ticket: Ticket[Any]) -> bool:
        """Queue a ticket, or go back to its place; whether it leads from now on."""
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
                # Not asked of the ticket later: a thread let lead just then goes through its gate.
                ticket.leads = False
                ticket.close_gate()
                return False
            ticket.leads = self.is_led = True
            return True

    def wait(self, ticket: Ticket[Any]) -> None:
        """Until another caller has carried it out, or it is its own turn to lead.

        Raises Interrupted when a signal came first; the ticket keeps its place.
        """
        gate = ticket.close_gate()
        try:
            SHIELD.acquire(gate)
        except Interrupted:
            with self._mutex:
                if ticket in self.waiting and not ticket.leads:
                    ticket.is_away = True
                    raise
            # It is being carried out, or is to lead: either is known in a moment.
            gate.acquire()

    def leave(self, ticket: Ticket[Any]) -> None:
        """Give up a place that was kept. An operation under way is waited for."""
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
        """Move queued operations to the batch; False when there were none, or it is full."""
        taken = False
        if not self.waiting:
            return taken  # A caller that comes now is served by the next leader.
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
        """Let the next one lead: no thread works for the others for ever.

        A leader's own ticket that was not even taken steps aside: something cut its lead short.
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
        """Refuse new operations, and wait for those under way; True for the first call that has
        come to the end of it.
        """
        with self._mutex:
            self._is_closed = True
            self._wait_while(lambda: self.is_led)
            is_first, self._has_ended = not self._has_ended, True
            return is_first

    def pause(self, seconds: float) -> bool:
        """Let no write begin, and wait for those under way; False if that takes too long.

        It cannot be done by a thread that is itself inside a write. `resume` must follow in any
        case.
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
