"""The store's clock: `rules.clock` decides the time, and this module reads and writes it."""

from __future__ import annotations

import threading
from typing import Any, Final

import apsw

from leasehold.core.model.stored import MOMENT_MAX
from leasehold.core.rules.clock import ClockBasis, StoreTime, show_time, tell_time, time_in_step
from leasehold.env import Env
from leasehold.interrupts import SHIELD
from leasehold.stores.sqlite.writing import own_state
from leasehold.stores.sqlite.writing.turn import transaction

BASIS: Final = "boot_id, basis_clock, basis_awake, basis_boot, doubt_since, doubt_by, clock_repairs"
READ_CLOCK: Final = f"SELECT clock, {BASIS} FROM store_state"
WRITE_CLOCK: Final = "UPDATE store_state SET clock = ?"
WRITE_BASIS: Final = """
    UPDATE store_state SET boot_id = ?, basis_clock = ?, basis_awake = ?, basis_boot = ?,
        doubt_since = ?, doubt_by = ?, clock_repairs = ?
"""
# The holders of these leases could not run during the time by which the clock advanced.
MOVE_LEASES: Final = """
    UPDATE running SET expires_at = expires_at + ?1, moved_by = moved_by + ?1,
        heartbeat_at = min(heartbeat_at + ?1, ?2)
"""
MOVE_WORKERS: Final = "UPDATE worker SET heartbeat_at = min(heartbeat_at + ?1, ?2)"


class StoreClock:
    """The time, for all reads and writes of this process.

    Every write stores its time, so all processes agree about writes. The time of a read is
    remembered only by this process, since reads write nothing.
    """

    def __init__(self, env: Env) -> None:
        self._clock = env.clock
        self._latest = 0
        self._repairs = 0
        self._known: tuple[Any, ...] = ()
        self._mutex = threading.Lock()

    def show(self, db: apsw.Connection) -> int:
        """The time now, for callers that only read."""
        clock, basis = self._read(db)
        with SHIELD, self._mutex:
            shown = self._shown(clock, basis)
            self._latest = show_time(shown, basis, self._clock.reading())
            return self._latest

    def _read(self, db: apsw.Connection) -> tuple[int, ClockBasis]:
        """The stored time; a damaged one must be neither shown nor remembered."""
        try:
            row: Any = db.execute(READ_CLOCK).fetchone()
            is_sound = (type(row[0]) is int and 0 <= row[0] <= MOMENT_MAX) and (
                row[1:] == self._known or not own_state.find_in_state(db)
            )
        except (TypeError, ValueError):
            is_sound = False
        if not is_sound:
            raise own_state.corrupt(db)
        self._known = row[1:]
        return row[0], ClockBasis(*row[1:])

    def tell(self, stored: int, basis: ClockBasis) -> StoreTime:
        """The time of a write, given the time of the last one."""
        with self._mutex:
            if self._latest > stored or basis.repairs != self._repairs:
                stored = self._shown(stored, basis)
            reading = self._clock.reading()
            now = time_in_step(stored, basis, reading)
            if now is not None:
                self._latest = now
                return tuple.__new__(StoreTime, (now, 0, basis))  # In half the time of its name.
            time = tell_time(stored, basis, reading)
            if not time.shift:
                # A jump whose write was rolled back was never shown.
                self._latest = time.now
            return time

    def _shown(self, stored: int, basis: ClockBasis) -> int:
        """The latest time written, or shown here, since the clock was last set back."""
        if basis.repairs != self._repairs:
            self._repairs, self._latest = basis.repairs, 0
        return max(stored, self._latest)


def open_clock(db: apsw.Connection, env: Env) -> None:
    """Record the readings of the clocks when a store is first opened after a boot."""
    with transaction(db):
        row: Any = db.execute(READ_CLOCK).fetchone()
        basis, reading = ClockBasis(*row[1:]), env.clock.reading()
        if basis.boot_id != reading.boot_id:
            time = tell_time(row[0], basis, reading)
            db.execute(WRITE_CLOCK, (time.now,))
            db.execute(WRITE_BASIS, time.basis)


def move_leases(db: apsw.Connection, time: StoreTime) -> None:
    """Extend every lease by the time that the clock advanced without its holder."""
    db.execute(MOVE_LEASES, (time.shift, time.now))
    db.execute(MOVE_WORKERS, (time.shift, time.now))
