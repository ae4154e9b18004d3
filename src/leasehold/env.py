"""Time, randomness and ids: the only module that touches the world's own.

Everything else takes an `Env` and asks it, so that a test (or the simulator) can put a turned clock
and a seeded generator in their place and run the very same code. A lint rule keeps it that way.
"""

from __future__ import annotations

import os
import random
import threading
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple, Protocol

from leasehold.forking import at_fork

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def to_micros(moment: datetime) -> int:
    """Microseconds since 1970, the form in which stores keep time.

    >>> to_micros(datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC))
    1000000
    """
    return (moment - EPOCH) // _MICROSECOND


def from_micros(micros: int) -> datetime:
    """The UTC moment that `to_micros` turned into a number.

    >>> from_micros(1_000_000)
    datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=datetime.timezone.utc)
    """
    return EPOCH + timedelta(0, 0, micros)


class ClockReading(NamedTuple):
    """The readings of all clocks of the machine at one moment, in microseconds."""

    wall: int
    """Since 1970, UTC. It can be set."""
    awake: int
    """Since the machine started, without the time it slept. It cannot be set."""
    boot: int
    """Since the machine started, with the time it slept. It cannot be set."""
    boot_id: str
    """The boot from which the two above count; "" if the system does not tell."""


class Clock(Protocol):
    """The source of time."""

    def time_micros(self) -> int:
        """Wall-clock time in microseconds since 1970, UTC. It may step back."""

    def monotonic(self) -> float:
        """Seconds that never step back; only differences mean anything."""

    def reading(self) -> ClockReading:
        """Every clock of the machine, read together."""

    def wait(self, condition: threading.Condition, seconds: float | None) -> bool:
        """Wait on a held condition; False if the time ran out first. None waits for ever."""

    def pause(self, seconds: float) -> None:
        """Yield to others for a moment. Nothing may depend on it: a manual clock does nothing."""


_BOOT_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def _boot_id() -> str:
    """An id that two processes share if their readings of boot time can be compared.

    A time namespace has its own boot time under its host's boot id.
    """
    try:
        boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
    try:
        return f"{boot_id} {Path('/proc/self/ns/time').readlink()}"
    except OSError:
        return boot_id


