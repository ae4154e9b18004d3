"""`top` on a terminal: what is seen, what keys do, and a terminal that is left as it was."""

from __future__ import annotations

import re
import signal
import sys

import pytest

from cli.conftest import Shell
from cli.seed import golden, store_of
from cli.terminal import Terminal
from cli.test_queues import FIGURES
from leasehold import QueueState
from leasehold.cli.exits import Exit

LEAVES_FULL_SCREEN = b"\x1b[?1049l"
CRASH = """
from leasehold.cli import screen
from leasehold.cli.main import main

def press(self, key):
    raise RuntimeError("a bug")

screen.View.press = press
main(["top"])
"""


def watch(shell: Shell, *options: str, columns: int = 80, lines: int = 24) -> Terminal:
    return Terminal(
        shell.command("top", *options),
        cwd=shell.folder,
        env=shell.environment,
        columns=columns,
        lines=lines,
    )


def test_a_look_and_a_few_keys(shell: Shell) -> None:
    with store_of(shell) as queue:
        queue.submit("work", queue="mail")
        queue.submit("work", queue="reports")
        with watch(shell, "--interval", "100ms") as terminal:
            terminal.see("> mail", "pending 2", "q quit", "no worker is running")
            queue.submit("work", queue="mail")
            terminal.see("pending 3")
            terminal.press("j")
            terminal.see("> reports")
            terminal.press(" ")
            terminal.see("pause queue 'reports'? y/n")
            terminal.press("y")
            terminal.see("queue 'reports' is paused")
            assert queue.queue_info("reports").state is QueueState.PAUSED
            terminal.press(" y")
            terminal.see("queue 'reports' is active")
            terminal.press("p")
            terminal.see("held")
            queue.submit("work", queue="mail")
            terminal.press("s")
            assert "pending 3" in terminal.see("by pending")
            terminal.press("p")
            terminal.see("pending 4", "every 0.1 s")
            terminal.resize(50, 12)
            terminal.see("QUEUE", "PENDING")
            terminal.press("q")
            assert terminal.end() == Exit.OK
            assert terminal.is_as_before
            assert LEAVES_FULL_SCREEN in terminal.received


@pytest.mark.parametrize("how", ["ctrl-c", "sigterm", "sighup"])
def test_the_terminal_is_left_as_it_was(shell: Shell, how: str) -> None:
    shell.ok("init")
    with watch(shell, "--interval", "100ms") as terminal:
        terminal.see("there is no queue yet")
        assert not terminal.is_as_before
        if how == "ctrl-c":
            terminal.press("\x03")
            assert terminal.end() == Exit.INTERRUPTED
        elif how == "sigterm":
            terminal.process.send_signal(signal.SIGTERM)
            assert terminal.end() == 128 + signal.SIGTERM
        else:
            # Ctrl-Z would leave a full screen behind, so it does nothing.
            terminal.press("\x1a")
            terminal.process.send_signal(signal.SIGHUP)
            assert terminal.end() == 128 + signal.SIGHUP
        assert terminal.is_as_before
        assert LEAVES_FULL_SCREEN in terminal.received


def test_the_terminal_is_left_as_it_was_after_a_crash(shell: Shell) -> None:
    shell.ok("init")
    crash = [sys.executable, "-c", CRASH]
    with Terminal(crash, cwd=shell.folder, env=shell.environment) as terminal:
        terminal.see("there is no queue yet")
        terminal.press("s")
        assert terminal.end() == 1
        assert terminal.is_as_before
        before, _, after = terminal.received.partition(LEAVES_FULL_SCREEN)
        assert (b"a bug" in before, b"RuntimeError: a bug" in after) == (False, True)


def test_a_narrow_terminal(shell: Shell) -> None:
    with store_of(shell) as queue:
        queue.submit("work")
    with watch(shell, "--interval", "100ms", columns=50, lines=12) as terminal:
        terminal.see("> default")
        heading = next(line for line in terminal.text.splitlines() if "QUEUE " in line)
        assert heading.split() == ["QUEUE", "STATE", "PENDING", "RUNNING", "WAITING"]
        terminal.press("q")
        assert terminal.end() == Exit.OK


def test_off_a_terminal_it_is_one_look(shell: Shell) -> None:
    with store_of(shell) as queue:
        queue.submit("work", queue="mail")
    lines = golden(shell.ok("top").out).splitlines()
    assert re.match(r"leasehold  (/\S+/)?leasehold\.db ", lines[0])
    rates = "submitted 0.0/s  completed 0.0/s  failed 0.0/s  in the last 5m"
    assert lines[1:3] == ["pending 1  running 0", rates]
    assert lines[5].split() == [
        ">", "mail", "active", "1", "0", "0", "0", "0.0", "0s", "-", "-", "-",
    ]  # fmt: skip
    assert "q quit" not in "".join(lines)
    document = shell.ok("top", "-o", "json").json
    assert list(document) == [
        "store", "at", "window_seconds", "rates", "running", "jobs", "queues", "workers",
        "failures", "warnings",
    ]  # fmt: skip
    assert list(document["queues"][0]) == [
        "queue", "state", *FIGURES, "throughput_per_second", "error_rate",
        "oldest_pending_age_seconds", "wait_p95_seconds", "run_p95_seconds",
    ]  # fmt: skip
    assert shell.run("top", "--interval", "0").code == Exit.USAGE
    assert shell.run("top", "--window", "3d").code == Exit.USAGE


def test_once_and_on_a_dumb_terminal(shell: Shell) -> None:
    shell.ok("init")
    with watch(shell, "--once") as terminal:
        assert terminal.end() == Exit.OK
        assert "there is no queue yet" in terminal.text
        assert LEAVES_FULL_SCREEN not in terminal.received
