"""A real prefork server: the queue is made before gunicorn forks, and used in every child."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("gunicorn")

WAIT = 120
REQUESTS = 12
APPLICATION = """
import json, os
from leasehold import TaskQueue

queue = TaskQueue("jobs.db", num_workers=2)

@queue.task
def where_it_runs(number: int) -> list[int]:
    return [number, os.getpid()]

# The store is open, and its threads run, before there are children.
first = queue.submit("of another program")

def application(environ, start_response):
    number = int(environ["PATH_INFO"].strip("/"))
    job = where_it_runs.submit(number)
    answer = {"served_by": os.getpid(), "result": job.result(timeout=60), "first": first.job().id}
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps(answer).encode()]
"""


class Connection(http.client.HTTPConnection):
    """To a server on a socket in the file system."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=WAIT)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(WAIT)
        self.sock.connect(self._path)


def ask(path: str, number: int) -> dict[str, Any]:
    connection = Connection(path)
    connection.request("GET", f"/{number}")
    answer: dict[str, Any] = json.loads(connection.getresponse().read())
    connection.close()
    return answer


def test_a_queue_works_in_every_child_of_gunicorn_with_preload(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(APPLICATION)
    server = subprocess.Popen(
        [
            *(sys.executable, "-m", "gunicorn", "--preload", "--workers", "2"),
            *("--bind", "unix:web.sock", "--timeout", str(WAIT), "shop:application"),
        ],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert server.stderr is not None
    try:
        log: list[str] = []
        while sum("Booting worker" in each for each in log) < 2:
            log.append(server.stderr.readline())
            assert log[-1], "".join(log)
        # It must not wait for somebody to read what it says.
        reader = threading.Thread(target=server.stderr.read, daemon=True)
        reader.start()
        # A path that is too long for a socket would be one of pytest's.
        path = os.path.relpath(tmp_path / "web.sock")
        answers = [ask(path, number) for number in range(REQUESTS)]
    finally:
        server.send_signal(signal.SIGTERM)
        try:
            server.wait(WAIT)
        finally:
            server.kill()
    reader.join(WAIT)
    server.stderr.close()
    assert [each["result"][0] for each in answers] == list(range(REQUESTS))
    # The workers of the queue are those of the parent, and the children have none.
    assert {each["result"][1] for each in answers} == {server.pid}
    assert server.pid not in {each["served_by"] for each in answers}
    assert len({each["first"] for each in answers}) == 1