class SystemClock:
    """The machine's own clock."""

    _boot_id: str | None = None

    def time_micros(self) -> int:
        return time.time_ns() // 1000

    # The function itself, since it is called three times for each job of a worker.
    monotonic = staticmethod(time.monotonic)

    def reading(self) -> ClockReading:
        boot_id = self._boot_id
        if boot_id is None:
            # Read only once: neither a process nor its children outlive a boot.
            boot_id = SystemClock._boot_id = _boot_id()
        boot = time.clock_gettime_ns(_BOOT_CLOCK) // 1000
        awake = time.monotonic_ns() // 1000
        # Each write reads the clocks; calling the named tuple's class takes longer than that.
        return tuple.__new__(ClockReading, (time.time_ns() // 1000, awake, boot, boot_id))

    def wait(self, condition: threading.Condition, seconds: float | None) -> bool:
        if seconds is not None:
            # A lock cannot wait longer than this; the caller looks again when it returns.
            seconds = min(seconds, threading.TIMEOUT_MAX)
        return condition.wait(seconds)

    def pause(self, seconds: float) -> None:
        time.sleep(seconds)


class ManualClock:
    """A clock that stands still until it is advanced. Waits end when it is advanced past their end.

    >>> clock = ManualClock()
    >>> before = clock.monotonic()
    >>> clock.advance(90)
    >>> clock.monotonic() - before
    90.0
    """

    def __init__(self, start: datetime = datetime(2030, 1, 1, tzinfo=UTC)) -> None:
        self._lock = threading.Lock()
        self._micros = to_micros(start)
        self._monotonic_micros = 0
        self._asleep_micros = 0
        # Boot times of two such clocks cannot be compared, in any process.
        self._boot_id = os.urandom(8).hex()
        self._waiting: list[threading.Condition] = []

    def time_micros(self) -> int:
        return self._micros

    def monotonic(self) -> float:
        return self._monotonic_micros / 1e6

    def reading(self) -> ClockReading:
        awake = self._monotonic_micros
        return ClockReading(self._micros, awake, awake + self._asleep_micros, self._boot_id)

    def now(self) -> datetime:
        """The time that the clock shows."""
        return from_micros(self._micros)

    def advance(self, seconds: float) -> None:
        """Advance the time, and wake every wait that it ends."""
        with self._lock:
            self._micros += round(seconds * 1e6)
            self._monotonic_micros += round(seconds * 1e6)
            waiting = list(self._waiting)
        for condition in waiting:
            with condition:
                condition.notify_all()

    def step_wall_clock(self, seconds: float) -> None:
        """Set the wall clock forward or back, as an administrator or NTP would."""
        with self._lock:
            self._micros += round(seconds * 1e6)

    def suspend(self, seconds: float) -> None:
        """Simulate a sleep of the machine: the wall clock advances, and running code does not
        notice.
        """
        with self._lock:
            self._micros += round(seconds * 1e6)
            self._asleep_micros += round(seconds * 1e6)

    def show(self, reading: ClockReading) -> None:
        """Copy what another such clock showed, except the boot of the machine."""
        self.advance(reading.awake / 1e6 - self.monotonic())
        with self._lock:
            self._micros = reading.wall
            self._asleep_micros = reading.boot - reading.awake

    def restart(self) -> None:
        """Simulate a reboot: earlier boot times become meaningless."""
        self._boot_id = os.urandom(8).hex()

    def wait(self, condition: threading.Condition, seconds: float | None) -> bool:
        if seconds is None:
            return condition.wait()
        deadline = self._monotonic_micros + round(seconds * 1e6)
        with self._lock:
            self._waiting.append(condition)
        try:
            # Any notification ends the wait: the caller cannot tell an advanced clock from news,
            # and checks its condition either way.
            if self._monotonic_micros < deadline:
                condition.wait()
            return self._monotonic_micros < deadline
        finally:
            with self._lock:
                self._waiting.remove(condition)

    def pause(self, seconds: float) -> None:
        """Does nothing, since the clock would stand still for ever."""


def _seeded_by_system() -> random.Random:
    generator = random.Random()
    # A forked child must not repeat its parent's ids and jitter.
    at_fork(after_in_child=generator.seed)
    return generator


@dataclass(frozen=True, slots=True)
class Env:
    """The world as the rest of Leasehold sees it."""

    clock: Clock = field(default_factory=SystemClock)
    random: random.Random = field(default_factory=_seeded_by_system)

    def now_micros(self) -> int:
        """Wall-clock time in microseconds since 1970, UTC."""
        return self.clock.time_micros()

    def now(self) -> datetime:
        """Wall-clock time, UTC."""
        return from_micros(self.clock.time_micros())

    def new_id(self) -> str:
        """A new UUIDv7: unique, and sorted by the time it was made, to the microsecond.

        >>> one, two = (Env().new_id() for _ in range(2))
        >>> one < two, len(one)
        (True, 36)
        """
        millis, micros = divmod(self.clock.time_micros(), 1000)
        chance = self.random.getrandbits(64)
        # The sub-millisecond part is in the upper 10 of the 12 bits that UUIDv7 leaves for it.
        upper = millis << 16 & 0xFFFFFFFFFFFF0000 | 0x7000 | micros << 2 | chance >> 62
        lower = 0x8000000000000000 | chance & 0x3FFFFFFFFFFFFFFF
        digits = "%032x" % (upper << 64 | lower)  # One number is written faster than five.
        return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"

    def new_secret(self) -> str:
        """128 random bits that cannot be guessed, as text."""
        return os.urandom(16).hex()


SYSTEM = Env()
"""The real clock and real randomness: the default wherever an `Env` is taken."""
