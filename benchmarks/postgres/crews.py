"""Worker processes of Leasehold and of others: filled, made ready, then let go all at once.

`python -m benchmarks.postgres.crews work NAME URL SETTING` is one worker process. It says "ready",
and works from the next line of its input until nothing is left. `... fill NAME URL JOBS` submits.
Others run in the environment that `benchmarks.against` has for them (`make .venv/rivals`).
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.contest import RIVALS
from benchmarks.postgres import bare

GRAPHILE = Path(__file__).with_name("graphile.mjs")
GRAPHILE_FOLDER = "LEASEHOLD_BENCH_GRAPHILE"
"""Names the folder in which `npm install graphile-worker` was run, if not that of the others."""
SOME_LEFT = b"""
    SELECT EXISTS (SELECT 1 FROM leasehold.running)
        OR EXISTS (SELECT 1 FROM leasehold.lane, LATERAL (
               SELECT 1 FROM leasehold.ready WHERE ready.lane = lane.id LIMIT 1) AS first
                   WHERE queue = 'default')
"""
BY_INDEXES = "-c enable_seqscan=off -c enable_bitmapscan=off -c plan_cache_mode=force_generic_plan"
"""Else the server reads all that is pending in other queues, again and again."""
OTHERS = ("procrastinate", "pgqueuer")
"""Python's own, which are not installed beside Leasehold."""


def drained_per_second(
    name: str,
    url: str,
    jobs: int,
    setting: str = "",
    crew: int = 2,
    filled: Callable[[], None] = lambda: None,
) -> float:
    """So many jobs, worked off by a crew of processes; `filled` is called before they begin."""
    crews = [_python(name), "-m", "benchmarks.postgres.crews"]
    if name in OTHERS:
        fill = [*crews, "fill", name, url, str(jobs)]
        subprocess.run(fill, check=True, stderr=subprocess.DEVNULL)
    else:
        FILL[name](url, jobs)
    filled()
    program = [*crews, "work", name, url, setting]
    if name == "graphile":
        program = ["node", str(GRAPHILE), url]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    pipes["stderr"] = subprocess.DEVNULL
    workers: list[Any] = [subprocess.Popen(program, **pipes) for _ in range(crew)]
    try:
        for each in workers:
            assert each.stdout.readline() == "ready\n", f"{name} did not start"
        began = time.perf_counter()
        for each in workers:
            each.stdin.write("go\n")
            each.stdin.flush()
        if name == "leasehold":
            _await_last_job(url)
        else:
            for each in workers:
                assert each.stdout.readline() == "done\n", f"{name} did not end well"
        return jobs / (time.perf_counter() - began)
    finally:
        for each in workers:
            each.kill()
            each.communicate()


def _await_last_job(url: str) -> None:
    """Our workers go on for ever, so they are watched from here, by a look that costs little."""
    with psycopg.connect(url, autocommit=True, prepare_threshold=0, options=BY_INDEXES) as db:
        while db.execute(SOME_LEFT).fetchone() == (True,):
            time.sleep(0.01)


def _python(name: str) -> str:
    """The interpreter that has it."""
    return str(RIVALS / "bin" / "python") if name in OTHERS else sys.executable


def has_others() -> bool:
    return (RIVALS / "bin" / "python").exists()


def has_graphile() -> bool:
    os.environ.setdefault(GRAPHILE_FOLDER, str(RIVALS))
    folder = Path(os.environ[GRAPHILE_FOLDER]) / "node_modules" / "graphile-worker"
    return folder.exists() and shutil.which("node") is not None


# -- filling ---------------------------------------------------------------------------------------


def _fill_procrastinate(url: str, jobs: int) -> None:
    from procrastinate import App, SyncPsycopgConnector

    app: Any = App(connector=SyncPsycopgConnector(conninfo=url))
    app.task(name="noop")(_noop)
    with app.open():
        app.schema_manager.apply_schema()
        app.tasks["noop"].batch_defer(*({} for _ in range(jobs)))


def _fill_pgqueuer(url: str, jobs: int) -> None:
    from benchmarks.rivals.pgqueuer_postgres import connected

    async def fill() -> None:
        from pgqueuer.queries import Queries

        queries: Any = Queries(await connected(url))
        await queries.install()
        await queries.enqueue(["noop"] * jobs, [None] * jobs, [0] * jobs)

    asyncio.run(fill())


def _fill_graphile(url: str, jobs: int) -> None:
    migrate = ["node", str(GRAPHILE), url, "migrate"]
    subprocess.run(migrate, check=True, stderr=subprocess.DEVNULL)
    with psycopg.connect(url) as db:
        db.execute(
            b"SELECT graphile_worker.add_job('noop', '{}'::json) FROM generate_series(1, %s)",
            (jobs,),
        )


def _fill_leasehold(url: str, jobs: int) -> None:
    from benchmarks import tasks
    from leasehold import NewJob, TaskQueue

    with TaskQueue(url, num_workers=0) as queue:
        for first in range(0, jobs, 10_000):
            queue.submit_many([NewJob(tasks.noop)] * min(10_000, jobs - first))


FILL = {
    "leasehold": _fill_leasehold,
    "bare": bare.fill,
    "procrastinate": _fill_procrastinate,
    "pgqueuer": _fill_pgqueuer,
    "graphile": _fill_graphile,
}


# -- one worker process ----------------------------------------------------------------------------


def _noop() -> None:
    """The least a job can do."""


def _wait_for_go() -> None:
    print("ready", flush=True)
    sys.stdin.readline()


def _work_leasehold(url: str, setting: str) -> None:
    from importlib import import_module

    from leasehold import TaskQueue

    import_module("leasehold.worker.worker")
    queue = TaskQueue(url, num_workers=int(setting or 8), import_tasks=["benchmarks"])
    queue.get_queue_stats("default")
    _wait_for_go()
    queue.start()
    # It is killed when the last job has ended (`_await_last_job`).
    sys.stdin.read()


def _work_bare(url: str, setting: str) -> None:
    with bare.opened(url) as worker:
        _wait_for_go()
        worker.work(int(setting or 500))
        print("done", flush=True)


def _work_procrastinate(url: str, setting: str) -> None:
    async def work() -> None:
        from procrastinate import App, PsycopgConnector

        app: Any = App(connector=PsycopgConnector(conninfo=url))
        app.task(name="noop")(_noop)
        async with app.open_async():
            _wait_for_go()
            await app.run_worker_async(
                wait=False, concurrency=int(setting or 10), install_signal_handlers=False
            )
        print("done", flush=True)

    asyncio.run(work())


def _work_pgqueuer(url: str, setting: str) -> None:
    from benchmarks.rivals.pgqueuer_postgres import connected, run

    async def work() -> None:
        from pgqueuer import PgQueuer
        from pgqueuer.types import QueueExecutionMode

        queue: Any = PgQueuer(await connected(url))

        async def noop(_: Any) -> None: ...

        queue.entrypoint("noop")(noop)
        _wait_for_go()
        await queue.run(mode=QueueExecutionMode.drain, batch_size=int(setting or 100))
        print("done", flush=True)

    run(work())


WORK = {
    "leasehold": _work_leasehold,
    "bare": _work_bare,
    "procrastinate": _work_procrastinate,
    "pgqueuer": _work_pgqueuer,
}

if __name__ == "__main__":
    what, name, url, setting = sys.argv[1:]
    if what == "fill":
        FILL[name](url, int(setting))
    else:
        WORK[name](url, setting)
