"""`sweep`, `prune`, `backup`, `check`: looking after the store from the shell."""

from __future__ import annotations

import os
import shutil
from datetime import UTC, datetime

import apsw
import pytest

from cli.conftest import Shell
from cli.seed import run_here
from leasehold import TaskQueue
from leasehold.cli.exits import Exit
from leasehold.core.model.retention import CleanUp
from leasehold.env import SYSTEM, Env, ManualClock


def store_of(shell: Shell) -> TaskQueue:
    return TaskQueue(shell.folder / "leasehold.db", num_workers=0)


def test_sweep_takes_back_what_expired(shell: Shell) -> None:
    queue = store_of(shell)
    job = queue.submit("t")
    assert queue.lease(wait=0, lease_seconds=0.001) is not None
    report = shell.ok("sweep", "-o", "json").json
    assert (report["expired_found"], report["recovered"], report["dead"]) == (1, 1, 0)
    assert job.status().value == "pending"
    assert queue.lease(wait=0, lease_seconds=0.001) is not None
    # People are told what happened, and nothing of what did not.
    assert run_here(shell, "sweep").out == "1 job to run again\n"
    assert run_here(shell, "sweep").out == "no job was lost: nothing to take back\n"
    assert [each.count for each in queue.audit_log() if each.action == "sweep"] == [0, 1, 1]
    queue.shutdown()


def test_prune_does_what_is_due_and_asks_before_more(shell: Shell) -> None:
    queue = store_of(shell)
    for name, dies in (("good", False), ("bad", True)):
        queue.submit("t", job_id=name)
        lease = queue.lease(wait=0)
        assert lease is not None
        if dies:
            queue.nack(lease, requeue=False)
        else:
            queue.ack(lease)
    idle = shell.ok("prune", "-o", "json")
    assert "nothing was pruned" in idle.err
    assert (idle.json["run"], idle.json["pruned"]) == (None, 0)
    forced = shell.ok("prune", "--force", "-o", "json").json
    assert set(forced) == set(idle.json)
    assert set(forced) == {*CleanUp.__struct_fields__, "pruned"}
    assert (forced["mode"], forced["pruned"]) == ("force", 0)
    asked = shell.run("prune", "--emergency", "--dead")
    assert asked.code == Exit.USAGE
    assert "every job that has ended: 1 completed, 0 cancelled, 1 dead" in asked.err
    assert shell.ok("prune", "--emergency", "--dry-run").out == ""
    assert shell.run("prune", "--dead").code == Exit.USAGE
    assert [job.id for job in queue.search()] == ["bad", "good"]
    told = run_here(shell, "prune", "--force").out
    assert told == "nothing was pruned: no ended job is past its retention\n"
    told = run_here(shell, "prune", "--emergency", "--yes").out
    assert told.startswith("pruned 1 job (1 completed, 1 archived) in ")
    assert [job.id for job in queue.search()] == ["bad"]
    queue.shutdown()


def test_backup_never_overwrites_unasked(shell: Shell) -> None:
    queue = store_of(shell)
    queue.submit("t", job_id="one")
    made = shell.ok("backup", "copy.db", "-o", "json").json
    assert made == {
        "path": str(shell.folder / "copy.db"),
        "size_bytes": (shell.folder / "copy.db").stat().st_size,
    }
    queue.submit("t", job_id="two")
    refused = shell.run("backup", "copy.db")
    assert (refused.code, refused.out) == (Exit.CONFLICT, "")
    shell.ok("backup", "copy.db", "--force")
    assert [(each.action, each.detail) for each in queue.audit_log()] == [
        ("backup", {"path": made["path"]})
    ] * 2
    queue.shutdown()
    found = shell.ok("list", "--store", "copy.db", "-o", "json").json
    assert [job["id"] for job in found] == ["two", "one"]
    # Now the copy is a store in use, and a live store's place is not taken over.
    refused = shell.run("backup", "copy.db", "--force")
    assert refused.code == Exit.CONFLICT
    assert "is a store that is or was in use" in refused.err
    assert shell.run("backup", "leasehold.db", "--force").code == Exit.CONFLICT
    assert shell.run("backup", "no/such/folder/x.db").code == Exit.USAGE


def test_backup_replaces_nothing_but_a_plain_file(shell: Shell) -> None:
    store_of(shell).shutdown()
    (shell.folder / "real.db").write_text("kept")
    (shell.folder / "link.db").symlink_to("real.db")
    (shell.folder / "loose.db").symlink_to("nowhere.db")
    os.mkfifo(shell.folder / "pipe")
    for name in ("link.db", "loose.db", "pipe"):
        refused = shell.run("backup", name, "--force")
        assert refused.code == Exit.CONFLICT
        assert f"{name} is not a regular file, and only regular files are replaced" in refused.err
    assert (shell.folder / "link.db").read_text() == "kept"
    assert (shell.folder / "loose.db").is_symlink()
    assert (shell.folder / "pipe").is_fifo()


def test_check_says_ok_or_what_is_wrong(shell: Shell) -> None:
    queue = store_of(shell)
    queue.submit("t", job_id="one")
    queue.shutdown()
    assert shell.ok("check").out == "ok: no problem found\n"
    shutil.rmtree(shell.folder / "leasehold.db-run")
    db = apsw.Connection(str(shell.folder / "leasehold.db"))
    db.execute("UPDATE lane SET pending = 7")
    db.close()
    done = shell.run("check", "-o", "json")
    assert done.code == Exit.FAILURE
    assert done.json["ok"] is False
    assert "7 jobs are counted as pending, but there are 1" in done.json["problems"][0]


def test_check_sets_a_clock_back_that_was_ahead(shell: Shell) -> None:
    ahead = ManualClock(datetime(2140, 1, 1, tzinfo=UTC))
    queue = TaskQueue(shell.folder / "leasehold.db", num_workers=0, env=Env(clock=ahead))
    queue.submit("t", job_id="pending")
    assert queue.lease(wait=0, worker="w") is not None
    queue.shutdown()
    assert "--repair-clock" in shell.run("doctor").out
    refused = shell.run("check", "--repair-clock")
    assert (refused.code, "--yes" in refused.err) == (Exit.USAGE, True)
    assert "nothing was changed" in shell.ok("check", "--repair-clock", "--dry-run").err
    refused = shell.run("check", "--repair-clock", "--yes")
    assert refused.code == Exit.CONFLICT
    assert "1 running job" in refused.err
    queue = store_of(shell)
    [stuck] = queue.stuck(0)
    queue.store.recover_one("pending", stuck.lease_version, reset_attempts=False, reason="test")
    queue.shutdown()
    repair = shell.ok("check", "--repair-clock", "--yes", "-o", "json").json
    assert repair["before"].startswith("2140-01-01")
    assert repair["changed"]["job"] == 1
    assert "not ahead" in shell.ok("check", "--repair-clock", "--yes").err
    queue = store_of(shell)
    assert abs((queue.now() - SYSTEM.now()).total_seconds()) < 60
    queue.shutdown()
    assert shell.ok("check").out == "ok: no problem found\n"


@pytest.mark.parametrize("name", ["sweep", "check", "doctor", "prune"])
def test_a_store_in_memory_is_pointless_but_harmless(name: str, shell: Shell) -> None:
    assert shell.run(name, "--store", "memory://").code == Exit.OK
