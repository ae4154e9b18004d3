"""The store's clock: the time, derived from the clocks of the machine.

Leases and delays are durations; due times and schedules are times on the wall clock. A store has
one clock for both, so it follows the wall clock as long as that agrees with the machine's boot
time, which cannot be set. If the two diverge:

- The wall clock *jumped ahead*: the store continues at the pace of boot time, and follows only when
  every write for a minute has seen the same jump. One bad reading does no harm.
- The wall clock was *set back*: the store continues at half the pace of boot time until the wall
  clock has caught up. It never steps back, and never stands still.
- The machine *slept*: its boot time kept running, and the store follows it.

A lease promises time in which its holder can run. So whenever the store's clock moves further than
the machine was awake, the same write extends every running lease by the difference: no jump or
sleep ends a lease, and the next sweep finds none expired.

>>> start = ClockReading(wall=10**15, awake=0, boot=0, boot_id="a")
>>> basis = tell_time(0, ClockBasis(), start).basis
>>> minute = 60 * 10**6
>>> jumped = ClockReading(wall=10**15 + 61 * minute, awake=minute, boot=minute, boot_id="a")
>>> doubtful = tell_time(10**15, basis, jumped)
>>> (doubtful.now - 10**15) // minute, doubtful.shift // minute
(1, 0)
>>> still = ClockReading(10**15 + 62 * minute, 2 * minute, 2 * minute, "a")
>>> believed = tell_time(doubtful.now, doubtful.basis, still)
>>> (believed.now - 10**15) // minute, believed.shift // minute
(62, 60)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from leasehold.core.model.phrases import counted, listed
from leasehold.env import ClockReading
from leasehold.errors import InvalidTransitionError

TOLERANCE_MICROS: Final = 250_000
"""The wall clock may differ from boot time by this much before it counts as a jump."""
DOUBT_MICROS: Final = 60 * 1_000_000
"""A jump ahead is believed once every write for this long has seen it."""
OFF_MICROS_MAX: Final = 366 * 24 * 3600 * 1_000_000
"""A machine that seems to have been off for longer than this is assumed to have a clock that
jumped.
"""


class ClockBasis(NamedTuple):
    """A store's record of the clocks: their readings when the two last diverged."""

    boot_id: str = ""
    clock: int = 0
    """The store's time at that moment."""
    awake: int = 0
    boot: int = 0
    doubt_since: int | None = None
    """The awake time at which a jump that is not yet believed was first seen."""
    doubt_by: int = 0
    """How far ahead that jump led."""
    repairs: int = 0
    """How often a person has set the store's clock back, which makes earlier readings void."""


class StoreTime(NamedTuple):
    """The first steps of a write, before its own."""

    now: int
    shift: int
    """How much later every running lease ends."""
    basis: ClockBasis
    """What to remember; usually unchanged."""


def tell_time(stored: int, basis: ClockBasis, reading: ClockReading) -> StoreTime:
    """What time it is for a store whose latest write was at `stored`."""
    now = time_in_step(stored, basis, reading)
    if now is None:
        return _tell_odd_time(stored, basis, reading)
    return tuple.__new__(StoreTime, (now, 0, basis))  # In half the time of its own name.


def time_in_step(stored: int, basis: ClockBasis, reading: ClockReading) -> int | None:
    """The same where the clocks agree, as nearly always; None if more has to be thought of.

    Every write comes by here, so it is spelled out, and makes nothing but a number.
    """
    wall, awake, boot, boot_id = reading
    known_id, clock, awake_then, boot_then, doubt_since, _, _ = basis
    if known_id == boot_id and awake_then <= awake and boot_then <= boot and doubt_since is None:
        now = max(stored, wall)
        in_step = -TOLERANCE_MICROS <= wall - clock - boot + boot_then <= TOLERANCE_MICROS
        if in_step and boot_id and now - clock - awake + awake_then <= TOLERANCE_MICROS:
            return now
    return None


