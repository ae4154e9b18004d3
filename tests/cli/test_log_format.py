"""Log lines as JSON: one document each, and every line about a job names it."""

from __future__ import annotations

import json
import signal
import socket
import subprocess

import pytest

from cli.conftest import Shell
from cli.crews import crews
from cli.terminal import Terminal
from leasehold.cli.exits import Exit

__all__ = ["crews"]

TASKS = """
import logging
from leasehold import TaskQueue

queue = TaskQueue("leasehold.db", num_workers=0)

@queue.task(name="greet", max_retries=0)
def greet(who):
    logging.getLogger("shop").warning("hello \\x1b[31m%s", who)
    raise ValueError("no greeting")
"""


def test_a_worker_logs_json(crews: Shell) -> None:
    (crews.folder / "tasks.py").write_text(TASKS)
    crews.ok("enqueue", '{"id": "job-1", "task": "greet", "args": ["Ann"]}')
    done = crews.ok("worker", "start", "-i", "tasks", "--until-empty", "--log-format", "json")
    lines = [json.loads(line) for line in done.err.splitlines()]
    assert {"at", "level", "logger", "message", "job_id"} <= lines[0].keys()
    by_logger = {line["logger"]: line for line in lines if line["job_id"] == "job-1"}
    assert by_logger["shop"]["message"] == "hello \x1b[31mAnn"
    assert "is dead" in by_logger["leasehold.worker"]["message"]
    assert "attempt 1 starts" in by_logger["leasehold.worker.joblines"]["message"]
    assert any(line["job_id"] is None for line in lines)


def test_lines_of_child_processes_are_json_too(crews: Shell) -> None:
    (crews.folder / "tasks.py").write_text(TASKS)
    crews.ok("enqueue", '{"id": "job-1", "task": "greet", "args": ["Ann"]}')
    options = ("--executor", "processes", "--log-format", "json")
    done = crews.ok("worker", "start", "-i", "tasks", "--until-empty", *options)
    lines = [json.loads(line) for line in done.err.splitlines()]
    [said] = [line for line in lines if line["logger"] == "shop"]
    assert (said["message"], said["job_id"]) == ("hello \x1b[31mAnn", "job-1")


def test_plain_lines_name_the_job_too(crews: Shell) -> None:
    (crews.folder / "tasks.py").write_text(TASKS)
    crews.ok("enqueue", '{"id": "job-1", "task": "greet", "args": ["Ann"]}')
    done = crews.ok("worker", "start", "-i", "tasks", "--until-empty")
    [line] = [line for line in done.err.splitlines() if "hello" in line]
    assert line.endswith("WARNING  hello \\x1b[31mAnn (job job-1)")


@pytest.mark.parametrize("setting", ["", "1"], ids=["colours", "NO_COLOR"])
def test_levels_are_in_colour_on_a_terminal(crews: Shell, setting: str) -> None:
    (crews.folder / "tasks.py").write_text(TASKS)
    crews.ok("enqueue", '{"id": "job-1", "task": "greet", "args": ["Ann"]}')
    command = crews.command("worker", "start", "-i", "tasks", "--until-empty")
    environment = {**crews.environment, "NO_COLOR": setting}
    with Terminal(command, cwd=crews.folder, env=environment, columns=200) as terminal:
        assert "INFO     job job-1 (greet): attempt 1 starts" in terminal.see("has stopped")
        assert terminal.end() == Exit.OK
    coloured = {b"\x1b[32mINFO ", b"\x1b[33mWARNING ", b"\x1b[31mERROR "}
    assert {each for each in coloured if each in terminal.received} == (
        set() if setting else coloured
    )


def test_a_server_logs_json(shell: Shell) -> None:
    server = subprocess.Popen(
        shell.command("serve", "--port", "0", "--log-format", "json"),
        cwd=shell.folder,
        env=shell.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    port = int(server.stdout.readline().partition("http://127.0.0.1:")[2].split()[0])
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(b"this is no request\r\n\r\n")
        assert connection.recv(4096).startswith(b"HTTP/1.1 400")
    server.send_signal(signal.SIGTERM)
    _, said = server.communicate(timeout=60)
    [access, line] = [json.loads(line) for line in said.splitlines()]
    assert "No client has access yet" in access["message"]
    assert (line["level"], line["job_id"]) == ("WARNING", None)
    assert "Invalid HTTP request" in line["message"]
