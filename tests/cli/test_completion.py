"""`completion`: what a shell gets, and what it is offered while somebody types."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cli.conftest import Shell
from leasehold import Every, TaskQueue
from leasehold.cli.commands import COMMANDS


@pytest.mark.parametrize("kind", ["bash", "zsh", "fish"])
def test_the_script_is_for_both_names(kind: str, shell: Shell) -> None:
    script = shell.ok("completion", kind).out
    assert "_QUEUECTL_COMPLETE" in script
    assert "_LEASEHOLD_COMPLETE" in script
    assert shell.ok("completion", kind, "-o", "json").json == {"shell": kind, "script": script}


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
def test_bash_understands_it(shell: Shell) -> None:
    script = shell.ok("completion", "bash").out + "\ncomplete -p queuectl leasehold\n"
    done = subprocess.run(["bash"], input=script, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert "_queuectl_completion queuectl" in done.stdout


def offered(shell: Shell, *words: str) -> list[str]:
    """What bash would be told for these words, the last of them being typed."""
    done = subprocess.run(
        [sys.executable, "-m", "leasehold.cli"],
        cwd=shell.folder,
        env={
            **shell.environment,
            "COMP_WORDS": " ".join(("leasehold", *words)),
            "COMP_CWORD": str(len(words)),
            "_LEASEHOLD_COMPLETE": "bash_complete",
        },
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return [line.partition(",")[2] for line in done.stdout.splitlines() if line]


def test_commands_options_and_choices(shell: Shell) -> None:
    assert offered(shell, "s") == [name for name in COMMANDS if name.startswith("s")]
    assert offered(shell, "schedule", "re") == ["remove", "resume"]
    assert "--reset-attempts" in offered(shell, "dlq", "retry", "--re")
    assert offered(shell, "completion", "z") == ["zsh"]


def test_names_in_the_store(shell: Shell, tmp_path: Path) -> None:
    assert offered(shell, "schedule", "show", "") == []
    assert list(tmp_path.iterdir()) == []  # To ask makes no store.
    queue = TaskQueue(tmp_path / "leasehold.db", num_workers=0)
    queue.schedule("nightly", "t", Every(60))
    queue.schedule("two words", "t", Every(60))
    queue.submit("t", queue="mail")
    queue.submit("t", queue="media")
    queue.shutdown()
    assert offered(shell, "schedule", "show", "") == ["nightly"]
    assert offered(shell, "dlq", "list", "--queue", "me") == ["media"]
    assert offered(shell, "dlq", "list", "--queue", "mail,m") == ["mail,mail", "mail,media"]


def test_naming_commands_imports_none_of_them(shell: Shell) -> None:
    probe = "import sys; from leasehold.cli.root import root; import click\n"
    probe += "ctx = click.Context(root)\nassert root.shell_complete(ctx, 'd')\n"
    probe += "print('leasehold.cli.doctor' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.parametrize("words", [("help", ""), ("help", "qu"), ("queue", "help", "")], ids=str)
def test_help_as_a_word_offers_nothing_and_fails_nobody(
    shell: Shell, words: tuple[str, ...]
) -> None:
    assert not any(" " in each for each in offered(shell, *words))
