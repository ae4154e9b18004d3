"""What time it is for a store, whatever is done to the clocks of the machine."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from leasehold.core.rules.clock import (
    DOUBT_MICROS,
    OFF_MICROS_MAX,
    TOLERANCE_MICROS,
    ClockBasis,
    show_time,
    tell_time,
)
from leasehold.env import ClockReading

SECOND = 1_000_000
START = 1_900_000_000 * SECOND
YEARS = 14 * 365 * 24 * 3600 * SECOND

micros = st.integers(0, 3 * 3600 * SECOND)
short = st.integers(0, 90 * SECOND)
steps = st.integers(-YEARS, YEARS) | st.integers(-5 * SECOND, 5 * SECOND)


@dataclass
class Machine:
    """A store, its machine's clocks, and a lease that was granted at the start."""

    wall: int = START
    awake: int = 0
    boot: int = 0
    boots: int = 0
    clock: int = 0
    basis: ClockBasis = field(default_factory=ClockBasis)
    granted_at: int = 0
    granted_when_awake: int = 0
    moved: int = 0

    def pass_time(self, elapsed: int) -> None:
        self.wall += elapsed
        self.awake += elapsed
        self.boot += elapsed

    def sleep(self, elapsed: int) -> None:
        self.wall += elapsed
        self.boot += elapsed

    def step(self, by: int) -> None:
        self.wall = max(1, self.wall + by)

    @property
    def reading(self) -> ClockReading:
        return ClockReading(self.wall, self.awake, self.boot, f"boot {self.boots}")

    def write(self) -> int:
        """One write; answers by how much it moved the leases."""
        before = self.clock
        time = tell_time(self.clock, self.basis, self.reading)
        assert time.now >= before
        assert time.shift >= 0
        is_begun_anew = time.basis.boot == self.boot
        assert time.shift == 0 or time.shift > TOLERANCE_MICROS or is_begun_anew
        assert time.basis == tell_time(self.clock, self.basis, self.reading).basis
        self.clock, self.basis = time.now, time.basis
        self.moved += time.shift
        return time.shift

    def lease(self) -> None:
        self.granted_at, self.granted_when_awake, self.moved = self.clock, self.awake, 0

    @property
    def lease_age(self) -> int:
        """How much of the lease is used up, by the store's clock."""
        return self.clock - self.moved - self.granted_at

    @property
    def lived(self) -> int:
        """How long its holder has lived since."""
        return self.awake - self.granted_when_awake


actions = st.lists(
    st.tuples(st.just("pass"), short | micros)
    | st.tuples(st.just("sleep"), micros)
    | st.tuples(st.just("step"), steps),
    max_size=40,
)


def machine_after(done: list[tuple[str, int]]) -> Machine:
    machine = Machine()
    machine.write()
    machine.lease()
    for action, amount in done:
        if action == "pass":
            machine.pass_time(amount)
        elif action == "sleep":
            machine.sleep(amount)
        else:
            machine.step(amount)
        machine.write()
    return machine


@example([("sleep", 161930), ("step", -445917), *[("sleep", 284310)] * 20])
@given(actions)
def test_no_lease_is_used_up_faster_than_its_holder_lives(done: list[tuple[str, int]]) -> None:
    machine = machine_after(done)
    # The clocks may drift apart by the tolerance before it counts.
    assert machine.lease_age <= machine.lived + TOLERANCE_MICROS


@given(actions)
def test_a_lease_is_used_up_at_half_the_pace_at_least(done: list[tuple[str, int]]) -> None:
    machine = machine_after(done)
    machine.lease()
    for _ in range(100):
        machine.pass_time(10 * SECOND)
        machine.write()
    assert machine.lease_age >= machine.lived // 2 - 2 * TOLERANCE_MICROS - 10 * SECOND


@given(actions, st.integers(2 * TOLERANCE_MICROS, YEARS))
def test_one_bad_reading_leaves_nothing_behind(done: list[tuple[str, int]], jump: int) -> None:
    machine = machine_after(done)
    for _ in range(9):  # Let it follow whatever the wall clock has come to show.
        machine.pass_time(DOUBT_MICROS)
        machine.write()
    before = machine.clock
    machine.step(jump)
    machine.write()
    assert machine.clock - before <= TOLERANCE_MICROS
    machine.step(-jump)
    machine.write()
    assert machine.clock - before <= TOLERANCE_MICROS
    assert machine.basis.doubt_since is None


@given(actions)
def test_a_clock_that_stays_ahead_is_followed(done: list[tuple[str, int]]) -> None:
    machine = machine_after([*done, ("step", 2 * YEARS)])
    machine.step(max(0, machine.clock - machine.wall))
    for _ in range(5):
        machine.pass_time(DOUBT_MICROS)
        machine.write()
    assert abs(machine.clock - machine.wall) <= TOLERANCE_MICROS


@given(actions)
def test_looking_never_shows_more_than_the_next_write_may(done: list[tuple[str, int]]) -> None:
    machine = machine_after(done)
    machine.pass_time(SECOND)
    shown = show_time(machine.clock, machine.basis, machine.reading)
    machine.write()
    assert shown <= machine.clock


@given(st.integers(0, OFF_MICROS_MAX), steps)
def test_after_a_restart_leases_stay_where_they_are(off: int, step: int) -> None:
    machine = Machine()
    machine.write()
    machine.lease()
    machine.boots += 1
    machine.awake = machine.boot = 5 * SECOND
    machine.step(off if step > 0 else step)
    assert machine.write() == 0
    assert machine.clock == max(START, machine.wall)


def test_boot_times_that_run_backwards_are_not_compared() -> None:
    machine = Machine()
    machine.pass_time(1000 * SECOND)
    machine.write()
    machine.boot = machine.awake = 10 * SECOND
    machine.wall += SECOND
    assert machine.write() == 0
    assert machine.clock == machine.wall


def test_where_the_system_tells_no_boot_the_wall_clock_counts() -> None:
    time = tell_time(START, ClockBasis(), ClockReading(START + YEARS, 1, 1, ""))
    assert (time.now, time.shift, time.basis) == (START + YEARS, 0, ClockBasis())
    time = tell_time(START, ClockBasis(), ClockReading(START - YEARS, 1, 1, ""))
    assert time.now == START


@pytest.mark.parametrize(
    ("further", "follows"), [(TOLERANCE_MICROS, True), (TOLERANCE_MICROS + 1, False)]
)
def test_a_clock_that_is_ahead_by_about_as_much_is_believed_in_time(
    further: int, follows: bool
) -> None:
    machine = Machine()
    machine.write()
    machine.step(10 * TOLERANCE_MICROS)
    machine.write()
    assert machine.clock < machine.wall
    machine.pass_time(DOUBT_MICROS // 2)
    machine.step(further)
    machine.write()
    machine.pass_time(DOUBT_MICROS // 2)
    machine.write()
    assert (machine.clock == machine.wall) is follows
