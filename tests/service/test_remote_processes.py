"""Real processes over a real service: workers and servers that are killed, again and again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from cli.conftest import Shell
from leasehold import TaskQueue
from leasehold.cli.exits import Exit
from leasehold.core.model.job import Draft
from leasehold.core.model.status import Event, Status
from leasehold.core.model.tokens import TokenDraft, digest_of, new_token_secret
from leasehold.env import SYSTEM
from leasehold.stores.sqlite import SQLiteStore
from leasehold.testing.conformance.base import assert_history_replays
from support.effort import drawn
from support.nursery import Command, Nursery
from support.ports import free_port

pytestmark = pytest.mark.faults

WAIT = 120.0
LOOK_SECONDS = 0.01
JOBS_PER_KILL = 5

TASKS = """
import os, sys
from leasehold import TaskQueue

queue = TaskQueue(
    sys.argv[1], num_workers=2, lease_seconds=3, heartbeat_interval=0.5, sweep_interval=0.5
)
ledger = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND)

@queue.task(name="note", executor="thread")
def note(name):
    os.write(ledger, f"{os.getpid()} {name}\\n".encode())
    return name

queue.run_worker()
"""


class Scene:
    """A store, a port for its server, and a ledger outside of both."""

    def __init__(self, folder: Path, scheme: str, commands: Nursery) -> None:
        self.folder = folder
        self._commands = commands
        self.ledger = folder / "ledger"
        self.ledger.touch()
        (folder / "work.py").write_text(TASKS)
        self.store = SQLiteStore(folder / "jobs.db", durability="normal")
        secret = new_token_secret(SYSTEM)
        draft = TokenDraft(name="far", roles=("producer", "consumer"))
        self.store.create_token(draft, digest_of(secret), actor="test")
        ports = {"http": free_port(), "grpc": free_port()}
        self.url = f"{scheme}://{secret}@127.0.0.1:{ports[scheme]}?retry_seconds=60"
        self._arguments = {
            "server": (
                *("serve", "--port", str(ports["http"])),
                *(("--grpc", f"127.0.0.1:{ports['grpc']}") if scheme == "grpc" else ()),
                *("--store", f"sqlite:///{folder / 'jobs.db'}?durability=normal"),
            ),
            "crew": ("worker", "start", "--store", self.url),
        }
        self.processes: dict[str, Command | subprocess.Popen[bytes]] = {}

    def start(self, name: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log, open(os.devnull) as nothing:
            if name in self._arguments:
                streams = (nothing.fileno(), log.fileno(), log.fileno())
                self.processes[name] = self._commands.start(
                    self._arguments[name], self.folder, os.environ, streams
                )
            else:
                script = (str(self.folder / "work.py"), self.url, str(self.ledger))
                self.processes[name] = subprocess.Popen(
                    (sys.executable, *script), stdin=nothing, stdout=log, stderr=log
                )

    def kill(self, name: str) -> None:
        process = self.processes.pop(name)
        process.send_signal(signal.SIGKILL)
        process.wait(WAIT)

    def runs(self) -> Counter[str]:
        return Counter(line.split()[1] for line in self.ledger.read_text().splitlines())

    def workers_seen(self) -> set[int]:
        return {int(line.split()[0]) for line in self.ledger.read_text().splitlines()}

    def until(self, condition: Callable[[], object]) -> None:
        end = SYSTEM.clock.monotonic() + WAIT
        pause = threading.Event()
        while not condition():
            assert SYSTEM.clock.monotonic() < end, self.logs()
            # Whom it waits for needs the processor.
            pause.wait(LOOK_SECONDS)

    def see_progress(self, submitted: int) -> None:
        """Wait until one more of the jobs so far has run, if one is left."""
        wanted = min(len(self.runs()) + 1, submitted)
        self.until(lambda: len(self.runs()) >= wanted)

    def logs(self) -> str:
        return "\n".join(path.read_text()[-3000:] for path in self.folder.glob("*.log"))


@pytest.fixture
def scheme() -> str:
    return "http"


@pytest.fixture
def scene(tmp_path: Path, scheme: str, commands: Nursery) -> Iterator[Scene]:
    scene = Scene(tmp_path, scheme, commands)
    yield scene
    for name in list(scene.processes):
        scene.kill(name)
    assert scene.store.check() == []
    scene.store.close()


@contextmanager
def remote(url: str) -> Iterator[TaskQueue]:
    queue = TaskQueue(url, num_workers=0)
    try:
        yield queue
    finally:
        queue.shutdown()


@pytest.mark.parametrize(
    ("scheme", "seed", "kills"), [("http", 7, drawn(18)), ("grpc", 8, drawn(12))]
)
def test_nothing_is_lost_whoever_is_killed(scene: Scene, seed: int, kills: int) -> None:
    random = Random(seed)
    jobs = kills * JOBS_PER_KILL
    for name in ("server", "worker-1", "worker-2"):
        scene.start(name)
    with remote(scene.url) as queue:
        for number in range(jobs):
            queue.submit("note", f"job-{number}", job_id=f"job-{number}", max_retries=50)
            if number % JOBS_PER_KILL == 0:
                scene.see_progress(number)
                victim = random.choice(sorted(scene.processes))
                scene.kill(victim)
                scene.start(victim)
        for number in range(jobs):
            ended = queue.wait(f"job-{number}", WAIT)
            assert ended.status is Status.COMPLETED, scene.logs()
    runs = scene.runs()
    for number in range(jobs):
        job = scene.store.get(f"job-{number}")
        assert job is not None
        events = Counter(event.event for event in scene.store.history(job.id))
        assert events[Event.COMPLETED] == 1
        assert 1 <= runs[job.id] <= events[Event.LEASED]
        assert_history_replays(scene.store, job)
    assert sum(runs.values()) < 2 * jobs


@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_the_command_line_works_from_afar(scene: Scene, tmp_path: Path, commands: Nursery) -> None:
    scene.start("server")
    shell = Shell(tmp_path, commands)
    secret = new_token_secret(SYSTEM)
    draft = TokenDraft(name="me", roles=("admin",), commands=True)
    scene.store.create_token(draft, digest_of(secret), actor="test")
    url = f"{scene.url.partition('://')[0]}://{secret}@{scene.url.partition('@')[2]}"
    (tmp_path / "greet.py").write_text("def hello(name):\n    return f'hello {name}'\n")
    document = '{"task": "greet:hello", "args": ["anna"]}'
    job_id = shell.ok("enqueue", document, "--store", url, "-o", "json").json["id"]
    shell.ok("worker", "start", "--until-empty", "--import", "greet", "--quiet", "--store", url)
    shown = shell.ok("show", job_id, "--store", url, "-o", "json").json
    assert shown["job"]["status"] == "completed", shown
    status = shell.ok("status", "--store", url)
    assert "1 job" in status.out + status.err
    assert secret not in status.out + status.err
    refused = shell.run("backup", "copy.db", "--store", url)
    assert (refused.code, "works only where the database is" in refused.err) == (Exit.USAGE, True)


def test_a_worker_outlives_its_server(scene: Scene) -> None:
    scene.start("server")
    scene.start("worker-1")
    with remote(scene.url) as queue:
        for number in range(3):
            queue.submit("note", f"job-{number}", job_id=f"job-{number}")
            assert queue.wait(f"job-{number}", WAIT).status is Status.COMPLETED
            scene.kill("server")
            scene.start("server")
        queue.submit("note", "last", job_id="last")
        assert queue.wait("last", WAIT).status is Status.COMPLETED, scene.logs()
        # It was one process all the while, and counts as a worker for whoever looks.
        worker = scene.processes["worker-1"]
        assert isinstance(worker, subprocess.Popen)
        assert worker.poll() is None
        assert scene.workers_seen() == {worker.pid}
        [info] = scene.store.workers()
        assert (info.pid, info.is_consumer, info.slots) == (worker.pid, False, 2)
        assert sum(each.completed for each in scene.store.worker_totals()) == 4
        # Told to stop, it leaves the registry in order.
        worker.send_signal(signal.SIGTERM)
        worker.wait(WAIT)
        assert scene.store.workers() == []


def test_a_crew_whose_token_was_revoked_stays_stopped(scene: Scene) -> None:
    scene.start("server")
    scene.start("crew")
    scene.until(lambda: any(not each.is_consumer for each in scene.store.workers()))
    scene.store.revoke_token("far", actor="test")
    # The answer to whoever waits for jobs comes when there is one.
    scene.store.submit([Draft(id="bait", task="t")])
    assert scene.processes["crew"].wait(WAIT) == Exit.FAILURE
    del scene.processes["crew"]
    assert "another one starts" not in scene.logs()
