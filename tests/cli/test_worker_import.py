"""`worker start --import`: store, queues and tasks are those of the application's own queue."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from cli.conftest import Shell
from cli.crews import crews
from leasehold import Status, TaskQueue
from leasehold.cli.exits import Exit
from leasehold.cli.workers import probe
from leasehold.cli.workers.ends import PAUSE_SECONDS_MAX, pause_after

__all__ = ["crews"]

SHOP = """
from leasehold import TaskQueue

queue = TaskQueue("app.db", queues=["work", "mail"], num_workers=0)

@queue.task(name="add")
def add(one, two):
    return one + two

@queue.task(name="send", queue="mail")
def send(to):
    return f"sent to {to}"
"""


def shop(shell: Shell, text: str = SHOP) -> None:
    (shell.folder / "shop.py").write_text(text)


def submit(shell: Shell, *tasks: str) -> None:
    with TaskQueue(shell.folder / "app.db", num_workers=0) as queue:
        for queue_name, task in zip(("work", "mail"), tasks, strict=True):
            queue.submit(
                task, *([1, 2] if task == "add" else ["Ada"]), queue=queue_name, job_id=task
            )


def statuses(shell: Shell) -> list[Status]:
    with TaskQueue(shell.folder / "app.db", num_workers=0) as queue:
        return [queue.get(job_id).status for job_id in ("add", "send")]


def test_store_queues_and_tasks_are_those_of_the_module(crews: Shell) -> None:
    shop(crews)
    submit(crews, "add", "send")
    done = crews.ok("worker", "start", "--import", "shop", "--until-empty")
    assert statuses(crews) == [Status.COMPLETED] * 2
    assert f"serves queues work and mail of store {crews.folder / 'app.db'}" in done.err
    assert "tasks: add, send" in done.err
    assert f"ready: 1 worker with 4 slots, on {crews.folder / 'app.db'}" in done.err
    assert not (crews.folder / "leasehold.db").exists()


def test_one_queue_of_several_is_named(crews: Shell) -> None:
    shop(crews, SHOP + '\nother = TaskQueue("other.db", num_workers=0)\n')
    submit(crews, "add", "send")
    refused = crews.run("worker", "start", "--import", "shop", "--until-empty")
    assert refused.code == Exit.USAGE
    assert "shop:queue and shop:other are in different stores: name one of them" in refused.err
    crews.ok("worker", "start", "--import", "shop:queue", "--until-empty", "--quiet")
    assert statuses(crews) == [Status.COMPLETED] * 2


def test_a_queue_in_another_store_is_refused_with_both_names(crews: Shell) -> None:
    shop(crews)
    refused = crews.run("worker", "start", "--store", "jobs.db", "--import", "shop")
    assert refused.code == Exit.USAGE
    assert f"the queue shop:queue is in the store {crews.folder / 'app.db'}" in refused.err
    assert f"this worker would serve {crews.folder / 'jobs.db'}" in refused.err
    assert not (crews.folder / "jobs.db").exists()


def test_a_queue_in_memory_cannot_be_served(crews: Shell) -> None:
    shop(crews, SHOP.replace("app.db", "memory://"))
    refused = crews.run("worker", "start", "--import", "shop")
    assert refused.code == Exit.USAGE
    assert "shop:queue is in memory, where no other process can reach it" in refused.err


def test_what_cannot_be_imported_shows_its_traceback(crews: Shell) -> None:
    shop(crews, "import json\njson.loads('no document')\n")
    refused = crews.run("worker", "start", "--import", "shop", "--quiet")
    assert refused.code == Exit.USAGE
    assert "the module 'shop' cannot be imported" in refused.err
    shown = refused.err.partition("(most recent call last):\n")[2]
    assert 'shop.py", line 2, in <module>' in shown.splitlines()[0]
    misspelt = crews.run("worker", "start", "--import", "shp")
    assert "or among the installed ones: did you mean 'shop'?" in misspelt.err
    missing = crews.run("worker", "start", "--import", "json:queue")
    assert "there is no TaskQueue 'json:queue'" in missing.err


def test_a_task_of_a_queue_that_is_not_served_is_warned_of(crews: Shell) -> None:
    shop(crews)
    done = crews.ok("worker", "start", "--import", "shop", "--queues", "work", "--until-empty")
    assert (
        "WARNING  task send belongs to queue 'mail', which this worker does not serve" in done.err
    )
    assert (
        "does not serve"
        not in crews.ok("worker", "start", "--import", "shop", "--queues", "*", "--until-empty").err
    )


def test_a_module_that_is_not_there_is_said_in_one_line(crews: Shell) -> None:
    refused = crews.run("worker", "start", "--import", "shoop", "--until-empty")
    assert f"there is no module 'shoop' in {crews.folder}" in refused.err
    assert "Traceback" not in refused.err
    (crews.folder / "broken.py").write_text("import shoop")
    broken = crews.run("worker", "start", "--import", "broken", "--until-empty")
    assert "No module named 'shoop'" in broken.err
    shown = broken.err.partition("Traceback (most recent call last):\n")[2].splitlines()
    assert 'broken.py", line 1, in <module>' in shown[0]


def test_a_module_without_tasks_is_told_of(crews: Shell) -> None:
    (crews.folder / "empty.py").write_text("")
    done = crews.ok("worker", "start", "--import", "empty", "--until-empty")
    file = crews.folder / "empty.py"
    assert f"empty ({file}): no TaskQueue and no task; this worker serves" in done.err
    file.write_text("from leasehold import TaskQueue\nqueue = TaskQueue('app.db', num_workers=0)\n")
    done = crews.ok("worker", "start", "--import", "empty", "--until-empty")
    assert f"no task is registered with this worker: empty ({file}) has a TaskQueue" in done.err


AWAY = """
import os
from leasehold.errors import StoreUnavailableError

