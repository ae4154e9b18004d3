"""A real uWSGI: it forks in C, so that no hook of Python can close a store before."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from .test_gunicorn import REQUESTS, WAIT, ask

SERVER = Path(sys.executable).with_name("uwsgi")
APPLICATION = """
import json, os
from leasehold import LeaseholdError, TaskQueue

queue = TaskQueue("jobs.db", num_workers=2)

@queue.task
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
def serving(folder: Path, *options: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A server with two processes; the path of its socket."""
    (folder / "shop.py").write_text(APPLICATION)
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
        while sum(("WSGI app 0" in each) for each in log) < (2 if options else 1):
            log.append(server.stderr.readline())
            assert log[-1], "".join(log)
        reader = threading.Thread(target=server.stderr.read, daemon=True)
        reader.start()
        yield os.path.relpath(folder / "web.sock"), server
    finally:
        # Its processes too, whatever each is doing.
        os.killpg(server.pid, signal.SIGKILL)
        server.wait(WAIT)
    reader.join(WAIT)
    server.stderr.close()


def test_with_lazy_apps_every_process_has_a_queue_of_its_own(tmp_path: Path) -> None:
    with serving(tmp_path, "--lazy-apps") as (path, server):
        answers = [ask(path, number) for number in range(REQUESTS)]
    assert [each["result"][0] for each in answers] == list(range(REQUESTS))
    assert server.pid not in {each["result"][1] for each in answers}


def test_a_queue_made_before_it_forks_is_refused_with_a_remedy(tmp_path: Path) -> None:
    with serving(tmp_path) as (path, _):
        answer = ask(path, 1)
    assert "uWSGI forked it after the queue was made: start uWSGI with --lazy-apps" in str(answer)
