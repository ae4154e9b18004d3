"""`wait` and `logs`, and `enqueue --wait`: what became of a job, and what it said."""

from __future__ import annotations

import subprocess
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.conftest import Shell
from cli.crews import WAIT, Gate, crews, gate
from cli.seed import run_here, store_of
from cli.terminal import Terminal
from leasehold import TaskQueue
from leasehold.cli import logs, wait
from leasehold.cli.exits import Exit
from leasehold.cli.logs import LINE_BYTES_MAX, LogReader, Tail
from leasehold.core.model.joblog import LogLine
from leasehold.core.model.pages import LogPage, log_page
from leasehold.testing.conformance.base import SAID_AT

__all__ = ["crews", "gate"]

TASKS = """
from leasehold import TaskQueue, current_job

queue = TaskQueue("leasehold.db", num_workers=0)

@queue.task(name="talk")
def talk(count):
    for number in range(count):
        current_job().log(f"line {number} \\x1b[31m")
    return {"said": count}
"""
HOSTILE = r"printf '\033]0;pwned\007\342\200\256red\r\n'; head -c 3000000 /dev/zero | tr '\0' x"


def work(shell: Shell, *arguments: str) -> None:
    shell.ok("worker", "start", "--until-empty", "--quiet", "--allow-commands", *arguments)


def test_wait_says_how_jobs_ended(crews: Shell) -> None:
    crews.ok("enqueue", "--id", "good", "--command", "echo hi")
    crews.ok(
        "enqueue", "--id", "bad", "--max-retries", "0", "--", "sh", "-c", "echo no >&2; exit 3"
    )
    crews.ok("enqueue", "--id", "never", "--delay", "1h", "--task", "t")
    late = crews.run("wait", "good", "--timeout", "0.1")
    assert (late.code, late.out) == (Exit.TIMEOUT, "")
    work(crews)
    assert crews.ok("wait", "good").out == (
        "JOB    STATUS      ATTEMPTS   ERROR\n"
        "───────────────────────────────────\n"
        "good   completed          1   -    \n"
    )
    failed = crews.run("wait", "good", "bad", "-o", "jsonl")
    assert failed.code == Exit.JOB_FAILED
    assert [job["status"] for job in failed.jsonl] == ["completed", "dead"]
    assert failed.jsonl[0]["result"]["exit_code"] == 0
    assert failed.jsonl[1]["error"]["message"] == "exit code 3: no"
    assert crews.run("wait", "nobody").code == Exit.NOT_FOUND
    assert crews.run("wait").code == Exit.USAGE


def test_enough_of_the_beginning_of_an_id_will_do(shell: Shell) -> None:
    with store_of(shell) as queue:
        queue.submit("t", job_id="picture-1")
        queue.submit("t", job_id="picture-2")
        queue.submit("t", job_id="letter")
        for name in ("picture-1", "picture-2", "letter"):
            queue.cancel(name)
    waited = run_here(shell, "wait", "picture-1", "let", "-o", "jsonl")
    assert [job["id"] for job in waited.jsonl] == ["picture-1", "letter"]
    assert run_here(shell, "logs", "let").code == Exit.OK
    for command in ("wait", "logs"):
        several = run_here(shell, command, "pic")
        assert (several.code, several.out) == (Exit.USAGE, "")
        assert "several jobs begin with 'pic': picture-1, picture-2" in several.err
        assert run_here(shell, command, "nobody").code == Exit.NOT_FOUND
    dependent = run_here(shell, "enqueue", "--task", "t", "--depends-on", "let")
    assert run_here(shell, "show", dependent.out.strip(), "-o", "json").json["job"][
        "depends_on"
    ] == ["letter"]


def test_enqueue_and_wait(crews: Shell) -> None:
    (crews.folder / "talking.py").write_text(TASKS)
    crews.ok(
        *("worker", "start", "--background", "--quiet", "--allow-commands", "--import", "talking")
    )
    command = crews.ok("enqueue", "--wait", "--", "sh", "-c", "echo out; echo err >&2")
    assert command.out == "out\n"
    assert command.err.splitlines()[0].endswith("is completed after 1 attempt")
    assert command.err.splitlines()[1:] == ["err"]
    task = crews.ok("enqueue", "--wait", "--task", "talk", "--args", "[2]")
    assert task.json == {"said": 2}
    document = crews.run("enqueue", "-w", "--max-retries", "0", "-o", "json", "--command", "exit 4")
    assert document.code == Exit.JOB_FAILED
    assert document.json["status"] == "dead"
    assert document.json["is_duplicate"] is False
    assert document.json["error"]["message"] == "exit code 4"
    late = crews.run("enqueue", "--delay", "1h", "--wait-timeout", "0.1", "--task", "talk")
    assert late.code == Exit.TIMEOUT


