"""Numbers that are no plain ones are refused or made plain, before anything is stored."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from leasehold.core.model.job import Draft
from leasehold.core.model.lease import LeaseRequest
from leasehold.core.model.numbers import plain_number, whole_number
from leasehold.core.model.retry import Constant, Delays, Exponential, Linear, RetryPolicy
from leasehold.core.model.schedule import ScheduleDraft
from leasehold.core.model.timing import Every
from leasehold.errors import InvalidJobError, InvalidScheduleError
from leasehold.stores.sqlite import SQLiteStore


class Metres(float):
    """As numpy's float64 is one."""


class Count(int):
    """As a member of an IntEnum is one."""


NOT_NUMBERS: list[Any] = [True, Decimal(1), "1", None, 1j, [1]]


@pytest.mark.parametrize("value", NOT_NUMBERS)
def test_what_only_looks_like_a_number_is_none(value: object) -> None:
    assert plain_number(value) is None
    assert whole_number(value) is None


def test_a_number_of_a_class_of_its_own_is_made_plain() -> None:
    assert type(plain_number(Metres(1.5))) is float
    assert type(whole_number(Count(2))) is int


@pytest.mark.parametrize("value", [True, Decimal(1), "soon"])
@pytest.mark.parametrize("make", [Exponential, Linear, Constant, lambda value: Delays((value,))])
def test_a_policy_takes_plain_numbers_only(
    make: Callable[[Any], RetryPolicy], value: object
) -> None:
    with pytest.raises(ValueError, match="must be a number between 0 and"):
        make(value)


@pytest.mark.parametrize("value", [1.5, 2.0, True, "1"])
def test_retries_are_counted_in_whole_numbers(value: Any) -> None:
    with pytest.raises(InvalidJobError, match="max_retries must be a whole number from 0"):
        Draft(id="a", task="t", max_retries=value).check()


@pytest.mark.parametrize("field", ["grace_seconds", "catch_up_max"])
def test_so_are_the_numbers_of_a_schedule(field: str) -> None:
    fields: dict[str, Any] = {field: True}
    draft = ScheduleDraft(name="s", timing=Every(1), job=Draft(id="a", task="t"), **fields)
    with pytest.raises(InvalidScheduleError, match=field):
        draft.check()


def test_what_was_accepted_can_be_read_again(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "jobs.db")
    policies: list[RetryPolicy] = [
        Exponential(Metres(1)),
        Linear(Count(1)),
        Constant(Metres(2)),
        Delays((Metres(1),)),
    ]
    store.submit([Draft(id=str(n), task="t", retry=each) for n, each in enumerate(policies)])
    timing = Every(Metres(5))
    store.set_schedule(
        ScheduleDraft(
            name="s",
            timing=timing,
            job=Draft(id="a", task="t"),
            grace_seconds=Metres(1),
            catch_up_max=Count(3),
        ),
        actor="me",
    )
    leases = store.exchange((), LeaseRequest(worker="w", limit=10)).leases
    assert [lease.retry for lease in leases] == policies
    schedule = store.get_schedule("s")
    assert schedule is not None
    assert schedule.timing == timing
    assert store.check() == []
    store.close()
