from __future__ import annotations

import itertools

import pytest

from leasehold.core.model.status import (
    DONE,
    TERMINAL,
    TRANSITIONS,
    WAITING,
    Event,
    Status,
    allowed,
    check,
)
from leasehold.errors import InvalidTransitionError

ONLY_TELL = {
    Event.CANCEL_REQUESTED,
    Event.REPRIORITIZED,
    Event.HEARTBEAT_FAILED,
    Event.ABANDONED,
    Event.VERSION_MISMATCH,
}


def next_statuses(status: Status) -> set[Status]:
    return {after for steps in TRANSITIONS.values() for after in steps.get(status, ())}


def test_every_event_changes_the_status_or_only_tells() -> None:
    assert set(TRANSITIONS) | ONLY_TELL == set(Event)
    assert not set(TRANSITIONS) & ONLY_TELL


def test_the_table_is_the_one_that_is_documented() -> None:
    s = Status
    assert {status: next_statuses(status) for status in Status} == {
        s.SCHEDULED: {s.PENDING, s.CANCELLED, s.DEAD},
        s.BLOCKED: {s.PENDING, s.SCHEDULED, s.CANCELLED, s.DEAD},
        s.PENDING: {s.RUNNING, s.CANCELLED, s.DEAD},
        s.RUNNING: {s.COMPLETED, s.FAILED, s.DEAD, s.CANCELLED, s.SCHEDULED, s.PENDING},
        s.FAILED: {s.PENDING, s.CANCELLED, s.DEAD},
        s.COMPLETED: set(),
        s.DEAD: {s.PENDING, s.BLOCKED},
        s.CANCELLED: {s.PENDING, s.BLOCKED},
    }


def test_only_a_lease_makes_a_job_run() -> None:
    ways = {
        (event, before)
        for event, steps in TRANSITIONS.items()
        for before, after in steps.items()
        if Status.RUNNING in after
    }
    assert ways == {(Event.LEASED, Status.PENDING)}


def test_every_status_can_be_reached() -> None:
    reached: set[Status] = set(allowed(Event.CREATED, None))
    while more := {after for status in reached for after in next_statuses(status)} - reached:
        reached |= more
    assert reached == set(Status)


def test_the_groups_of_statuses() -> None:
    assert TERMINAL | WAITING | {Status.RUNNING} == set(Status)
    assert not TERMINAL & WAITING
    assert {status for status in Status if status.is_done} == DONE
    assert {status for status in Status if status.is_terminal} == TERMINAL == DONE | {Status.DEAD}


@pytest.mark.parametrize("event", Event)
def test_check_follows_the_table(event: Event) -> None:
    for before, after in itertools.product([None, *Status], Status):
        if after in TRANSITIONS.get(event, {}).get(before, ()):
            check(event, before, after, "job-1")
        else:
            with pytest.raises(
                InvalidTransitionError, match=r"job job-1 is (.*cannot|already|.*; only) "
            ):
                check(event, before, after, "job-1")


def test_the_message_names_job_status_and_event() -> None:
    with pytest.raises(InvalidTransitionError) as caught:
        check(Event.REPLAYED, Status.COMPLETED, Status.PENDING, "a1")
    assert str(caught.value) == "job a1 is completed; only dead or cancelled jobs can be replayed"
    with pytest.raises(InvalidTransitionError) as caught:
        check(Event.CANCELLED, Status.DEAD, Status.CANCELLED, "a1")
    assert str(caught.value) == "job a1 is dead: it cannot be cancelled"


def test_a_job_that_is_already_there_is_said_to_be() -> None:
    for event, status, told in (
        (Event.REPLAYED, Status.PENDING, "pending: there is nothing to replay"),
        (Event.CANCELLED, Status.CANCELLED, "cancelled"),
        (Event.LEASED, Status.RUNNING, "running: it cannot be leased"),
    ):
        with pytest.raises(InvalidTransitionError) as caught:
            check(event, status, status, "a1")
        assert str(caught.value) == f"job a1 is already {told}"


@pytest.mark.parametrize(
    ("wrong", "meant"), [("ded", "dead"), ("Pending", "pending"), ("canceled", "cancelled")]
)
def test_a_status_that_there_is_not_names_the_nearest(wrong: str, meant: str) -> None:
    with pytest.raises(ValueError, match=f"no status '{wrong}': did you mean '{meant}'"):
        Status(wrong)
    with pytest.raises(ValueError, match="no status 'x': the statuses are scheduled, blocked, "):
        Status("x")
