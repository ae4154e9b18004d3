"""Signals, in a process of their own: the first lets jobs finish, the second does not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator

import pytest

PROGRAM = textwrap.dedent("""
    import sys
    import threading
    from leasehold.codec import CallCodec
    from leasehold.core.model.job import Draft
    from leasehold.stores.memory import MemoryStore
    from leasehold.worker.context import current_job
    from leasehold.worker.task import TaskDefinition, TaskRegistry
    from leasehold.worker.worker import Worker

    def say(*words):
        print(*words, flush=True)

    def task(kind):
        say("begun")
        # It goes on until the worker has begun to stop.
        while not worker._stopping.is_asked:
            current_job().wait(0.01)
        if kind == "endless":
            say("asked")
            threading.Event().wait()

    store = MemoryStore()
    registry = TaskRegistry()
    registry.register(TaskDefinition("task", task, CallCodec(task)))
    payload = CallCodec(task).encode_call([sys.argv[1]], {})
    store.submit([Draft(id="job", task="task", payload=payload)])
    worker = Worker(store, registry, grace_seconds=3600)
    reason = worker.run()
    job = store.get("job")
    say(reason, job.status, job.attempts)
""")


Start = Callable[[str], "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Start]:
    processes: list[subprocess.Popen[str]] = []

    def run(kind: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, kind],
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        )
        processes.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        return process

    yield run
    for process in processes:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_lets_the_job_finish(start: Start, number: signal.Signals) -> None:
    process = start("short")
    process.send_signal(number)
    assert process.stdout is not None
    assert process.stdout.readline() == "stopped completed 1\n"
    assert process.wait(20) == 0


def test_the_second_signal_hands_it_back_at_once(start: Start) -> None:
    process = start("endless")
    assert process.stdout is not None
    process.send_signal(signal.SIGTERM)
    # Two signals that come before the first was heard are one.
    assert process.stdout.readline() == "asked\n"
    process.send_signal(signal.SIGTERM)
    assert process.stdout.readline() == "stopped pending 0\n"
    assert process.wait(20) == 0
