"""Figures for Prometheus, without a service: printed, or on a worker's own port."""

from __future__ import annotations

import http.client
import re
import socket

from cli.conftest import Shell
from cli.crews import crews
from leasehold.cli.exits import Exit
from leasehold.observe.files import ALERT_RULES, DASHBOARD, shipped
from support import promtool
from support.exposed import exposed

__all__ = ["crews"]


def start(crews: Shell, *arguments: str) -> int:
    """Start a worker in the background; the port of its metrics."""
    log = crews.folder / "workers.log"
    asked = ("--background", "--log", str(log), "--metrics-port", "0")
    crews.ok("worker", "start", *asked, *arguments)
    found = re.search(r"http://127\.0\.0\.1:(\d+)/metrics", log.read_text())
    assert found, log.read_text()
    return int(found[1])


def get(port: int, path: str = "/metrics", host: str = "localhost") -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", path, headers={"Host": host})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, body


def test_they_are_printed(shell: Shell) -> None:
    shell.ok("init")
    shell.ok("enqueue", "--queue", "mail", "--", "echo", "hello")
    text = shell.ok("metrics").out.encode()
    assert exposed(text).value("queue_depth", queue="mail", status="pending") == 1
    promtool.check("metrics", stdin=text)


def test_without_a_store_there_are_none(shell: Shell) -> None:
    done = shell.run("metrics")
    assert (done.code, done.out) == (6, "")
    assert "there is no store" in done.err


def test_the_files_are_printed_without_a_store(shell: Shell) -> None:
    assert shell.ok("metrics", "--rules").out == shipped(ALERT_RULES)
    assert shell.ok("metrics", "--dashboard").out == shipped(DASHBOARD)
    assert shell.run("metrics", "--rules", "--dashboard").code == 2
    assert list(shell.folder.iterdir()) == []


def test_a_worker_has_a_port_of_its_own(crews: Shell) -> None:
    port = start(crews, "--allow-commands")
    crews.ok("enqueue", "--id", "job", "--", "echo", "hello")
    crews.ok("wait", "job")
    status, body = get(port)
    assert status == 200
    found = exposed(body)
    assert found.value("jobs_completed_total", queue="default", status="completed") == 1
    assert found.value("active_workers", queue="default") == 1
    assert get(port, "/elsewhere")[0] == 404
    assert get(port, host=f"127.0.0.1:{port}")[0] == 200
    assert get(port, host="evil.example")[0] == 403
    crews.ok("worker", "stop")


def test_a_port_that_is_taken_is_said(crews: Shell) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        crews.ok("init")
        done = crews.run("worker", "start", "--metrics-port", str(port))
        assert done.code == 1
        assert f"cannot listen on 127.0.0.1 port {port} for --metrics-port" in done.err
        assert "Traceback" not in done.err
        behind = crews.run("worker", "start", "--background", "--metrics-port", str(port))
        assert behind.code == 1
        assert f"cannot listen on 127.0.0.1 port {port}" in behind.err


def test_they_are_no_json(shell: Shell) -> None:
    shell.ok("init")
    refused = shell.run("-o", "json", "metrics")
    assert refused.code == Exit.USAGE
    assert refused.out == ""
    assert "stats -o json" in refused.err
