"""`worker start`, `stop` and `status`, with real processes that are stopped and killed."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from cli.conftest import Shell
from cli.crews import (
    WAIT,
    Gate,
    crews,
    eventually,
    folder,
    gate,
    live_workers,
    running,
)
from cli.terminal import Terminal
from leasehold import Status, TaskQueue
from leasehold.cli.exits import Exit
from leasehold.cli.layout import cut_in_the_middle
from leasehold.cli.workers.pidfile import HeldPidFile, PidRecord, pid_files
from leasehold.cli.workers.plan import RECYCLED, REFUSED
from leasehold.core.model.advice import START_A_WORKER
from leasehold.env import SYSTEM

__all__ = ["crews", "gate"]

LINE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ (INFO|WARNING|ERROR) +\S.*")
TASKS = """
import os

from leasehold import TaskQueue

queue = TaskQueue("leasehold.db", num_workers=0)

@queue.task(name="greet")
def greet(who):
    return f"hello {who} from {os.getpid()}"
"""


def status_of(shell: Shell, job: str) -> Status:
    with TaskQueue(shell.folder / "leasehold.db", num_workers=0) as queue:
        return queue.get_status(job)


def frozen(table: str) -> list[str]:
    """The lines of a table, without what is different every time."""
    for pattern, word in (
        (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ", "TIME"),
        (rf"{re.escape(socket.gethostname())}-(\d+)-\w{{8}}\b", r"HOST-\1-ID"),
        (r"\b\d{2,}\b", "PID"),
        (r"─+", "─"),
        (r" +", " "),
    ):
        table = re.sub(pattern, word, table)
    return [line.strip() for line in table.splitlines()]


def test_in_the_foreground_until_there_is_nothing_left_to_do(crews: Shell) -> None:
    lines = "\n".join(f'{{"id": "job{n}", "command": "echo {n}"}}' for n in range(3))
    crews.ok("enqueue", "--file", "-", stdin=lines)
    done = crews.ok("worker", "start", "--until-empty", "--allow-commands", "--count", "2")
    assert done.out == ""
    logged = done.err.splitlines()
    assert all(LINE.fullmatch(line) for line in logged), logged
    assert sum("completed in" in line for line in logged) == 3
    assert all(status_of(crews, f"job{n}") is Status.COMPLETED for n in range(3))
    assert os.listdir(folder(crews)) == []


def test_worn_processes_are_replaced(crews: Shell) -> None:
    lines = "\n".join(f'{{"id": "job{n}", "command": "echo $PPID"}}' for n in range(3))
    crews.ok("enqueue", "--file", "-", stdin=lines)
    done = crews.ok("worker", "start", "--until-empty", "--allow-commands", "--max-jobs", "1")
    assert done.err.count("asks to be replaced: max_jobs") == 3
    assert done.err.count("completed in") == 3


def test_in_the_background_until_there_is_nothing_left_to_do(crews: Shell) -> None:
    began = crews.ok("worker", "start", "--background", "--until-empty", "--count", "2")
    assert began.out.startswith("started 2 workers")
    eventually(lambda: pid_files(folder(crews)) == [])


def test_tasks_are_found_in_modules_of_this_folder(crews: Shell) -> None:
    (crews.folder / "greetings.py").write_text(TASKS)
    crews.ok("enqueue", "--task", "greet", "--args", '["Ada"]', "--id", "named")
    crews.ok("enqueue", "--task", "greetings:greet", "--args", '["Bo"]', "--id", "imported")
    arguments = ("--import", "greetings", "--executor", "processes", "--quiet")
    done = crews.ok("worker", "start", "--until-empty", *arguments)
    assert done.err == ""
    waited = crews.ok("wait", "named", "imported", "-o", "json").json
    results = [job["result"].split() for job in waited]
    assert [words[:2] for words in results] == [["hello", "Ada"], ["hello", "Bo"]]


def test_commands_are_refused_unless_they_are_allowed(crews: Shell) -> None:
    crews.ok("enqueue", "--command", "touch pwned", "--id", "job")
    done = crews.run("worker", "start", "--until-empty", "--count", "2")
    assert done.code == Exit.PARTIAL
    assert "left 1 job of task 'command' that it cannot run: this worker runs no" in done.err
    assert status_of(crews, "job") is Status.SCHEDULED
    assert not (crews.folder / "pwned").exists()


def test_start_look_and_stop_in_the_background(crews: Shell, gate: Gate) -> None:
    began = crews.ok(
        "worker", "start", "--background", "--allow-commands", "--count", "2", "-o", "json"
    ).json
    assert list(began) == ["pid", "count", "slots", "queues", "log_path"]
    crews.ok("enqueue", "--command", gate.command, "--id", "job")
    eventually(running(crews, "job"))
    workers = crews.ok("worker", "status", "-o", "json").json
    assert list(workers[0]) == [
        *("id", "state", "kind", "host", "pid", "crew_pid", "app_version"),
        *("queues", "slots", "running", "jobs"),
        *("started_at", "heartbeat_at", "log_path"),
    ]
    assert {worker["state"] for worker in workers} == {"alive"}
    assert {worker["crew_pid"] for worker in workers} == {began["pid"]}
    assert sorted([job["id"] for job in worker["jobs"]] for worker in workers) == [[], ["job"]]
    with subprocess.Popen(
        crews.command("worker", "stop"),
        cwd=crews.folder,
        env=crews.environment,
        stdout=subprocess.PIPE,
        text=True,
    ) as stop:
        log = Path(began["log_path"])
        eventually(lambda: "stopping" in log.read_text())
        gate.open()
        out, _ = stop.communicate(timeout=WAIT)
    assert stop.returncode == 0
    assert re.fullmatch(
        r"( *PID) {3}WHAT {3}STOPPED {3}KILLED\n─+\n *\d+ {3}crew {3}yes {7}no *\n", out
    ), out
    assert status_of(crews, "job") is Status.COMPLETED
    after = crews.ok("worker", "status")
    assert (after.out, after.err) == (
        "",
        f"no worker is running: {START_A_WORKER}\n",
    )
    assert os.listdir(folder(crews)) == ["workers.log"]
    assert log.stat().st_mode & 0o777 == 0o600


def test_a_background_worker_is_killed_and_another_one_recovers_its_job(
    crews: Shell, gate: Gate
) -> None:
    crews.ok("worker", "start", "--background", "--allow-commands")
    once = f"test -e begun || {{ touch begun; {gate.command}; }}"
    crews.ok("enqueue", "--command", once, "--id", "job")
    eventually((crews.folder / "begun").exists)
    [crew, worker] = pid_files(folder(crews))
    for file in (crew, worker):
        os.kill(file.record.pid, signal.SIGKILL)
    eventually(lambda: worker.is_stale and crew.is_stale)
    dead = crews.ok("worker", "status", "-o", "json")
    [found] = dead.json
    assert (found["state"], [job["id"] for job in found["jobs"]]) == ("dead", ["job"])
    assert "removed 1 pid file" in dead.err, "the crew's; the worker's is still the proof"
    done = crews.ok("worker", "start", "--until-empty", "--allow-commands")
    assert "job job (command): completed" in done.err
    job = crews.ok("wait", "job", "-o", "json").json[0]
    assert (job["status"], job["attempts"]) == ("completed", 2)
    gone = crews.ok("worker", "status")
    assert gone.out == ""
    assert "removed 1 pid file" in gone.err


def test_a_killed_worker_process_is_replaced_by_its_crew(crews: Shell) -> None:
    crews.ok("worker", "start", "--background")
    [first] = live_workers(crews)
    os.kill(first.record.pid, signal.SIGKILL)
    eventually(lambda: [f for f in live_workers(crews) if f.record.pid != first.record.pid])
    log = (crews.folder / "leasehold.db-workers" / "workers.log").read_text()
    assert f"worker process {first.record.pid} was killed by SIGKILL" in log


@pytest.mark.parametrize("code", [0, REFUSED, RECYCLED])
def test_a_worker_that_its_own_task_ends_is_replaced_whatever_its_exit_code(
    crews: Shell, code: int
) -> None:
    """Before, one that a task had ended with 0 counted as one that was asked to stop."""
    (crews.folder / "ending.py").write_text(f"import os\ndef end(): os._exit({code})\n")
    crews.ok("worker", "start", "--background", "--import", "ending")
    [first] = live_workers(crews)
    crews.ok("enqueue", "--task", "ending:end", "--max-retries", "0")
    eventually(lambda: [f for f in live_workers(crews) if f.record.pid != first.record.pid])
    log = (crews.folder / "leasehold.db-workers" / "workers.log").read_text()
    assert f"worker process {first.record.pid} ended with exit code {code};" in log


def test_workers_do_not_outlive_their_crew(crews: Shell) -> None:
    crews.ok("worker", "start", "--background")
    [worker] = live_workers(crews)
    os.kill(worker.record.crew_pid, signal.SIGKILL)
    eventually(lambda: worker.is_stale)
    log = (crews.folder / "leasehold.db-workers" / "workers.log").read_text()
    assert "the process that started this worker is gone" in log


def test_stop_with_a_timeout_and_by_force(crews: Shell, gate: Gate) -> None:
    pid = crews.ok("worker", "start", "--background", "--allow-commands", "-o", "json").json["pid"]
    crews.ok("enqueue", "--command", gate.command, "--id", "job")
    eventually(running(crews, "job"))
    assert crews.run("worker", "stop", "4711-nobody").code == Exit.NOT_FOUND
    late = crews.run("worker", "stop", str(pid), "--timeout", "0.1", "-o", "json")
    assert late.code == Exit.TIMEOUT
    assert late.json == [
        {"pid": pid, "role": "crew", "worker_id": None, "stopped": False, "killed": False}
    ]
    [worker] = live_workers(crews)
    # Stopped by the system, it cannot heed anything; killed, it is gone all the same.
    os.kill(worker.record.pid, signal.SIGSTOP)
    with Terminal(
        crews.command("worker", "stop"), cwd=crews.folder, env=crews.environment
    ) as terminal:
        terminal.see("waiting for 1 worker to stop ...")
        terminal.press("\x03")
        terminal.see("stopped waiting; the workers still stop")
        assert terminal.end() == Exit.INTERRUPTED
    killed = crews.ok("worker", "stop", "--timeout", "0.1", "--force", "-o", "json").json
    assert [(each["stopped"], each["killed"]) for each in killed] == [(True, True)]
    assert worker.is_stale
    assert pid_files(folder(crews)) == []


def test_one_worker_of_several_is_stopped_by_its_id(crews: Shell) -> None:
    crews.ok("worker", "start", "--background", "--count", "2")
    first, second = live_workers(crews)
    assert frozen(crews.ok("worker", "status").out) == [
        "WORKER KIND STATE PID CREW QUEUES SLOTS RUNNING JOBS SINCE LAST HEARTBEAT",
        "─",
        "HOST-PID-ID worker alive PID PID default 4 0 - TIME TIME",
        "HOST-PID-ID worker alive PID PID default 4 0 - TIME TIME",
    ]
    assert first.record.worker_id is not None
    assert "type more of the one you mean" in (
        crews.run("worker", "stop", first.record.worker_id[:4]).err
    )
    assert crews.run("worker", "stop", "nobody").code == Exit.NOT_FOUND
    # As a narrow table shows it.
    crews.ok("worker", "stop", cut_in_the_middle(first.record.worker_id, 16))
    assert first.is_stale
    assert not second.is_stale
    assert [f.record.pid for f in live_workers(crews)] == [second.record.pid]


@pytest.mark.parametrize("place", ["--background", "--quiet"])
def test_what_cannot_begin_says_why(crews: Shell, place: str) -> None:
    done = crews.run("worker", "start", place, "--count", "2", "--import", "no_such_module")
    assert done.code == Exit.USAGE
    assert done.out == ""
    assert "there is no module 'no_such_module'" in done.err
    assert pid_files(folder(crews)) == []
    elsewhere = crews.run("worker", "start", place, "--store", "/no/such/folder/jobs.db")
    assert elsewhere.code == Exit.STORE


def test_a_consumer_is_listed_and_its_death_is_seen(shell: Shell) -> None:
    shell.ok("init")
    program = (
        "import os, signal\n"
        "from leasehold import TaskQueue\n"
        "queue = TaskQueue('leasehold.db', num_workers=0)\n"
        "queue.submit('work', job_id='held')\n"
        "assert queue.lease(worker='camera').job_id == 'held'\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", program], cwd=shell.folder, check=False)
    queue = TaskQueue(shell.folder / "leasehold.db", num_workers=0)
    queue.lease(worker="here", wait=0)
    told = shell.ok("worker", "status", "-o", "json").json
    queue.shutdown()
    jobs_of = [[job["id"] for job in each["jobs"]] for each in told]
    assert jobs_of == [["held"], []]
    assert [(each["id"], each["kind"], each["state"]) for each in told] == [
        ("camera", "consumer", "gone"),
        ("here", "consumer", "alive"),
    ]
    checked = shell.run("doctor").out
    assert "consumer camera is gone and holds 1 job" in checked


def test_a_memory_store_has_no_workers(shell: Shell) -> None:
    assert shell.run("worker", "start", "--store", "memory://").code == Exit.USAGE
    assert shell.ok("worker", "status", "--store", "memory://").out == ""
    assert "no worker" in shell.ok("worker", "stop", "--store", "memory://").err


def record(pid: int) -> PidRecord:
    return PidRecord(pid=pid, role="crew", started_at=SYSTEM.now(), crew_pid=pid)


def test_a_pid_file_is_believed_only_while_its_process_holds_it(tmp_path: Path) -> None:
    held = HeldPidFile(str(tmp_path), record(os.getpid()))
    [file] = pid_files(str(tmp_path))
    assert not file.is_stale
    assert file.send_signal(signal.SIGCONT)
    held.close()
    assert file.is_stale
    assert pid_files(str(tmp_path)) == []


def test_a_number_that_is_used_again_proves_nothing(crews: Shell) -> None:
    crews.ok("init")
    os.mkdir(folder(crews))
    # A pid file that was left behind, and whose number another process, this one, has now.
    held = HeldPidFile(folder(crews), record(os.getpid()))
    [file] = pid_files(folder(crews))
    assert held._fd is not None
    os.close(held._fd)
    held._fd = None
    assert file.is_stale
    assert not file.send_signal(signal.SIGTERM)
    done = crews.ok("worker", "stop", "--force", "--timeout", "0")
    assert "no worker process of this store is running on this machine" in done.err
    assert "removed 1 pid file" in crews.ok("worker", "status").err
    assert pid_files(folder(crews)) == []
