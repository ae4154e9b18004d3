"""A shield against interrupts: steps that must not be cut in two by Ctrl-C.

Python runs signal handlers in the main thread, between any two instructions, and a handler may
raise: KeyboardInterrupt between taking a lock and the `with` that would free it. Code that catches
that and continues has lost the lock for good.

    with SHIELD:
        ...             # all of it, or nothing of it

Inside, a signal is only noted. Its own handler is called when the block has been left, and may
raise there: by then the write is complete. In any other thread than the main one the shield does
nothing, since no handler ever runs there.

Three rules keep it honest:

- The handlers are replaced first, and the shield counts as closed (`_depth` above 0) only then. So
  until it is closed an interrupt may leave `__enter__` at any instruction, and after that none can,
  up to the instruction in `__exit__` that opens it. A handler of ours that is called while the
  shield is open calls the one it stands for, at once.
- Code that waits inside must check `is_interrupted()` now and then, and leave with `Interrupted`,
  with nothing begun. The caller that entered the shield waits again after the signals were
  delivered: a handler that did not raise has not ended anything. A wait that may be left where it
  is, whatever has begun, calls `deliver()` instead, and goes on if nothing was raised.
- Who must not lose the answer of such a call enters `SHIELD.keeping_answers` around it: then the
  wait for the answer goes on for a moment after the signal, and the answer is there when the
  handler is called. Only a server that is silent for longer is left without one.
- Handlers that were set by C code, and signals without one, are left alone.
"""

from __future__ import annotations

import _signal
import _thread
import logging  # noqa: F401  # before the hooks below, which says when its own is called at a fork
import sys
import threading
from collections import deque
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from types import FrameType, ModuleType, TracebackType
from typing import Any, Final, ParamSpec, TypeVar

from leasehold.forking import at_fork

P = ParamSpec("P")
T = TypeVar("T")

SIGNALS: Final = tuple(
    int(getattr(_signal, name))
    for name in (
        *("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGALRM", "SIGUSR1", "SIGUSR2", "SIGCHLD"),
        *("SIGVTALRM", "SIGPROF", "SIGWINCH", "SIGTSTP", "SIGCONT"),
    )
    if hasattr(_signal, name)
)
"""Signals that come from outside and for which programs set handlers."""

LOOK_SECONDS: Final = 0.05
"""How often a wait in the main thread looks whether it has been interrupted."""
LOOKS_FOR_ANSWER: Final = 8
"""How often a wait for an answer that is not to be lost looks up after a signal, before it ends."""

# The functions of the `signal` module convert to enums and back, at ten times the price.
_getsignal = _signal.getsignal
_set_handler: Callable[[int, Any], object] = _signal.signal
_get_ident = _thread.get_ident


def _is_pythons(handler: object) -> bool:
    """Whether a handler is Python's own, and in place.

    uWSGI puts one in C in the place of the handler that Python begins with, and Python knows
    nothing of it: holding the signal back and letting it go would bring Python's back, and uWSGI
    would not hear that it is to stop.
    """
    if handler is _signal.default_int_handler and "uwsgi" in sys.modules:
        return False
    return callable(handler)


class Interrupted(BaseException):
    """Raised by a wait inside the shield: a signal was noted, and its handler is to be called."""

    def __init__(self, waited_seconds: float = 0.0) -> None:
        super().__init__()
        self.waited_seconds = waited_seconds


