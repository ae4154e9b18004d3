"""Commands: how they are run, what is kept of them, and that they really end."""

from __future__ import annotations

import os
import signal
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from leasehold.core.model.outcome import Cancel, Fail, JobError, Release
from leasehold.env import SYSTEM
from leasehold.worker.executors.command import CommandExecutor
from leasehold.worker.executors.output import TAIL_BYTES_MAX
from support.processes import child_pids, holdings
from support.runs import WatchedRun, command_run

TIMEOUT = Fail(JobError("JobTimeoutError", "too long"))


@pytest.fixture
def output_dir(tmp_path: Path) -> Path:
    return tmp_path / "output"


@pytest.fixture
def commands(output_dir: Path) -> Iterator[CommandExecutor]:
    executor = CommandExecutor(1, env=SYSTEM, output_dir=str(output_dir), grace_seconds=60)
    yield executor
    executor.close()


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    """A pipe with a name: opening it waits for the other side, reading it for the other's end."""
    path = tmp_path / "fifo"
    os.mkfifo(path)
    return path


def started(executor: CommandExecutor, document: Any, **facts: Any) -> WatchedRun:
    watched = command_run(document, **facts)
    executor.start(watched.run)
    return watched


# -- results and output -------------------------------------------------------------------------


def test_a_command_that_succeeds(commands: CommandExecutor, output_dir: Path) -> None:
    watched = started(commands, {"shell": "echo out; echo err >&2"}, job_id="0191-abc", version=4)
    result = watched.result()
    seconds = result.pop("duration_seconds")
    assert seconds > 0
    folder = output_dir / "0191-abc"
    assert result == {
        "exit_code": 0,
        "stdout_path": str(folder / "4.out"),
        "stderr_path": str(folder / "4.err"),
        "stdout_tail": "out\n",
        "stderr_tail": "err\n",
    }
    assert (folder / "4.out").read_text() == "out\n"
    assert (folder / "4.err").read_text() == "err\n"
    assert watched.run.started is not None


def test_output_is_private(commands: CommandExecutor, output_dir: Path) -> None:
    result = started(commands, {"argv": ["true"]}).result()
    for path in (result["stdout_path"], result["stderr_path"]):
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        assert stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode) == 0o700
    assert stat.S_IMODE(output_dir.stat().st_mode) == 0o700


def test_many_commands_one_after_the_other(commands: CommandExecutor) -> None:
    runs = [started(commands, {"argv": ["echo", str(n)]}, version=n) for n in range(100)]
    assert [watched.result()["stdout_tail"] for watched in runs] == [f"{n}\n" for n in range(100)]


def test_two_commands_run_at_the_same_time(output_dir: Path, fifo: Path) -> None:
    executor = CommandExecutor(2, env=SYSTEM, output_dir=str(output_dir))
    try:
        # Each of them waits until the other has opened its side.
        reader = started(executor, {"argv": ["cat", str(fifo)]}, version=1)
        writer = started(
            executor, {"shell": 'echo hello > "$F"', "env": {"F": str(fifo)}}, version=2
        )
        writer.result()
        assert reader.result()["stdout_tail"] == "hello\n"
    finally:
        executor.close()


def test_huge_output_is_kept_and_its_tail_is_bounded(commands: CommandExecutor) -> None:
    result = started(
        commands, {"shell": "head -c 20000000 /dev/zero | tr '\\0' x; printf the-end"}
    ).result()
    assert os.path.getsize(result["stdout_path"]) == 20_000_007
    assert len(result["stdout_tail"]) == TAIL_BYTES_MAX
    assert result["stdout_tail"].endswith("xthe-end")


def test_binary_output_is_kept_as_it_is(commands: CommandExecutor) -> None:
    result = started(commands, {"shell": r"printf '\377\000\033[31mred'"}).result()
    assert Path(result["stdout_path"]).read_bytes() == b"\xff\0\x1b[31mred"
    assert result["stdout_tail"] == "\ufffd\0\x1b[31mred"


def test_unicode_goes_in_and_out(commands: CommandExecutor) -> None:
    text = "grüße 🎉 \u202e"
    result = started(commands, {"argv": ["printf", "%s", text]}, job_id="jöb").result()
    assert result["stdout_tail"] == text


@pytest.mark.parametrize("job_id", ["../../escape", "/etc/passwd", "..", ".", "UPPER", "x" * 255])
def test_no_job_id_leads_out_of_the_output_folder(
    commands: CommandExecutor, output_dir: Path, job_id: str
) -> None:
    path = Path(started(commands, {"argv": ["true"]}, job_id=job_id).result()["stdout_path"])
    assert path.resolve().parent.parent == output_dir.resolve()


# -- what the command is given ------------------------------------------------------------------


