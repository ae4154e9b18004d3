"""Circuit breakers, as a task's author uses them."""

from __future__ import annotations

import pytest

from leasehold import Breaker, Status
from leasehold.env import ManualClock
from leasehold.testing import drain, memory_queue


def test_a_task_that_keeps_failing_is_held_back_and_probed() -> None:
    clock = ManualClock()
    queue = memory_queue(clock)
    server_is_up = False

    @queue.task(name="mail", max_retries=0, breaker=Breaker(failures=2, pause_seconds=60))
    def mail(number: int) -> int:
        if not server_is_up:
            raise ConnectionError("the mail server is down")
        return number

    jobs = [mail.submit(number) for number in range(5)]
    drain(queue)
    statuses = [job.status() for job in jobs]
    assert statuses == [Status.DEAD] * 2 + [Status.PENDING] * 3, "only two attempts were burnt"
    clock.advance(60)
    server_is_up = True
    drain(queue)
    assert [job.status() for job in jobs[2:]] == [Status.COMPLETED] * 3
    queue.shutdown()


def test_a_breaker_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(ValueError, match="1 failure or more"):
        Breaker(failures=0)
    with pytest.raises(ValueError, match="pause_seconds"):
        Breaker(pause_seconds=float("nan"))
