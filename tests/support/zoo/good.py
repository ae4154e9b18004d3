"""Good jobs: they meet, one per slot, so that every slot has to run one."""

from __future__ import annotations

import asyncio
import os
import time

from leasehold.worker.context import current_job
from support.zoo import members
from support.zoo.members import members_of

SECONDS = 20.0


def meet(folder: str, count: int) -> str:
    """Wait until so many jobs are here at the same time."""
    _arrive(folder)
    end = time.monotonic() + SECONDS
    while len(os.listdir(folder)) < count:
        assert time.monotonic() < end, "the others did not come: a slot is dead"
        time.sleep(0.001)
    return "good"


async def meet_on_loop(folder: str, count: int) -> str:
    _arrive(folder)
    end = time.monotonic() + SECONDS
    while len(os.listdir(folder)) < count:
        assert time.monotonic() < end, "the others did not come: a slot is dead"
        await asyncio.sleep(0.001)
    return "good"


def _arrive(folder: str) -> None:
    # A second run of the same job, by a copy of whoever should run it, finds its name taken.
    os.mkdir(os.path.join(folder, current_job().job_id))


async def on_loop(name: str) -> object:
    """A member of the zoo, on the shared event loop."""
    members_of("async")
    member = members.ZOO[name]
    result = member.func()
    return await result if member.is_async else result


def in_place(name: str) -> object:
    """A member of the zoo, on a thread or in a child process."""
    members_of("thread")
    return members.ZOO[name].func()