def test_arguments_are_never_read_by_a_shell(commands: CommandExecutor, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    hostile = f"$(touch {victim}); `touch {victim}` | touch {victim} & \n '\" * ~ $HOME"
    result = started(commands, {"argv": ["printf", "%s", hostile]}).result()
    assert result["stdout_tail"] == hostile
    assert not victim.exists()


def test_values_reach_a_shell_command_by_its_environment(
    commands: CommandExecutor, tmp_path: Path
) -> None:
    victim = tmp_path / "victim"
    hostile = f"$(touch {victim}); touch {victim}"
    result = started(commands, {"shell": 'printf %s "$VALUE"', "env": {"VALUE": hostile}}).result()
    assert result["stdout_tail"] == hostile
    assert not victim.exists()


def test_the_environment_tells_about_the_attempt(
    commands: CommandExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FROM_WORKER", "worker")
    monkeypatch.setenv("ODD", os.fsdecode(b"\xff"))
    names = "$LEASEHOLD_JOB_ID $LEASEHOLD_FENCING_TOKEN $LEASEHOLD_ATTEMPT $FROM_WORKER $FROM_JOB"
    result = started(
        commands,
        {"shell": f"echo {names}", "env": {"FROM_JOB": "job", "LEASEHOLD_JOB_ID": "forged"}},
        job_id="job-7",
        version=9,
        attempt=2,
    ).result()
    assert result["stdout_tail"] == "job-7 9 2 worker job\n"


def test_the_working_directory_can_be_chosen(commands: CommandExecutor, tmp_path: Path) -> None:
    assert (
        started(commands, {"argv": ["pwd"], "cwd": str(tmp_path)}).result()["stdout_tail"]
        == f"{tmp_path}\n"
    )


def test_stdin_is_the_given_text_or_nothing(commands: CommandExecutor) -> None:
    text = "zeile\n" * 30_000 + "ende ü"
    result = started(commands, {"argv": ["cat"], "stdin": text}, version=1).result()
    assert Path(result["stdout_path"]).read_text() == text
    assert started(commands, {"argv": ["cat"]}, version=2).result()["stdout_tail"] == ""


def test_a_command_gets_the_default_signals(commands: CommandExecutor) -> None:
    for name in ("INT", "TERM", "HUP", "PIPE"):
        failure = started(commands, {"shell": f"kill -{name} $$; sleep 1000"}).failure()
        assert failure.error.message == f"killed by SIG{name}"


def test_a_command_holds_the_workers_lock(output_dir: Path, tmp_path: Path) -> None:
    with (tmp_path / "lock").open("w") as lock:
        executor = CommandExecutor(1, env=SYSTEM, output_dir=str(output_dir), lock_fd=lock.fileno())
        try:
            result = started(executor, {"argv": ["ls", "-l", "/proc/self/fd"]}).result()
        finally:
            executor.close()
        assert lock.name in result["stdout_tail"]


# -- failures -----------------------------------------------------------------------------------


def test_a_command_that_fails_is_retried_and_quoted(commands: CommandExecutor) -> None:
    shell = r"printf 'first\n\033[31mno such \342\200\256user\n\n' >&2; exit 3"
    failure = started(commands, {"shell": shell}).failure()
    assert failure.error.type == "CommandFailed"
    assert failure.error.message == r"exit code 3: \x1b[31mno such \u202euser"
    assert failure.retryable


def test_a_long_complaint_is_cut(commands: CommandExecutor) -> None:
    shell = "head -c 100000 /dev/zero | tr '\\0' x >&2; exit 1"
    message = started(commands, {"shell": shell}).failure().error.message
    assert len(message) < 600
    assert message.startswith("exit code 1: xxx")


def test_a_command_killed_by_a_signal_is_retried(commands: CommandExecutor) -> None:
    failure = started(commands, {"shell": "echo why >&2; kill -9 $$"}).failure()
    assert failure.error == JobError("CommandFailed", "killed by SIGKILL: why")
    assert failure.retryable


def test_a_command_that_is_not_there_fails_for_good(commands: CommandExecutor) -> None:
    failure = started(commands, {"argv": ["no-such-program", "x"]}).failure()
    assert failure.error == JobError("CommandNotFound", "command not found: no-such-program")
    assert not failure.retryable


def test_a_file_that_is_no_program_fails_for_good(
    commands: CommandExecutor, tmp_path: Path
) -> None:
    (tmp_path / "data").write_text("no program")
    failure = started(commands, {"argv": [str(tmp_path / "data")]}).failure()
    assert failure.error.type == "CommandNotStarted"
    assert "Permission denied" in failure.error.message
    assert not failure.retryable


def test_a_working_directory_that_is_not_there_fails_for_good(commands: CommandExecutor) -> None:
    failure = started(commands, {"argv": ["true"], "cwd": "/no/such/folder"}).failure()
    assert failure.error.type == "CommandNotStarted"
    assert "No such file or directory: /no/such/folder" in failure.error.message
    assert not failure.retryable


def test_without_a_place_for_its_output_a_command_is_retried(
    commands: CommandExecutor, output_dir: Path
) -> None:
    output_dir.write_text("a file in the folder's place")
    failure = started(commands, {"argv": ["true"]}).failure()
    assert failure.error.type == "OutputError"
    assert str(output_dir) in failure.error.message
    assert failure.retryable


def test_output_never_follows_a_planted_link(
    commands: CommandExecutor, output_dir: Path, tmp_path: Path
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    (output_dir / "job-1").mkdir(parents=True)
    (output_dir / "job-1" / "1.out").symlink_to(victim)
    assert started(commands, {"argv": ["echo", "x"]}).failure().error.type == "OutputError"
    assert victim.read_text() == "untouched"


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        (b"", "Input data was truncated"),
        (b"not json", "JSON is malformed"),
        (b"\xff\xfe", "JSON is malformed"),
        (b'"ls"', "Expected `object`"),
        (b"{}", 'give either "argv" or "shell"'),
        (b'{"argv": ["a"], "shell": "b"}', 'give either "argv" or "shell"'),
        (b'{"argv": "ls -l"}', "$.argv"),
        (b'{"argv": []}', "the command is empty"),
        (b'{"argv": [""]}', "the command is empty"),
        (b'{"shell": ""}', "the command is empty"),
        (b'{"argv": [1]}', "$.argv[0]"),
        (b'{"argv": ["a\\u0000b"]}', "NUL"),
        (b'{"argv": ["a"], "env": {"A=B": "c"}}', 'must not be empty nor contain "="'),
        (b'{"argv": ["a"], "env": {"A": 1}}', "$.env"),
        (b'{"argv": ["a"], "typo": 1}', "typo"),
    ],
)
def test_a_payload_that_is_no_command_fails_for_good(
    commands: CommandExecutor, payload: bytes, message: str
) -> None:
    failure = started(commands, payload, job_id="job-7").failure()
    assert failure.error.type == "PayloadError"
    assert "job-7" in failure.error.message
    assert message in failure.error.message
    assert not failure.retryable


def test_a_pickled_payload_fails_for_good(commands: CommandExecutor) -> None:
    failure = started(commands, b'{"argv": ["true"]}', codec="pickle").failure()
    assert "a command is JSON" in failure.error.message
    assert not failure.retryable


# -- stopping -----------------------------------------------------------------------------------


def test_a_stopped_command_may_clean_up(
    commands: CommandExecutor, output_dir: Path, fifo: Path
) -> None:
    shell = "trap 'echo cleaned up; exit 0' TERM; echo ready > \"$F\"; while :; do sleep 0.01; done"
    watched = started(commands, {"shell": shell, "env": {"F": str(fifo)}}, job_id="j", version=1)
    fifo.read_text()
    watched.run.decide(Cancel("enough"))
    commands.stop(watched.run)
    commands.stop(watched.run)
    assert watched.outcome() == Cancel("enough")
    assert (output_dir / "j" / "1.out").read_text() == "cleaned up\n"


def test_a_deaf_group_is_killed_as_a_whole(output_dir: Path, fifo: Path) -> None:
    executor = CommandExecutor(1, env=SYSTEM, output_dir=str(output_dir), grace_seconds=0.01)
    try:
        shell = (
            "trap '' TERM; exec 3> \"$F\"; (sleep 1000 & sleep 1000) & echo ready >&3; sleep 1000"
        )
        watched = started(executor, {"shell": shell, "env": {"F": str(fifo)}})
        with fifo.open() as group:
            assert group.readline() == "ready\n"
            watched.run.decide(TIMEOUT)
            executor.stop(watched.run)
            assert watched.outcome() is TIMEOUT
            # It reads to the end only if no process of the group is left.
            assert group.read() == ""
    finally:
        executor.close()


def test_without_grace_it_is_killed_at_once(output_dir: Path, fifo: Path) -> None:
    executor = CommandExecutor(1, env=SYSTEM, output_dir=str(output_dir), grace_seconds=0)
    try:
        shell = 'trap "echo cleaned up; exit" TERM; echo ready > "$F"; while :; do sleep 1; done'
        watched = started(executor, {"shell": shell, "env": {"F": str(fifo)}})
        fifo.read_text()
        executor.stop(watched.run)
        assert watched.failure().error.message == "killed by SIGKILL"
    finally:
        executor.close()


def test_what_a_command_leaves_behind_is_killed(commands: CommandExecutor, fifo: Path) -> None:
    watched = started(
        commands, {"shell": 'exec 3> "$F"; sleep 1000 & exit 0', "env": {"F": str(fifo)}}
    )
    with fifo.open() as left_behind:
        watched.result()
        assert left_behind.read() == ""


def test_waiting_runs_can_be_taken_back_or_stopped(commands: CommandExecutor, fifo: Path) -> None:
    busy = started(commands, {"shell": 'echo ready > "$F"; cat "$F"', "env": {"F": str(fifo)}})
    fifo.read_text()
    one, two, three = (started(commands, {"argv": ["true"]}, version=n) for n in range(2, 5))
    commands.stop(two.run)
    assert isinstance(two.outcome(), Release)
    assert commands.take_back() == [one.run, three.run]
    fifo.write_text("go on")
    assert busy.result()["stdout_tail"] == "go on"
    assert not one.run.ended
    assert one.run.started is None


# -- the nursery --------------------------------------------------------------------------------


def nursery_pid() -> int:
    # This process may have other children, such as a server that other tests talk to.
    (pid,) = (
        pid for pid in child_pids() if b"nursery" in Path(f"/proc/{pid}/cmdline").read_bytes()
    )
    return pid


def test_if_the_nursery_dies_its_commands_die_and_another_takes_over(
    commands: CommandExecutor, fifo: Path
) -> None:
    watched = started(
        commands,
        {"shell": 'exec 3> "$F"; echo ready >&3; sleep 1000 & sleep 1000', "env": {"F": str(fifo)}},
    )
    with fifo.open() as group:
        assert group.readline() == "ready\n"
        os.kill(nursery_pid(), signal.SIGKILL)
        failure = watched.failure()
        assert group.read() == ""
    assert failure.error.type == "WorkerCrashed"
    assert "killed by SIGKILL" in failure.error.message
    assert failure.retryable
    assert started(commands, {"argv": ["true"]}, version=2).result()["exit_code"] == 0


def test_the_nursery_leaves_signals_to_the_worker(commands: CommandExecutor) -> None:
    started(commands, {"argv": ["true"]}).result()
    pid = nursery_pid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(pid, number)
    assert started(commands, {"argv": ["true"]}, version=2).result()["exit_code"] == 0
    assert nursery_pid() == pid


def test_a_stuck_nursery_does_not_keep_the_executor_from_closing(
    commands: CommandExecutor, fifo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leasehold.worker.executors.nurserylink._KILL_SECONDS_MAX", 0.01)
    watched = started(
        commands, {"shell": 'exec 3> "$F"; echo ready >&3; sleep 1000', "env": {"F": str(fifo)}}
    )
    with fifo.open() as group:
        assert group.readline() == "ready\n"
        os.kill(nursery_pid(), signal.SIGSTOP)
        commands.close()
        assert group.read() == ""
    assert isinstance(watched.outcome(), Release)


def test_closing_ends_everything_and_leaks_nothing(output_dir: Path, fifo: Path) -> None:
    before = holdings()
    executor = CommandExecutor(2, env=SYSTEM, output_dir=str(output_dir))
    for version in range(20):
        started(executor, {"argv": ["true"]}, version=version).result()
    started(executor, {"argv": ["no-such-program"]}, version=20).outcome()
    shell = 'exec 3> "$F"; echo ready >&3; sleep 1000 & sleep 1000'
    running = started(executor, {"shell": shell, "env": {"F": str(fifo)}}, version=21)
    with fifo.open() as group:
        assert group.readline() == "ready\n"
        executor.close()
        assert group.read() == ""
    assert isinstance(running.outcome(), Release)
    assert holdings() == before


def test_the_nursery_itself_keeps_no_descriptors(commands: CommandExecutor) -> None:
    started(commands, {"argv": ["true"]}, version=1).result()
    folder = f"/proc/{nursery_pid()}/fd"
    before = os.listdir(folder)
    for version in range(2, 12):
        started(commands, {"argv": ["cat"], "stdin": "text"}, version=version).result()
        started(commands, {"argv": ["no-such-program"]}, version=100 + version).outcome()
    assert os.listdir(folder) == before


def test_runs_may_be_started_from_many_threads(output_dir: Path) -> None:
    executor = CommandExecutor(4, env=SYSTEM, output_dir=str(output_dir))
    runs = [command_run({"argv": ["echo", str(n)]}, version=n) for n in range(40)]
    threads = [threading.Thread(target=executor.start, args=(watched.run,)) for watched in runs]
    try:
        for thread in threads:
            thread.start()
        outputs = [watched.result()["stdout_tail"] for watched in runs]
    finally:
        for thread in threads:
            thread.join()
        executor.close()
    assert outputs == [f"{n}\n" for n in range(40)]