@pytest.mark.parametrize(
    "command", [["enqueue", "--wait", "--task", "t"], ["wait", "job"], ["logs", "job", "--follow"]]
)
def test_who_waits_on_a_terminal_is_told_why(shell: Shell, command: list[str]) -> None:
    with store_of(shell) as queue:
        queue.submit("t", job_id="job")
    with Terminal(
        shell.command(*command), cwd=shell.folder, env=shell.environment, columns=120
    ) as terminal:
        terminal.see("is still pending: no worker serves queue 'default': start")
        terminal.press("\x03")
        assert terminal.end() == Exit.INTERRUPTED
        assert terminal.text.count("is still pending: no worker serves") == 2


def test_ctrl_c_says_why_nothing_came_wherever_it_comes(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    with store_of(shell) as queue:
        queue.submit("t", job_id="job")

    def interrupted(*_arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(TaskQueue, "output_paths", interrupted)
    done = run_here(shell, "logs", "job", "--follow")
    assert done.code == Exit.INTERRUPTED
    assert "job job is still pending: no worker serves queue 'default': start one." in done.err


def test_a_program_that_waits_is_told_why_once(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wait, "LOOK_AGAIN_SECONDS", 0.01)
    with store_of(shell) as queue:
        queue.submit("t", job_id="job")
    late = run_here(shell, "wait", "job", "--timeout", "0.1")
    assert late.code == Exit.TIMEOUT
    assert late.err.count("job job is still pending: no worker serves queue 'default'") == 1
    assert "job job has not ended within 0.1 seconds" in late.err


def test_a_job_that_went_well_at_last_shows_no_error(shell: Shell) -> None:
    with store_of(shell) as queue:
        queue.submit("t", job_id="job", retry=[0])
        for end in ("nack", "ack"):
            lease = queue.lease(worker="w")
            assert lease is not None
            queue.nack(lease, "no luck") if end == "nack" else queue.ack(lease)
    for name in ("list", "wait"):
        shown = run_here(shell, name, *(["job"] if name == "wait" else []))
        assert "completed" in shown.out
        assert "no luck" not in shown.out


def test_logs_of_a_command_by_stream_and_attempt(crews: Shell) -> None:
    script = 'echo "out $LEASEHOLD_ATTEMPT"; echo "err $LEASEHOLD_ATTEMPT" >&2; exit 1'
    crews.ok("enqueue", "--id", "job", "--max-retries", "1", "--command", script)
    assert crews.ok("logs", "job").out == "", "it has not begun"
    work(crews)
    assert crews.ok("logs", "job").out == "out 2\nerr| err 2\n"
    assert crews.ok("logs", "job", "--stderr").out == "err 2\n"
    assert crews.ok("logs", "job", "--stdout", "--attempt", "1").out == "out 1\n"
    assert crews.ok("logs", "job", "-o", "jsonl").jsonl == [
        {"stream": "stdout", "text": "out 2", "at": None},
        {"stream": "stderr", "text": "err 2", "at": None},
    ]
    assert crews.run("logs", "nobody").code == Exit.NOT_FOUND
    assert crews.run("logs", "job", "--follow", "--attempt", "1").code == Exit.USAGE


def test_logs_of_a_job_that_said_nothing(crews: Shell) -> None:
    crews.ok("enqueue", "--command", "true", "--id", "command")
    assert "command has not run: it is pending" in crews.ok("logs", "command").err
    crews.ok("enqueue", "--task", "quiet", "--id", "task")
    assert "task has logged nothing; it is pending" in crews.ok("logs", "task").err
    crews.ok("cancel", "task", "-y")
    work(crews)
    silent = crews.ok("logs", "command")
    assert (silent.out, "has printed nothing here; it is completed" in silent.err) == ("", True)
    assert crews.ok("logs", "command", "-o", "json").json == []


def test_logs_of_a_task(crews: Shell) -> None:
    (crews.folder / "talking.py").write_text(TASKS)
    crews.ok("enqueue", "--id", "job", "--task", "talk", "--args", "[2]")
    work(crews, "--import", "talking")
    assert crews.ok("logs", "job", "--follow").out == "line 0 \\x1b[31m\nline 1 \\x1b[31m\n"
    assert crews.run("logs", "job", "--stdout").code == Exit.USAGE
    timed = crews.ok("logs", "job", "--timestamps").out.splitlines()
    moments = [datetime.fromisoformat(line[:20]) for line in timed]
    assert moments == sorted(moments)
    assert [line[21:] for line in timed] == ["line 0 \\x1b[31m", "line 1 \\x1b[31m"]
    documents = crews.ok("logs", "job", "-o", "json").json
    assert [document["text"] for document in documents] == ["line 0 \x1b[31m", "line 1 \x1b[31m"]
    assert all(datetime.fromisoformat(document["at"]) for document in documents)


def test_follow_a_job_while_it_runs_and_into_its_next_attempt(crews: Shell, gate: Gate) -> None:
    script = f'echo "attempt $LEASEHOLD_ATTEMPT"; {gate.command}; test "$LEASEHOLD_ATTEMPT" = 2'
    crews.ok("enqueue", "--id", "job", "--max-retries", "1", "--command", script)
    with subprocess.Popen(
        crews.command("logs", "job", "--follow"),
        cwd=crews.folder,
        env=crews.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as follow:
        assert follow.stdout is not None
        crews.ok("worker", "start", "--background", "--allow-commands")
        for attempt in (1, 2):
            # It is shown while the command still waits at the gate.
            assert follow.stdout.readline() == f"attempt {attempt}\n"
            gate.open()
            assert follow.stdout.readline() == "passed on\n"
        out, err = follow.communicate(timeout=WAIT)
    assert (follow.returncode, out) == (0, "")
    # On a busy machine it has said before that no worker serves the queue yet.
    assert err.splitlines()[-2:] == ["-- the next attempt --", "job job is completed"]


def test_hostile_output_does_not_reach_the_terminal_raw(crews: Shell) -> None:
    crews.ok("enqueue", "--id", "job", "--command", HOSTILE)
    work(crews)
    shown = crews.ok("logs", "job").out
    first, second = shown.splitlines()
    assert first == r"\x1b]0;pwned\x07\u202ered"
    assert second == "x" * LINE_BYTES_MAX + f" … {3_000_000 - LINE_BYTES_MAX:,} bytes more"


@given(st.lists(st.binary(max_size=40) | st.just(b"\n"), max_size=20))
def test_a_file_read_while_it_grows_gives_the_lines_of_the_whole(
    tmp_path_factory: object, pieces: list[bytes]
) -> None:
    path = Path(tmp_path_factory.mktemp("tail") / "out")  # type: ignore[attr-defined]
    tail = Tail(str(path), "stdout")
    seen = list(tail.new_lines())
    with path.open("wb", buffering=0) as file:
        for piece in pieces:
            file.write(piece)
            seen += tail.new_lines()
    seen += tail.rest()
    expected = b"".join(pieces).split(b"\n")
    if not expected[-1]:
        expected.pop()
    assert [line.text for line in seen] == [
        line.removesuffix(b"\r").decode("utf-8", "replace") for line in expected
    ]


@given(st.lists(st.integers(0, 8), max_size=6), st.integers(1, 6), st.integers(1, 4))
def test_every_line_of_a_bounded_log_is_told_once(bursts: list[int], kept: int, page: int) -> None:
    """However many come between two looks; those that were dropped by then are counted."""
    said = [f"line {number}" for number in range(sum(bursts))]
    session = Told()
    reader = LogReader(session, None)  # type: ignore[arg-type]
    told: list[str] = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(logs, "LINES_AT_ONCE", page)
        for burst in bursts:
            session.write(burst, kept)
            told += [line.text for line in reader.new_lines()]
    assert len(told) == len(set(told))
    assert len(told) + session.missed == len(said)
    assert told[-kept:] == said[-kept:]


class Told:
    """A session whose job writes to a bounded log; counts what it is told was dropped."""

    def __init__(self) -> None:
        self.missed = 0
        self.queue = self
        self._numbered: list[tuple[int, LogLine]] = []
        self._written = 0

    def write(self, lines: int, kept: int) -> None:
        for _ in range(lines):
            self._numbered.append((self._written + 1, LogLine(SAID_AT, f"line {self._written}")))
            self._written += 1
        del self._numbered[:-kept]

    def log_page(self, _job: object, *, limit: int, cursor: str | None) -> LogPage:
        after = int(cursor or 0)
        return log_page([each for each in self._numbered if each[0] > after], after, limit)

    def tell(self, text: str) -> None:
        self.missed += int(text.split(maxsplit=1)[0])
