"""Before something is destroyed you are asked, and Ctrl-C is no yes."""

from __future__ import annotations

import pytest

from cli.conftest import Shell
from cli.seed import kill, store_of
from cli.terminal import Terminal
from leasehold.cli.exits import Exit

ASKED = {
    "cancel": ("cancel", "--queue", "mail"),
    "queue purge": ("queue", "purge", "mail"),
    "queue delete": ("queue", "delete", "mail", "--force"),
    "dlq purge": ("dlq", "purge", "--all"),
    "dlq purge JOB": ("dlq", "purge", "gone"),
    "retry": ("retry", "--all"),
}


def seed(shell: Shell) -> None:
    with store_of(shell) as queue:
        queue.submit("t", job_id="gone")
        kill(queue)
        queue.submit("t", job_id="letter", queue="mail")


def state(shell: Shell) -> object:
    with store_of(shell) as queue:
        return queue.get_queue_stats(), queue.list_queues(), queue.audit_log()


@pytest.mark.parametrize("command", ASKED)
def test_ctrl_c_at_the_question_changes_nothing(shell: Shell, command: str) -> None:
    seed(shell)
    before = state(shell)
    arguments = shell.command(*ASKED[command])
    with Terminal(arguments, cwd=shell.folder, env=shell.environment) as terminal:
        terminal.see("Really", "[y/N]")
        terminal.press("\x03")
        assert terminal.end() == Exit.INTERRUPTED
        assert terminal.is_as_before
        assert "Traceback" not in terminal.text
        assert "interrupted: nothing was changed" in terminal.text
    assert state(shell) == before


@pytest.mark.parametrize("answer", ["n\n", "\n", "\x04"], ids=["no", "enter", "ctrl-d"])
def test_only_a_yes_is_a_yes(shell: Shell, answer: str) -> None:
    seed(shell)
    before = state(shell)
    arguments = shell.command("dlq", "purge", "--all")
    with Terminal(arguments, cwd=shell.folder, env=shell.environment) as terminal:
        terminal.see("[y/N]")
        terminal.press(answer)
        assert terminal.end() in (Exit.FAILURE, Exit.INTERRUPTED)
    assert state(shell) == before
