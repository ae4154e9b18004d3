"""`stuck`: jobs that show no sign of life, or run for too long."""

from __future__ import annotations

from cli.conftest import Shell
from cli.seed import store_of
from leasehold import Status
from leasehold.cli.exits import Exit


def test_stuck_jobs_are_found_and_requeued(shell: Shell) -> None:
    with store_of(shell) as queue:
        queue.submit("resize", "cat.png", job_id="picture", priority=70)
        queue.lease(worker="camera", wait=0)
    assert shell.ok("stuck").err == "no job is stuck\n"
    assert shell.ok("stuck", "-o", "json").json == []
    [found] = shell.ok("stuck", "--running", "0s", "-o", "json").json
    assert (found["job_id"], found["worker"], found["priority"]) == ("picture", "camera", 70)
    table = shell.ok("stuck", "--silent", "0s").out
    assert "picture" in table
    assert "SILENT SINCE" in table
    refused = shell.run("stuck", "--silent", "0s", "--requeue")
    assert refused.code == Exit.USAGE
    assert "take 1 job from its worker" in refused.err
    told = shell.ok("stuck", "--silent", "0s", "--requeue", "--dry-run")
    assert "nothing was changed" in told.err
    done = shell.ok("stuck", "--silent", "0s", "--requeue", "--yes", "-o", "json").json
    assert [(each["job_id"], each["status"], each["outcome"]) for each in done] == [
        ("picture", "pending", "requeued")
    ]
    [order] = shell.ok("audit", "-o", "json").json
    assert (order["action"], order["count"], order["detail"]["jobs"]) == (
        "requeue", 1, ["picture"],
    )  # fmt: skip
    with store_of(shell) as queue:
        assert queue.get("picture").status is Status.PENDING
        assert "requeued by" in queue.history("picture")[-1].message
