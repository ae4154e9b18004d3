"""`operations`: what orders by filter leave behind; stop, continue, undo, Ctrl-C."""

from __future__ import annotations

from typing import Any

import pytest

from cli.conftest import Shell
from cli.seed import run_here, store_of
from leasehold import CancelAll, Operation, PurgeAll
from leasehold.cli.exits import Exit
from leasehold.core.rules.operations import Advance
from leasehold.queue.operations import Operations


def submit(shell: Shell, jobs: int = 3) -> None:
    with store_of(shell) as queue:
        for number in range(jobs):
            queue.submit("work", job_id=f"job-{number}")


def begun(shell: Shell) -> Operation:
    """An operation of a process that did not get far."""
    with store_of(shell) as queue:
        operation = queue.operations.begin(queue.operations.plan(CancelAll("enough")))
        return queue.store.advance_operation(operation.id, limit=1).operation


def test_an_order_by_filter_is_an_operation(shell: Shell) -> None:
    submit(shell)
    assert "there are no operations yet" in run_here(shell, "operations", "list").err
    run_here(shell, "cancel", "--all", "--yes")
    (known,) = run_here(shell, "operations", "list", "-o", "json").json
    assert (known["verb"], known["state"], known["changed"]) == ("cancel", "done", 3)
    shown = run_here(shell, "operations", "show", known["id"]).out
    assert "3 pending" in shown or "pending" in shown
    listed = run_here(shell, "operations", "list").out
    assert known["id"] in listed
    undone = run_here(shell, "operations", "undo", known["id"], "--yes")
    assert undone.out == "taken back 3 jobs of 3\n"
    assert run_here(shell, "operations", "undo", known["id"], "--yes").code == Exit.CONFLICT
    with store_of(shell) as queue:
        assert queue.get_queue_stats()["pending"] == 3


def test_what_is_skipped_is_said_before(shell: Shell) -> None:
    submit(shell)
    with store_of(shell) as queue:
        lease = queue.lease()
        assert lease is not None
        queue.ack(lease)
    dry = run_here(shell, "cancel", "--task", "work", "--dry-run").err
    assert "2 jobs: 2 pending" in dry
    assert "left alone: 1 completed (they have already ended)" in dry
    assert "can be undone" in dry
    purge = run_here(shell, "queue", "purge", "default", "--dry-run").err
    assert "cannot be undone" in purge


def test_an_interrupted_one_is_continued_or_stopped(shell: Shell) -> None:
    submit(shell)
    left = begun(shell)
    done = run_here(shell, "operations", "continue", left.id)
    assert done.out == "cancelled 3 jobs of 3\n"
    assert "resume_operation" in run_here(shell, "audit").out
    assert run_here(shell, "operations", "continue", left.id).code == Exit.CONFLICT
    assert run_here(shell, "operations", "stop", left.id).code == Exit.CONFLICT
    assert run_here(shell, "operations", "stop", "nobody").code == Exit.NOT_FOUND
    run_here(shell, "retry", "--status", "cancelled", "--yes")
    left = begun(shell)
    stopped = run_here(shell, "operations", "stop", left.id, "-o", "json").json
    assert (stopped["state"], stopped["changed"], stopped["planned"]) == ("stopped", 1, 3)


def test_ctrl_c_stops_between_two_writes(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    submit(shell)
    carry_out = Operations.carry_out

    def interrupted(self: Operations, operation: Operation, **given: Any) -> Operation:
        """As if Ctrl-C came while the first part was told."""

        def told(_: Advance) -> None:
            raise KeyboardInterrupt

        return carry_out(self, operation, on_progress=told)

    with store_of(shell) as queue:
        first = queue.store.advance_operation
        monkeypatch.setattr(
            type(queue.store),
            "advance_operation",
            lambda store, name, limit=1: first.__func__(store, name, limit=limit),  # type: ignore[attr-defined]
        )
    monkeypatch.setattr(Operations, "carry_out", interrupted)
    done = run_here(shell, "queue", "purge", "default", "--yes")
    assert done.code == Exit.INTERRUPTED
    assert "purged 1 job of 3, the others are as they were" in done.err
    with store_of(shell) as queue:
        (known,) = queue.operations
        assert (known.order, known.state, known.changed) == (PurgeAll(), "stopped", 1)
        assert queue.get_queue_stats()["pending"] == 2


def test_an_operation_is_named_by_the_end_of_its_id(shell: Shell) -> None:
    with store_of(shell) as queue:
        queue.submit("t")
    run_here(shell, "cancel", "--all", "--yes")
    with store_of(shell) as queue:
        (known,) = queue.operations
    for name in (known.id, known.id[-8:], known.id[:20]):
        assert run_here(shell, "-o", "json", "operations", "show", name).json["id"] == known.id
    undone = run_here(shell, "operations", "undo", known.id[-8:], "--yes")
    assert undone.code == Exit.OK
    unknown = run_here(shell, "operations", "show", "nobody")
    assert unknown.code != Exit.OK
    assert "nobody" in unknown.err
    several = run_here(shell, "operations", "show", known.id[:6])
    assert "give more of it" in several.err
