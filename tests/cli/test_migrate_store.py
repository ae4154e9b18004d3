"""`migrate-store` from the shell; `tests/stores/test_moving.py` has what it does to stores."""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from cli.conftest import Shell
from leasehold import TaskQueue
from leasehold.cli.exits import Exit
from leasehold.cli.root import root
from leasehold.errors import (
    InvalidTransitionError,
    StoreMovedError,
    StoreUnavailableError,
    UnsupportedError,
)


def test_from_one_file_to_another_and_reopened(shell: Shell) -> None:
    with TaskQueue(shell.folder / "leasehold.db", num_workers=0) as queue:
        queue.submit("t", job_id="first")
    moved = shell.ok("-o", "json", "migrate-store", "leasehold.db", "sqlite:///new.db")
    tables = {each["name"]: each for each in moved.json["tables"]}
    assert tables["job"]["rows"] == 1
    assert len(tables["job"]["checksum"]) == 64
    assert "verified job: 1 row\n" in moved.err
    assert "now change the URL of the store" in moved.err
    again = shell.ok("migrate-store", "leasehold.db", "sqlite:///new.db")
    assert "this move was completed before" in again.err
    with TaskQueue(shell.folder / "new.db", num_workers=0) as queue:
        assert queue.get("first") is not None
        queue.submit("t")

    refused = shell.run("enqueue", "--", "echo", "no")
    assert refused.code == Exit.STORE
    assert "was moved to" in refused.err
    worker = shell.run("worker", "start", "--until-empty")
    assert worker.code == Exit.STORE
    assert "was moved to" in worker.err
    [nobody, told] = shell.ok("status").err.splitlines()
    assert nobody == "no worker is running", "nobody is sent to a store that was moved"
    assert "was moved to" in told
    assert "was moved to" in shell.run("doctor").out
    refused = shell.run("migrate-store", "--reopen", "--yes", "leasehold.db")
    assert refused.code == Exit.CONFLICT
    assert "which replaced it" in refused.err
    assert "was moved to" in shell.ok("status").err
    shell.ok("migrate-store", "--reopen", "--force", "--yes", "leasehold.db")
    assert "was moved" not in shell.ok("status").err
    with TaskQueue(shell.folder / "leasehold.db", num_workers=0) as queue:
        queue.submit("t")


def test_tables_of_the_application_are_told_as_not_moved(shell: Shell) -> None:
    """They stay in the source, which accepts no writes any more."""
    with TaskQueue(shell.folder / "leasehold.db", num_workers=0) as queue:
        queue.submit("t")
        with queue.connect() as connection:
            connection.execute("CREATE TABLE app_order (id INTEGER PRIMARY KEY, text)")
    told = shell.ok("migrate-store", "leasehold.db", "sqlite:///new.db").err
    assert "not moved: 1 table of your own in leasehold.db (app_order); copy it yourself\n" in told
    again = shell.ok("-o", "json", "migrate-store", "new.db", "sqlite:///third.db")
    assert again.json["not_moved"] == []


KILLED_ONCE_SEALED = """
import os, signal
from leasehold.connect import connect
from leasehold.core.rules import moving
from leasehold.env import SYSTEM

moving._seal_target = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
moving.move(connect("leasehold.db"), connect("new.db"), env=SYSTEM, actor="test")
"""


def test_killed_right_after_the_source_was_sealed_it_says_how_to_go_back(shell: Shell) -> None:
    with TaskQueue(shell.folder / "leasehold.db", num_workers=0) as queue:
        queue.submit("t", job_id="first")
    killed = subprocess.run(
        [sys.executable, "-c", KILLED_ONCE_SEALED], cwd=shell.folder, check=False
    )
    assert killed.returncode == -signal.SIGKILL
    refused = shell.run("enqueue", "--", "echo", "no")
    assert refused.code == Exit.STORE
    named = re.search(r"`queuectl (migrate-store --reopen [^`]+)`", refused.err.replace("\n", " "))
    assert named is not None, refused.err
    shell.ok(*shlex.split(named[1]), "--yes")
    shell.ok("enqueue", "--", "echo", "yes")
    with TaskQueue(shell.folder / "leasehold.db", num_workers=0) as queue:
        assert queue.get("first") is not None
        assert queue.store.stats().submitted == 2


def test_what_makes_no_sense_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with TaskQueue("jobs.db", num_workers=0) as queue:
        queue.queues()

    def run(*arguments: str) -> tuple[int, str, BaseException | None]:
        ran = CliRunner().invoke(root, ["migrate-store", *arguments])
        return ran.exit_code, ran.output, ran.exception

    assert isinstance(run("none.db", "new.db")[2], StoreUnavailableError)
    for target in ("memory://", "redis://cache"):
        assert isinstance(run("jobs.db", target)[2], UnsupportedError)
    assert run("jobs.db")[0] == Exit.USAGE
    assert run("--reopen", "jobs.db", "new.db")[0] == Exit.USAGE
    assert "nothing to do" in run("--reopen", "jobs.db")[1]
    assert run("jobs.db", "new.db")[0] == Exit.OK
    assert isinstance(run("--reopen", "jobs.db")[2], InvalidTransitionError)
    assert run("--force", "jobs.db", "new.db")[0] == Exit.USAGE
    # Without a terminal nobody can be asked.
    code, told, _ = run("--reopen", "--force", "jobs.db")
    assert code == Exit.USAGE
    assert "pass --yes" in told
    assert "--dry-run" not in told
    with TaskQueue("jobs.db", num_workers=0) as queue, pytest.raises(StoreMovedError):
        queue.submit("t")
