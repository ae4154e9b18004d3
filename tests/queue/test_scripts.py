"""Scripts as people write them: tasks in `__main__`, worker processes, a forgotten shutdown."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from leasehold import JobFailedError, Status, TaskQueue
from leasehold.core.model.job import Draft

WAIT = 60


def write(folder: Path, name: str, code: str) -> Path:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(textwrap.dedent(code))
    return path


def run(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=WAIT,
        check=False,
    )


SCRIPT = """
    from leasehold import TaskQueue

    def build(number: int) -> int:
        return number + 1

    if __name__ == "__main__":
        with TaskQueue("jobs.db", num_workers={workers}) as queue:
            job = queue.submit(build, 1)
            print(job.job().task, job.result(timeout=30))
"""


def test_a_function_of_the_script_is_named_after_its_file(tmp_path: Path) -> None:
    write(tmp_path, "report.py", SCRIPT.format(workers=1))
    assert run("report.py", cwd=tmp_path).stdout == "report:build 2\n"


def test_a_function_of_a_module_that_is_run_is_named_after_the_module(tmp_path: Path) -> None:
    write(tmp_path, "app/__init__.py", "")
    write(tmp_path, "app/report.py", SCRIPT.format(workers=1))
    assert run("-m", "app.report", cwd=tmp_path).stdout == "app.report:build 2\n"


def test_without_workers_a_function_of_the_script_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "report.py", SCRIPT.format(workers=0))
    done = run("report.py", cwd=tmp_path)
    assert "TaskNotImportableError: build is defined in the script that was started" in done.stderr


def test_a_forgotten_shutdown_still_finishes_what_runs(tmp_path: Path) -> None:
    write(
        tmp_path,
        "script.py",
        """
        import threading
        from leasehold import TaskQueue, current_job

        started = threading.Event()

        def slow() -> str:
            started.set()
            current_job().wait(0.2)
            return "finished"

        queue = TaskQueue("jobs.db", num_workers=1)
        job = queue.submit(slow, job_id="slow")
        started.wait(30)
        """,
    )
    done = run("script.py", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    with TaskQueue(tmp_path / "jobs.db", num_workers=0) as queue:
        assert queue.get("slow").result == "finished"


WAITING = """
    import threading
    from leasehold import TaskQueue, current_job

    started = threading.Event()

    def slow() -> str:
        started.set()
        current_job().wait(600)
        return "finished"

    def main() -> None:
        job = queue.submit(slow, job_id="slow")
        assert started.wait(30)
        print("started", flush=True)
        job.result()