class Shield:
    """Holds signals back while the main thread is inside. There is one, `SHIELD`."""

    def __init__(self) -> None:
        self._main = threading.main_thread().ident
        self._depth = 0
        self._noted: deque[int] = deque()
        self._handler = self._note  # One object, to know it again by identity.
        self._seen: tuple[object, ...] = ()
        """The handlers that were there when the shield was last entered."""
        self._held_back: tuple[int, ...] = ()
        """The signals that had handlers in Python then."""
        self._stands_for: dict[int, Any] = {}
        """By signal, the handler that ours replaces, or was the last to replace."""
        self.keeping_answers = KeepingAnswers(self)
        self.is_keeping = False
        self.looks = 0

    def __enter__(self) -> None:
        if _get_ident() != self._main:
            return
        if self._depth:
            self._depth += 1
            return
        try:
            handlers = tuple(map(_getsignal, SIGNALS))
            if handlers != self._seen:
                self._look_at(handlers)
            for signum in self._held_back:
                before = _set_handler(signum, self._handler)
                if before is not self._handler:
                    self._stands_for[signum] = before
        except BaseException:
            self._put_back()
            raise
        self._depth = 1

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if _get_ident() != self._main:
            return
        if self._depth > 1:
            self._depth -= 1
            return
        try:
            self._depth = 0
            self._put_back()
        finally:
            if self._noted:
                self._deliver()

    def _look_at(self, handlers: tuple[object, ...]) -> None:
        """Find out which of them are Python's, or our own, left in place by an interrupt."""
        pairs = tuple(zip(SIGNALS, handlers, strict=True))
        self._held_back = tuple(signum for signum, handler in pairs if _is_pythons(handler))
        self._seen = handlers

    def is_closed(self) -> bool:
        """Whether the caller is inside."""
        return self._depth > 0 and _get_ident() == self._main

    def is_outermost(self) -> bool:
        """Whether the caller is inside one shielded block, and in no other around it."""
        return self._depth == 1 and _get_ident() == self._main

    def is_interrupted(self) -> bool:
        """Whether a signal waits for the shield to open. Always False in other threads."""
        return bool(self._noted) and _get_ident() == self._main and self._depth > 0

    def take_noted(self) -> list[int]:
        """The signals noted so far, for callers that deliver them in another way."""
        noted = list(self._noted) if self.is_interrupted() else []
        if noted:
            self._noted.clear()
        return noted

    def deliver(self) -> None:
        """Call the handlers of the signals noted so far, for a wait that may be left here.

        One that raises leaves the wait, and the rest is delivered when the shield opens. Inside
        another shielded block nothing is delivered: that may not be left, or not yet
        (`keeping_answers`).
        """
        if _get_ident() != self._main or not (self._depth == 1 or self._has_waited()):
            return
        while self._noted:
            signum = self._noted.popleft()
            try:
                _call(self._stands_for[signum], signum, sys._getframe(1))  # noqa: SLF001  # as Python would
            finally:
                self._hold_back_again()

    def _has_waited(self) -> bool:
        """Whether an answer that is not to be lost has been waited for long enough."""
        if not (self.is_keeping and self._noted and self._depth == 2):
            return False
        self.looks += 1
        return self.looks > LOOKS_FOR_ANSWER

    def _hold_back_again(self) -> None:
        """A handler may have set others: signals are held back in their place, too."""
        for signum in self._held_back:
            handler = _getsignal(signum)
            if callable(handler) and handler is not self._handler:
                self._stands_for[signum] = handler
                _set_handler(signum, self._handler)

    def acquire(self, lock: threading.Lock, limit_seconds: float | None = None) -> bool:
        """Acquire a lock inside the shield; False when the time ran out. Raises Interrupted."""
        if _get_ident() != self._main:
            return lock.acquire(timeout=-1 if limit_seconds is None else limit_seconds)
        waited = 0.0
        while not lock.acquire(timeout=LOOK_SECONDS):
            if self.is_interrupted():
                raise Interrupted(waited)
            waited += LOOK_SECONDS
            if limit_seconds is not None and waited >= limit_seconds:
                return False
        return True

    def _note(self, signum: int, frame: FrameType | None) -> None:
        if self._depth:
            if signum not in self._noted:  # As the kernel does: twice before it is heard is once.
                self._noted.append(signum)
            return
        # Called on the way in or out, or after an interrupt on that way has left us in place.
        try:
            _call(self._stands_for[signum], signum, frame)
        except BaseException:
            self._put_back()
            raise

    def _put_back(self) -> None:
        for signum in self._held_back:
            # Unless another handler was set meanwhile.
            if _getsignal(signum) is self._handler:
                _set_handler(signum, self._stands_for[signum])

    def _deliver(self) -> None:
        """Call the handlers of all signals that were noted, also where one of them raises."""
        noted = self._noted
        try:
            while noted:
                signum = noted[0]
                handler = _getsignal(signum)
                # Nothing can come between these two lines: no call, no jump back.
                del noted[0]
                _call(handler, signum, sys._getframe(2))  # noqa: SLF001  # as Python would
        finally:
            if noted:
                self._deliver()

    def _after_fork_in_child(self) -> None:
        main = threading.main_thread().ident
        if main != self._main:
            # Another thread was inside, and is not here: what it held back was its process's.
            self._main = main
            self._depth = 0
            self.is_keeping = False
            self._noted.clear()
            self._put_back()


class KeepingAnswers:
    """The shield for a call whose answer must not be lost, such as leases that were granted."""

    def __init__(self, shield: Shield) -> None:
        self._shield = shield

    def __enter__(self) -> None:
        shield = self._shield
        shield.__enter__()
        if shield.is_outermost():
            shield.is_keeping, shield.looks = True, 0

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._shield.is_outermost():
            self._shield.is_keeping = False
        self._shield.__exit__(kind, error, trace)


def _call(handler: object, signum: int, frame: FrameType | None) -> None:
    if callable(handler):
        handler(signum, frame)
    elif handler == _signal.SIG_DFL:
        # Reset meanwhile, by a handler that was called before it: the signal does what it does.
        _signal.raise_signal(signum)


SHIELD: Final = Shield()

at_fork(after_in_child=SHIELD._after_fork_in_child)  # noqa: SLF001


class _Importing:
    """Lets a fork wait for what is being imported.

    A child that is forked in the midst of an import inherits a lock on the module whose owner it
    does not have, and would wait for it for ever.
    """

    FORK_WAITS_SECONDS: Final = 10.0
    """An import may need a lock that another hook of the fork has taken before: then it is late."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._is_held_by_fork = False

    def before_fork(self) -> None:
        self._is_held_by_fork = self.lock.acquire(timeout=self.FORK_WAITS_SECONDS)

    def after_fork(self) -> None:
        if self._is_held_by_fork:
            self.lock.release()


_importing: Final = _Importing()

# Hooks run in the reverse order. Those of stores come before it, and an import needs none of their
# locks; that of logging comes after it (hence the import above), since modules ask for loggers.
at_fork(
    before=_importing.before_fork,
    after_in_parent=_importing.after_fork,
    after_in_child=_importing.after_fork,
)


def import_whole(name: str) -> ModuleType:
    """Import a module inside the shield, unless it is there: an interrupt leaves none in halves.

    For what is imported only when it is needed, which may be in the midst of a program.
    """
    module = sys.modules.get(name)
    # Another thread may be importing it: then it is there in halves.
    if module is None or getattr(module.__spec__, "_initializing", False):
        with SHIELD, _importing.lock:
            module = import_module(name)
    return module


def shielded(function: Callable[P, T]) -> Callable[P, T]:
    """Carry out all of a function inside the shield; restart it after an interrupted wait."""

    @wraps(function)
    def inside(*args: P.args, **kwargs: P.kwargs) -> T:
        while True:
            try:
                with SHIELD:
                    return function(*args, **kwargs)
            except Interrupted:
                # Nothing had begun, and the handlers that were called since did not raise.
                if SHIELD.is_closed():
                    raise

    return inside
