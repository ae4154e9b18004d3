"""The tasks of `demo` and `bench`. Workers find these functions by their names."""

from __future__ import annotations

import os

from leasehold.env import SYSTEM
from leasehold.errors import PermanentError
from leasehold.worker.context import current_job


def nothing() -> None:
    """The smallest job there is."""


def moment() -> int:
    """When it ran, in microseconds."""
    return SYSTEM.now_micros()


def add(one: int, two: int) -> int:
    return one + two


def flaky(works_from: int) -> str:
    """Fails until this many attempts were made."""
    attempt = current_job().attempt
    if attempt < works_from:
        raise ConnectionError(f"attempt {attempt}: the network is down")
    return f"attempt {attempt}: it answers"


def charge(customer: str, till: str) -> str:
    """Fails for good until the till is there."""
    if not os.path.exists(till):
        raise PermanentError(f"the card of {customer} was refused")
    return f"{customer} has paid"


def total() -> int:
    """The sum of the results of the jobs before it."""
    return sum(current_job().dependency_results(of=int).values())


def pause(seconds: float) -> None:
    current_job().wait(seconds)


def paint(enough: str) -> str:
    """Reports its progress, and continues once it is told that somebody has seen it."""
    job = current_job()
    job.progress(50, message="half of the wall")
    job.log("half of the wall is painted")
    while not os.path.exists(enough):
        job.check()
        job.wait(0.01)
    job.progress(100)
    return "painted"


def until_stopped() -> None:
    """Runs until somebody asks it to stop."""
    job = current_job()
    while True:
        job.check()
        job.wait(0.5)


def survive(attempts: int) -> int:
    """Waits for its worker to die, until it has been tried so often."""
    job = current_job()
    while job.attempt < attempts:
        job.wait(0.5)
    return job.attempt


def pay(name: str, amount: int) -> None:
    """Writes to a table of the application, in one commit with its own completion."""
    with current_job().transaction() as connection:
        connection.execute("UPDATE account SET paid = paid + ? WHERE name = ?", (amount, name))


def shout(text: str) -> str:
    return text.upper()