def _tell_odd_time(stored: int, basis: ClockBasis, reading: ClockReading) -> StoreTime:
    if not reading.boot_id:
        return StoreTime(max(stored, reading.wall), 0, basis)
    if not _is_comparable(basis, reading):
        return _first_of_this_boot(stored, basis, reading)
    elapsed = reading.boot - basis.boot
    expected = basis.clock + elapsed
    ahead = reading.wall - expected
    tolerated = TOLERANCE_MICROS
    if ahead < -TOLERANCE_MICROS:
        now = max(stored, reading.wall, basis.clock + elapsed // 2)
        basis_then = basis_of_now(now, reading, basis.repairs)
        # A comparison that begins anew forgets what was tolerated: a clock that is set back again
        # and again would use up leases by as much each time.
        tolerated = 0
    elif ahead <= TOLERANCE_MICROS:
        now = max(stored, reading.wall)
        basis_then = _without_doubt(basis)
    elif basis.doubt_since is None or abs(ahead - basis.doubt_by) > TOLERANCE_MICROS:
        now = max(stored, expected)
        basis_then = basis._replace(doubt_since=reading.awake, doubt_by=ahead)
    elif reading.awake - basis.doubt_since < DOUBT_MICROS:
        now = max(stored, expected)
        basis_then = basis
    else:
        now = max(stored, reading.wall)
        basis_then = basis_of_now(now, reading, basis.repairs)
    shift = (now - basis.clock) - (reading.awake - basis.awake)
    if shift <= tolerated:
        return StoreTime(now, 0, basis_then)
    moved = basis_of_now(now, reading, basis.repairs)
    return StoreTime(
        now,
        shift,
        moved._replace(doubt_since=basis_then.doubt_since, doubt_by=basis_then.doubt_by),
    )


class HalfPace(NamedTuple):
    """Where a store that has no clock but the wall clock went on when that was set back."""

    clock: int = 0
    """The store's time at that moment."""
    wall: int = 0


def paced_time(pace: HalfPace, wall: int) -> int:
    """The time at half the pace of the wall clock, until that has caught up.

    >>> minute = 60 * 10**6
    >>> set_back = HalfPace(clock=100 * minute, wall=90 * minute)
    >>> [paced_time(set_back, wall * minute) // minute for wall in (90, 100, 110, 111)]
    [100, 105, 110, 111]
    """
    return max(wall, pace.clock + (wall - pace.wall) // 2)


def new_pace(pace: HalfPace, now: int, wall: int) -> HalfPace | None:
    """What to note if the wall clock has jumped since the pace was noted; `now` is the time."""
    return HalfPace(now, wall) if abs(now - paced_time(pace, wall)) > TOLERANCE_MICROS else None


def show_time(stored: int, basis: ClockBasis, reading: ClockReading) -> int:
    """The time for callers that only read: only writes may believe a jump ahead."""
    return tell_time(stored, basis._replace(doubt_since=None), reading).now


def _is_comparable(basis: ClockBasis, reading: ClockReading) -> bool:
    return (
        basis.boot_id == reading.boot_id
        and basis.boot <= reading.boot
        and basis.awake <= reading.awake
    )


def _first_of_this_boot(stored: int, basis: ClockBasis, reading: ClockReading) -> StoreTime:
    """Only the wall clock knows how long the machine was off: believe it within reason.

    Every holder of a lease has died with the machine, so no lease is moved.
    """
    off = reading.wall - stored
    if stored == 0 or off <= OFF_MICROS_MAX:
        now = max(stored, reading.wall)
        return StoreTime(now, 0, basis_of_now(now, reading, basis.repairs))
    fresh = basis_of_now(stored, reading, basis.repairs)
    return StoreTime(stored, 0, fresh._replace(doubt_since=reading.awake, doubt_by=off))


def basis_of_now(now: int, reading: ClockReading, repairs: int) -> ClockBasis:
    """What to remember when the comparison of the clocks restarts."""
    return ClockBasis(reading.boot_id, now, reading.awake, reading.boot, repairs=repairs)


def _without_doubt(basis: ClockBasis) -> ClockBasis:
    return basis if basis.doubt_since is None else basis._replace(doubt_since=None, doubt_by=0)


def is_ahead(stored: int, wall: int) -> bool:
    """Whether a store's clock is so far ahead of the wall clock that it can be set back."""
    return stored - wall > TOLERANCE_MICROS


def check_may_be_set_back(workers: Sequence[str], running: int) -> None:
    """Refuse to set a store's clock back while anybody works by it; `workers` as they are shown."""
    if workers:
        raise InvalidTransitionError(
            f"the store's clock cannot be set back while workers run: stop {listed(workers)} first"
        )
    if running:
        raise InvalidTransitionError(
            f"the store's clock cannot be set back while the store has "
            f"{counted(running, 'running job')}: wait until they end, or until their leases expire "
            "and `queuectl sweep` takes them back"
        )
