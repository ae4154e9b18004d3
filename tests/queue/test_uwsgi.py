"""A real uWSGI: it loads the application in its master process, and then forks in C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from leasehold import TaskQueue

from .test_gunicorn import REQUESTS, WAIT, ask

SERVER = Path(sys.executable).with_name("uwsgi")
APPLICATION = """
import json, os
from leasehold import LeaseholdError, TaskQueue

queue = TaskQueue("jobs.db", num_workers=2)
queue.create_queue("mail", if_exists="keep", max_concurrency=2)

@queue.task(name="where")
def where_it_runs(number: int) -> list[int]:
    return [number, os.getpid()]

def application(environ, start_response):
    number = int(environ["PATH_INFO"].strip("/"))
    try:
        answer = {"result": where_it_runs.submit(number).result(timeout=60)}
    except LeaseholdError as error:
        answer = {"error": str(error)}
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps(answer).encode()]
"""

pytestmark = pytest.mark.skipif(not SERVER.exists(), reason="uWSGI is not installed")


@contextmanager
def serving(
    folder: Path, *options: str, before: str = "", more: str = ""
) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A server of the application with code around it, in two processes; its socket's path."""
    (folder / "shop.py").write_text(before + APPLICATION + more)
    server = subprocess.Popen(
        [
            *(str(SERVER), "--master", "--processes", "2", "--enable-threads", "--die-on-term"),
            *("--http-socket", "web.sock", "--wsgi-file", "shop.py", *options),
        ],
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert server.stderr is not None
    try:
        log: list[str] = []
        # Of applications that are loaded late, once they are.
        while sum(("WSGI app 0" in each) for each in log) < (2 if "--lazy-apps" in options else 1):
            log.append(server.stderr.readline())
            assert log[-1], "".join(log)
        reader = threading.Thread(target=server.stderr.read, daemon=True)
        reader.start()
        yield os.path.relpath(folder / "web.sock"), server
    finally:
        # Its processes too, whatever each is doing.
        with suppress(ProcessLookupError):  # It was stopped.
            os.killpg(server.pid, signal.SIGKILL)
        server.wait(WAIT)
    reader.join(WAIT)
    server.stderr.close()


@pytest.mark.parametrize("options", [(), ("--lazy-apps",), ("--py-call-osafterfork",)], ids=str)
def test_every_process_has_workers_of_its_own(tmp_path: Path, options: tuple[str, ...]) -> None:
    with serving(tmp_path, *options) as (path, server):
        answers = [ask(path, number) for number in range(REQUESTS)]
    assert [each["result"][0] for each in answers] == list(range(REQUESTS))
    assert server.pid not in {each["result"][1] for each in answers}


def test_jobs_that_are_left_or_submitted_in_the_master_run_with_no_request(tmp_path: Path) -> None:
    with TaskQueue(tmp_path / "jobs.db", num_workers=0) as queue:
        left = queue.submit("where", 1)
        with serving(tmp_path, more="\nwhere_it_runs.options(job_id='of-master').submit(2)\n") as (
            _,
            server,
        ):
            ran = [queue.get_result(job, timeout=WAIT) for job in (left.id, "of-master")]
            statuses = queue.check()
    assert [number for number, _ in ran] == [1, 2]
    assert server.pid not in {pid for _, pid in ran}
    assert not statuses


def test_start_in_the_master_counts_where_workers_start_by_hand_only(tmp_path: Path) -> None:
    more = """
by_hand = TaskQueue("by-hand.db", num_workers=1, autostart=False)
by_hand.task(name="where")(os.getpid)
by_hand.start()
"""
    with TaskQueue(tmp_path / "by-hand.db", num_workers=0) as queue:
        job = queue.submit("where")
        with serving(tmp_path, more=more):
            assert queue.get_result(job, timeout=WAIT)


def test_functions_that_the_application_gave_to_uwsgi_before_stay(tmp_path: Path) -> None:
    before = """
import uwsgi
called = []
uwsgi.post_fork_hook = lambda: called.append(1)
uwsgi.spooler = mine = lambda arguments: -2
"""
    more = """
def application(environ, start_response):
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps({"result": [len(called), uwsgi.spooler is mine]}).encode()]
"""
    with serving(tmp_path, before=before, more=more) as (path, _):
        assert ask(path, 1)["result"] == [1, True]


def test_a_process_that_was_killed_is_replaced_by_one_that_works(tmp_path: Path) -> None:
    with serving(tmp_path, "--processes", "1") as (path, _):
        [_, first] = ask(path, 1)["result"]
        os.kill(first, signal.SIGKILL)
        [_, second] = ask(path, 2)["result"]
    assert first != second


def test_ids_differ_between_the_processes(tmp_path: Path) -> None:
    """A child that went on with the random numbers of the master would repeat another's ids."""
    more = """
def application(environ, start_response):
    start_response("200 OK", [("Content-Type", "application/json")])
    numbers = [queue._env.random.getrandbits(64) for _ in range(3)]
    return [json.dumps({"pid": os.getpid(), "numbers": numbers}).encode()]
"""
    numbers: dict[int, set[int]] = {}
    with serving(tmp_path, more=more) as (path, _):
        for number in range(REQUESTS):
            answer = ask(path, number)
            numbers.setdefault(answer["pid"], set()).update(answer["numbers"])
    every = [number for each in numbers.values() for number in each]
    assert len(every) == len(set(every)) == 3 * REQUESTS


def test_a_connection_left_open_in_the_master_is_refused_with_a_remedy(tmp_path: Path) -> None:
    with serving(tmp_path, more="\nconnection = queue.connect()\n") as (path, _):
        answer = ask(path, 1)
    assert "a connection of the application to it (queue.connect()) was open" in str(answer)
    assert "close your connections before uWSGI forks" in str(answer)
    assert "--lazy-apps" in str(answer)


WITHOUT_HOOKS = """
import ctypes

class Bare(ctypes.CDLL):
    def __getattr__(self, name):
        if "atfork" in name:
            raise AttributeError(name)
        return super().__getattr__(name)

ctypes.CDLL = Bare
"""


def test_where_the_c_library_has_no_hooks_the_application_loads_and_is_refused_its_store(
    tmp_path: Path,
) -> None:
    with serving(tmp_path, before=WITHOUT_HOOKS) as (path, _):
        assert "lazy-apps" in ask(path, 1)["error"]


@pytest.mark.parametrize("options", [(), ("--threads", "4")])
def test_it_stops_by_its_own_signals(tmp_path: Path, options: tuple[str, ...]) -> None:
    """uWSGI handles them in C: Python must not put its own handlers in their place."""
    more = "\nimport sys\nsys.stderr = open('told.txt', 'a', buffering=1)\n"
    # A worker that does not hear that it is to stop is waited for until then.
    mercy = ("--worker-reload-mercy", "600")
    with serving(tmp_path, *options, *mercy, more=more) as (path, server):
        for number in range(REQUESTS):
            assert ask(path, number)["result"][0] == number
        server.send_signal(signal.SIGINT)
        server.wait(WAIT)
    assert "KeyboardInterrupt" not in (tmp_path / "told.txt").read_text()