if not os.path.exists("up"):
    raise StoreUnavailableError("the server is away")
"""
WAITS = "the worker cannot start yet, and waits for the store: the server is away"


@contextmanager
def waiting(shell: Shell) -> Iterator[subprocess.Popen[str]]:
    """A worker whose application finds its store away; it has said that it waits."""
    shop(shell, AWAY + SHOP)
    command = shell.command("worker", "start", "--import", "shop", "--until-empty")
    with subprocess.Popen(
        command, cwd=shell.folder, env=shell.environment, stderr=subprocess.PIPE, text=True
    ) as worker:
        try:
            assert worker.stderr is not None
            assert WAITS in worker.stderr.readline()
            yield worker
        finally:
            worker.kill()


def test_a_worker_waits_for_a_store_that_its_modules_find_away(crews: Shell) -> None:
    submit(crews, "add", "send")
    with waiting(crews) as worker:
        (crews.folder / "up").touch()
        assert worker.stderr is not None
        said = worker.stderr.read()
        assert worker.wait(60) == Exit.OK
    assert "waits for the store" not in said
    assert statuses(crews) == [Status.COMPLETED] * 2


def test_a_crew_goes_on_however_often_its_processes_found_the_store_away() -> None:
    """A server that is down over a weekend."""
    pauses = [pause_after(times) for times in (0, 1, 3, 20_000)]
    assert pauses == [1.0, 2.0, 8.0, PAUSE_SECONDS_MAX]


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, Exit.OK), (signal.SIGINT, Exit.INTERRUPTED)]
)
def test_a_signal_ends_the_wait_for_a_store(
    crews: Shell, number: signal.Signals, code: int
) -> None:
    with waiting(crews) as worker:
        worker.send_signal(number)
        assert worker.stderr is not None
        assert "Traceback" not in worker.stderr.read()
        assert worker.wait(60) == code


def test_an_error_of_ours_in_a_module_is_one_line(crews: Shell) -> None:
    shop(crews, "from leasehold import TaskQueue\n\nqueue = TaskQueue('nowhere/app.db')\n")
    refused = crews.run("worker", "start", "--import", "shop")
    assert refused.code == Exit.STORE
    [line] = refused.err.splitlines()
    assert "the module 'shop' cannot be imported: cannot open" in line
    assert line.endswith("create it first (shop.py, line 3)")


def test_a_store_that_goes_away_after_the_look_is_tried_again(crews: Shell) -> None:
    """The look at the application is the first import, and the worker's is the second."""
    shop(
        crews,
        """
import os
from leasehold.errors import StoreUnavailableError

number = len(os.listdir("imports"))
os.mkdir(f"imports/{number}")
if number == 1:
    raise StoreUnavailableError("the server is away")
"""
        + SHOP,
    )
    (crews.folder / "imports").mkdir()
    submit(crews, "add", "send")
    done = crews.ok("worker", "start", "--import", "shop", "--until-empty")
    assert "cannot be imported: the server is away (shop.py, line 8)" in done.err
    assert statuses(crews) == [Status.COMPLETED] * 2


def test_a_probe_that_is_interrupted_shows_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C ends its parent first, and nobody reads its answer any more."""
    ours, theirs = os.pipe()
    os.close(ours)
    plan = SimpleNamespace(modules=(), store_url="leasehold.db", utc=False)
    monkeypatch.setattr(probe, "read_plan", lambda: (plan, theirs))
    monkeypatch.setattr(probe, "log_to_stderr", lambda **_: None)
    monkeypatch.setattr(probe, "only_on_demand", lambda: None)
    with pytest.raises(SystemExit) as left:
        probe.main()
    assert left.value.code == Exit.INTERRUPTED

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(probe, "queues_in", interrupted)
    with pytest.raises(SystemExit) as left:
        probe.main()
    assert left.value.code == Exit.INTERRUPTED
    assert capfd.readouterr().err == ""
