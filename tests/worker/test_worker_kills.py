"""Jobs in processes of their own, through the whole worker: what is stopped really ends."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from leasehold.core.model.job import Draft
from leasehold.core.model.status import Status
from leasehold.worker.worker import Worker
from support import child_tasks
from support.workers import MoodyStore, Tasks, submit_to

Start = Callable[..., Worker]


def submit_command(store: MoodyStore, shell: str, timeout_seconds: float | None = None) -> str:
    store.submit(
        [
            Draft(
                id="command-1",
                task="command",
                payload=msgspec.json.encode({"shell": shell}),
                timeout_seconds=timeout_seconds,
                max_retries=0,
            )
        ]
    )
    return "command-1"


def test_a_task_runs_in_a_process(store: MoodyStore, tasks: Tasks, start_worker: Start) -> None:
    name = tasks.add(child_tasks.report, "support.child_tasks:report", "process")
    job_id = submit_to(store, name)
    start_worker(slots=1)
    job = store.until_status(job_id, Status.COMPLETED)
    assert job.progress is not None
    assert store.log(job_id).texts == ["a line with ünïcode"]


def test_a_command_runs_and_its_result_is_kept(
    store: MoodyStore, start_worker: Start, tmp_path: Path
) -> None:
    job_id = submit_command(store, "echo hello")
    start_worker(slots=1, allow_commands=True, output_dir=str(tmp_path))
    job = store.until_status(job_id, Status.COMPLETED)
    assert job.result["exit_code"] == 0
    assert job.result["stdout_tail"] == "hello\n"


def test_a_command_that_times_out_is_dead_before_its_job_fails(
    store: MoodyStore, start_worker: Start, tmp_path: Path
) -> None:
    # The trap runs when the command is told to end: it is there only if that was waited for.
    job_id = submit_command(
        store, f"trap 'touch {tmp_path}/ended; exit' TERM; sleep 3600 & wait", timeout_seconds=0.5
    )
    worker = start_worker(slots=1, allow_commands=True, output_dir=str(tmp_path / "out"))
    job = store.until_status(job_id, Status.DEAD)
    assert (tmp_path / "ended").exists()
    assert job.error is not None
    assert job.error.type == "JobTimeoutError"
    assert worker.statistics.stuck == 0


def test_a_running_command_is_killed_when_it_is_cancelled(
    store: MoodyStore, start_worker: Start, tmp_path: Path
) -> None:
    job_id = submit_command(store, f"touch {tmp_path}/begun; sleep 3600")
    start_worker(slots=1, allow_commands=True, output_dir=str(tmp_path / "out"))
    store.until_status(job_id, Status.RUNNING)
    store.cancel([job_id], reason="not needed", actor="test")
    assert store.until_status(job_id, Status.CANCELLED).reason == "not needed"


def test_what_outlasts_the_grace_is_killed_and_handed_back(
    store: MoodyStore, start_worker: Start, tmp_path: Path
) -> None:
    job_id = submit_command(store, "sleep 3600")
    worker = start_worker(
        slots=1, allow_commands=True, output_dir=str(tmp_path), grace_seconds=0.05
    )
    store.until_status(job_id, Status.RUNNING)
    assert worker.stop()
    job = store.job(job_id)
    assert (job.status, job.attempts) == (Status.PENDING, 0)
