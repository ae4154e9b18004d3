"""kill -9, again and again: the loop of all tests that kill processes, and what they judge by."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random

from leasehold.core.contract.store import Store
from leasehold.core.model.job import Job
from leasehold.core.model.lease import LeaseRequest, Settlement
from leasehold.core.model.outcome import Complete
from leasehold.core.model.search import JobFilter
from support.acknowledged import Acknowledged
from support.zygote import Zygote, zygote


def kill_again_and_again(
    processes: Zygote,
    starts: Sequence[Callable[[], int]],
    random: Random,
    *,
    kills: int,
    pause: Callable[[], object],
) -> None:
    """Start them all; then `kills` times: pause, kill a random one, start the same again.

    A start answers the pid of what it spawned. A pause waits until the processes got somewhere.
    """
    start_of = {start(): start for start in starts}
    for _ in range(kills):
        pause()
        pid = random.choice(processes.alive)
        processes.kill(pid)
        start = start_of.pop(pid)
        start_of[start()] = start


def under_fire(
    path: Path | str,
    told: Acknowledged,
    random: Random,
    functions: Sequence[str],
    *,
    kills: int,
    lines_between_kills_max: int = 30,
    more: tuple[object, ...] = (),
) -> None:
    """Let processes use a store, each running one function ("module:name"), and kill all of them.

    `kills` are replaced, and the last ones are killed too. A function is given the store's path or
    URL, a name of its own, a seed, where to tell what was acknowledged, and `more`.
    """
    modules = {function.partition(":")[0] for function in functions}
    with zygote(*sorted(modules), pass_fds=(told.tell_fd,)) as processes:

        def start(function: str) -> int:
            seed = random.randrange(2**32)
            return processes.spawn(function, str(path), f"p{seed}", seed, told.tell_fd, *more)

        def listen() -> None:
            wanted = random.randint(1, lines_between_kills_max)
            while wanted > 0:
                news = told.listen()
                assert news, "the processes have fallen silent"
                wanted -= news

        starts = [lambda function=function: start(function) for function in functions]
        kill_again_and_again(processes, starts, random, kills=kills, pause=listen)
        processes.kill_all()
        assert processes.kills == kills + len(functions)
    told.drain()


def finish_all(store: Store) -> None:
    """Once the faults stop, every job that may run is completed, as soon as it is due."""
    store.recover()
    while True:
        answer = store.exchange((), LeaseRequest(worker="last", limit=500))
        if answer.leases:
            store.exchange(
                [Settlement(each.job_id, each.version, Complete()) for each in answer.leases]
            )
        elif answer.next_due_at is None:
            return


def all_jobs(store: Store, where: JobFilter = JobFilter()) -> Iterator[Job]:  # noqa: B008
    """Every job of the store, page by page."""
    cursor = None
    while True:
        page = store.search(where, limit=1000, cursor=cursor)
        yield from page.jobs
        cursor = page.next_cursor
        if cursor is None:
            return