"""


@pytest.mark.parametrize(
    "end",
    [
        "queue = TaskQueue('jobs.db', num_workers=1)\nmain()\n",
        "with TaskQueue('jobs.db', num_workers=1) as queue:\n    main()\n",
    ],
    ids=["forgotten", "block"],
)
def test_a_second_interrupt_hands_back_what_an_interrupted_program_waits_for(
    tmp_path: Path, end: str
) -> None:
    write(tmp_path, "script.py", textwrap.dedent(WAITING) + end)
    script = subprocess.Popen(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert script.stdout is not None
        assert script.stderr is not None
        assert script.stdout.readline() == "started\n"
        script.send_signal(signal.SIGINT)
        while "stopping: waiting for 1 job, at most 30 s" not in (line := script.stderr.readline()):
            assert line, "it ended without saying what it waited for"
        assert line.endswith("; Ctrl-C again to stop at once\n")
        script.send_signal(signal.SIGINT)
        rest = script.communicate(timeout=WAIT)[1]
    finally:
        script.kill()
        script.wait()
    assert "atexit" not in rest
    assert "1 job that has not run stays in" in rest
    with TaskQueue(tmp_path / "jobs.db", num_workers=0) as queue:
        job = queue.get("slow")
        assert (job.status, job.attempts) == (Status.PENDING, 0)


def test_a_worker_process_runs_what_another_submits_and_stops_on_a_signal(tmp_path: Path) -> None:
    write(
        tmp_path,
        "tasks.py",
        """
        from leasehold import TaskQueue

        queue = TaskQueue("jobs.db", num_workers=0)

        @queue.task
        def greet(name: str) -> str:
            return f"Hello {name}"

        if __name__ == "__main__":
            print(queue.run_worker(slots=2), flush=True)
        """,
    )
    worker = subprocess.Popen(
        [sys.executable, "tasks.py"], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    try:
        producer = run(
            "-c", "import tasks; print(tasks.greet.submit('Ada').result(timeout=30))", cwd=tmp_path
        )
        assert producer.stdout == "Hello Ada\n"
        worker.send_signal(signal.SIGTERM)
        assert worker.communicate(timeout=WAIT)[0] == "stopped\n"
    finally:
        worker.kill()
        worker.wait()


def test_two_processes_on_one_file_wake_each_other(tmp_path: Path) -> None:
    write(tmp_path, "tasks.py", "def double(number: int) -> int:\n    return number * 2\n")
    path = tmp_path / "jobs.db"
    code = (
        "from leasehold import TaskQueue; import sys; "
        "queue = TaskQueue('jobs.db', import_tasks='tasks', num_workers=2); queue.start(); "
        "print('ready', flush=True); sys.stdin.read(); queue.shutdown()"
    )
    worker = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
        with TaskQueue(path, num_workers=0) as queue:
            jobs = [queue.submit("tasks:double", number) for number in range(20)]
            ended = queue.wait(jobs, WAIT)
        assert [job.result for job in ended] == [number * 2 for number in range(20)]
        assert {job.status for job in ended} == {Status.COMPLETED}
        worker.communicate(timeout=WAIT)
        assert worker.returncode == 0
    finally:
        worker.kill()
        worker.wait()


@pytest.mark.parametrize("size", ["small", "large"])
def test_signed_pickle_from_submit_to_result(tmp_path: Path, size: str) -> None:
    value = {1, 2} if size == "small" else set(range(10_000))
    with TaskQueue(tmp_path / "jobs.db", num_workers=1, pickle_key=b"k" * 32) as queue:
        job = queue.submit(sorted, value, reverse=True)
        assert job.result(WAIT) == sorted(value, reverse=True)
        assert job.job().codec == "pickle"


def test_signed_pickles_in_a_child_process(tmp_path: Path) -> None:
    """The child knows the task by the name that its jobs bear."""
    with TaskQueue(tmp_path / "jobs.db", num_workers=1, pickle_key=b"k" * 32) as queue:
        ordered = queue.task(name="ordered", executor="process")(sorted)
        job = ordered.submit({2, 1})
        assert job.result(WAIT) == [1, 2]
        assert job.job().codec == "pickle"


def test_a_signed_call_is_not_run_by_another_task(tmp_path: Path) -> None:
    """Somebody with access to the file but not to the key makes one task's call another's."""
    with TaskQueue(tmp_path / "jobs.db", num_workers=1, pickle_key=b"k" * 32) as queue:
        queue.task(name="show")(print)
        queue.task(name="run")(exec)
        shown = queue.submit("show", "raise SystemExit")
        forged = Draft(id="forged", task="run", payload=shown.job().payload_data, codec="pickle")
        queue.store.submit([forged])
        with pytest.raises(JobFailedError, match="not for task 'run'"):
            queue.get_result("forged", WAIT)


def test_a_child_process_submits_jobs_but_runs_no_workers_of_its_own(tmp_path: Path) -> None:
    write(
        tmp_path,
        "shop.py",
        """
        import os
        from leasehold import TaskQueue

        queue = TaskQueue("jobs.db", num_workers=2)

        @queue.task(executor="process")
        def outer() -> list[object]:
            return [os.getpid(), inner.submit().id]

        @queue.task()
        def inner() -> int:
            return os.getpid()
        """,
    )
    write(
        tmp_path,
        "main.py",
        """
        import os
        import shop

        with shop.queue as queue:
            child, job_id = shop.outer.submit().result(timeout=30)
            runner = queue.get_result(job_id, timeout=30)
            print(child != os.getpid(), runner == os.getpid(), len(queue.workers()))
        """,
    )
    done = run("main.py", cwd=tmp_path)
    assert done.stdout == "True True 1\n", done.stderr


def test_run_worker_is_the_only_worker_of_its_process(tmp_path: Path) -> None:
    write(
        tmp_path,
        "shop.py",
        """
        from leasehold import TaskQueue

        queue = TaskQueue("jobs.db", num_workers=2)

        @queue.task()
        def outer() -> None:
            inner.submit()

        @queue.task()
        def inner() -> None:
            print(len(queue.workers()), flush=True)

        if __name__ == "__main__":
            # A submit of its own would start workers of its own, which might be quicker.
            with TaskQueue("jobs.db", num_workers=0) as other:
                other.submit("shop:outer")
            print(queue.run_worker(slots=1, max_jobs=2).value)
        """,
    )
    done = run("shop.py", cwd=tmp_path)
    assert "1\n" in done.stdout, done.stderr


def test_a_lambda_is_told_that_it_is_one_even_without_workers(tmp_path: Path) -> None:
    code = "from leasehold import TaskQueue; TaskQueue('a.db', num_workers=0).submit(lambda: 1)"
    assert "a lambda cannot be a task" in run("-c", code, cwd=tmp_path).stderr
