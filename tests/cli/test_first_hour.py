"""What a newcomer types at a prompt in the first hour."""

from __future__ import annotations

import subprocess
import sys

import pytest

from cli.conftest import Shell
from cli.terminal import Terminal
from leasehold import Every, TaskQueue
from leasehold.cli.commands import COMMANDS, SECTIONS
from leasehold.cli.exits import Exit
from leasehold.cli.jobref import AmbiguousIdError, job_id_of
from leasehold.cli.lastjob import recalled, remember
from leasehold.cli.session import Session
from leasehold.documents.schedules import schedule_document
from leasehold.errors import JobNotFoundError


@pytest.fixture
def session(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> Session:
    """A session on a store with two jobs whose ids begin alike."""
    monkeypatch.setenv("XDG_STATE_HOME", shell.environment["XDG_STATE_HOME"])
    session = Session()
    session.store_url = str(shell.folder / "leasehold.db")
    with TaskQueue(session.store_url, num_workers=0) as queue:
        for tail in ("a1b2c3", "d4b2c3"):
            queue.submit("work", job_id=f"0199c0de-{tail}")
    session.__dict__["queue"] = TaskQueue(session.store_url, num_workers=0)
    return session


def test_a_job_is_named_by_the_end_of_its_id(session: Session) -> None:
    assert job_id_of(session, "a1b2c3") == "0199c0de-a1b2c3"
    assert job_id_of(session, "0199c0de-d") == "0199c0de-d4b2c3"
    with pytest.raises(AmbiguousIdError, match="several jobs end with 'b2c3'"):
        job_id_of(session, "b2c3")
    with pytest.raises(JobNotFoundError):
        job_id_of(session, "2c3")  # Too little to be meant as an end.


def test_last_is_the_job_that_this_shell_submitted(session: Session) -> None:
    with pytest.raises(JobNotFoundError, match="no job was submitted from this shell"):
        job_id_of(session, "@last")
    remember(session.last_job_store, "0199c0de-a1b2c3")
    assert job_id_of(session, "@last") == "0199c0de-a1b2c3"
    assert recalled("another store") is None


def test_enqueue_remembers_its_job(shell: Shell) -> None:
    job_id = shell.ok("enqueue", "--task", "work").out.strip()
    assert shell.ok("why", "@last", "-o", "json").json["id"] == job_id


def test_the_help_names_every_command_once_under_what_it_is_for() -> None:
    placed = [name for names in SECTIONS.values() for name in names]
    assert sorted(placed) == sorted(COMMANDS)


def test_python_runs_the_package(shell: Shell) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "leasehold", "--help"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stdout.startswith("Usage: leasehold ")
    assert "\nLook:\n" in done.stdout


def test_dead_letters_and_running_jobs_say_what_matters_in_colour(shell: Shell) -> None:
    with TaskQueue(shell.folder / "leasehold.db", num_workers=0) as queue:
        queue.submit_command("convert cat.png", job_id="picture", max_retries=0)
        letter = queue.lease(worker="w1", wait=0)
        assert letter is not None
        queue.nack(letter, "no such file", requeue=False)
        queue.submit("work", job_id="busy")
        queue.lease(worker="w2", wait=0)
    assert "$ convert cat.png" in shell.ok("dlq", "list").out
    busy = shell.ok("list", "--state", "running").out
    assert "w2" in busy
    assert "LEASE ENDS" in busy
    listed, told = in_colour(shell, "list"), in_colour(shell, "history", "picture")
    assert "\x1b[31mdead" in listed
    assert "\x1b[36mrunning" in listed
    assert "\x1b[36mrunning\x1b[0m   \x1b[31mdead" in told


def in_colour(shell: Shell, *arguments: str) -> str:
    env = {name: value for name, value in shell.environment.items() if name != "NO_COLOR"}
    return subprocess.run(
        shell.command(*arguments),
        cwd=shell.folder,
        env={**env, "FORCE_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    ).stdout


def test_ctrl_c_ends_the_wait_and_not_the_job(shell: Shell) -> None:
    command = shell.command("enqueue", "--task", "work", "--id", "slow", "--wait")
    with Terminal(command, cwd=shell.folder, env=shell.environment) as terminal:
        terminal.see("waiting for job slow")
        terminal.press("\x03")
        terminal.see("job slow is still pending: no worker serves queue 'default': start one.")
        terminal.see("`queuectl cancel slow` cancels it")
        assert terminal.end() == Exit.INTERRUPTED
    assert shell.ok("show", "slow", "-o", "json").json["job"]["status"] == "pending"


def test_a_job_whose_task_no_worker_knows_says_so(shell: Shell) -> None:
    url = shell.folder / "leasehold.db"
    with TaskQueue(url, num_workers=0) as queue:
        queue.submit("slwo", job_id="lost")
    with TaskQueue(url, num_workers=0) as other:
        other.task(name="fast")(print)
        assert other.run_worker(until_empty=True, slots=1) == "unrunnable"
    assert "no task named 'slwo' is registered" in shell.ok("list").out
    why = shell.ok("why", "lost").out
    assert why.startswith("No worker can run it: no task named 'slwo' is registered")
    assert ". The next try is in " in why
    assert "no worker knows task slwo (1 job)" in shell.ok("status").err
    with TaskQueue(url, num_workers=0) as other:
        other.submit_command("true")
        assert other.run_worker(until_empty=True, slots=1) == "unrunnable"
    assert "no worker runs commands (1 job): start one with --allow-commands" in (
        shell.ok("status").err
    )


def test_a_renamed_task_needs_an_alias_and_not_only_a_worker(shell: Shell) -> None:
    (shell.folder / "chores.py").write_text("def new_name() -> None: ...\n")
    with TaskQueue(shell.folder / "leasehold.db", num_workers=0) as queue:
        queue.submit("chores:old_name", job_id="renamed")
        queue.submit("chores:new_name", job_id="fine")
    assert " ".join(shell.ok("why", "renamed").out.split()) == (
        "No worker serves queue 'default', and the module 'chores' has no 'old_name', so no worker "
        "could run 'chores:old_name': did you mean 'chores:new_name'? If the task was renamed, add "
        "the old name to its aliases; then start a worker. "
        "queuectl worker start --queues default --import chores"
    )
    assert shell.ok("why", "fine").out.startswith("No worker serves queue 'default': start one.\n")


def test_a_store_that_a_command_made_is_told(shell: Shell) -> None:
    made = shell.ok("--store", "typo.db", "enqueue", "--", "echo", "hi")
    assert made.err == "created a new store: typo.db\n"
    assert shell.ok("--store", "typo.db", "enqueue", "--", "echo", "hi").err == ""
    assert "created" not in shell.ok("--store", "other.db", "init").err


def test_the_log_of_workers_in_the_background_is_shown(shell: Shell) -> None:
    assert shell.run("worker", "logs").code == Exit.NOT_FOUND
    folder = shell.folder / "leasehold.db-workers"
    folder.mkdir()
    (folder / "workers.log").write_text("one\ntwo\nthree\n")
    assert shell.ok("worker", "logs", "-n", "2").out == "two\nthree\n"


def test_a_misspelled_task_is_told_before_its_job_is_stored(shell: Shell) -> None:
    (shell.folder / "shop.py").write_text("def slow(): ...\nraise SystemExit('must not run')")
    meant = "the module 'shop' has no 'slwo'"
    for arguments in (
        ("enqueue", "--task", "shop:slwo"),
        ("enqueue", '{"task": "shop:slwo"}'),
        ("schedule", "add", "nightly", "--every", "1h", "--task", "shop:slwo"),
    ):
        refused = shell.run(*arguments)
        assert refused.code == Exit.USAGE
        assert meant in refused.err
        assert "did you mean 'shop:slow'?" in refused.err
    (shell.folder / "jobs.jsonl").write_text('{"task": "shop:slow"}\n{"task": "shop:slwo"}\n')
    refused = shell.run("enqueue", "--file", "jobs.jsonl")
    assert f"line 2: {meant}" in refused.err
    assert shell.ok("list", "--count").out == "0\n"
    shell.ok("enqueue", "--task", "shop:slow")


def test_a_task_that_a_worker_knows_is_right_whatever_the_folder_says(shell: Shell) -> None:
    (shell.folder / "shop.py").write_text("def slow(): ...")
    with TaskQueue(shell.folder / "leasehold.db", num_workers=0) as queue:
        queue.lease(tasks=["shop:pay", "resize"], worker="till-1", wait=0)
        assert shell.ok("enqueue", "--task", "shop:pay").err == ""
        near = shell.ok("enqueue", "--task", "resise")
    assert "no task 'resise' is known here: did you mean 'resize'? The job waits" in near.err


def test_the_id_of_a_scheduled_job_can_be_copied_from_a_message(shell: Shell) -> None:
    job_id = "poll@2030-01-01T00:00:05Z"
    with TaskQueue(shell.folder / "leasehold.db", num_workers=0) as queue:
        queue.submit("work", job_id=job_id)
    near = shell.run("show", "poll@2030-01-01T00:00:06Z")
    assert job_id in near.err
    assert shell.ok("cancel", job_id).out == f"{job_id} cancelled\n"


def test_a_mistyped_queue_is_answered_with_the_one_that_is_meant(shell: Shell) -> None:
    shell.ok("queue", "create", "mail")
    for command in (("show",), ("pause",), ("update", "--max-depth", "5")):
        refused = shell.run("queue", *command, "mial")
        assert (refused.code, refused.err.removeprefix("leasehold: ")) == (
            Exit.NOT_FOUND,
            "there is no queue 'mial': did you mean 'mail'?\n",
        )
    assert shell.ok("list", "--queue", "mial,mail").err == (
        "there is no queue 'mial': did you mean 'mail'?\nno job matches\n"
    )
    refused = shell.run("queue", "create", "mail", "--max-depth", "5")
    assert refused.code == Exit.CONFLICT
    assert "pass --if-exists keep to leave them, --if-exists update" in refused.err
    assert "or use `queuectl queue update` to change some" in refused.err
    assert "if_exists" not in refused.err
    refused = shell.run("enqueue", '{"comand": "true"}')
    assert "unknown field 'comand': did you mean 'command'? The fields are args, " in refused.err


@pytest.mark.parametrize(
    ("option", "value", "meant"),
    [("--args", "5", "5 is not a list"), ("--kwargs", "[1]", "[1] is not an object")],
)
def test_arguments_of_the_wrong_kind_are_refused_in_words(
    shell: Shell, option: str, value: str, meant: str
) -> None:
    refused = shell.run("enqueue", "--task", "work", option, value)
    assert refused.code == Exit.USAGE
    assert meant in refused.err


def test_a_wait_on_a_terminal_names_the_time_that_was_given(shell: Shell) -> None:
    shell.ok("enqueue", "--task", "work", "--id", "slow")
    command = shell.command("wait", "slow", "--timeout", "1")
    with Terminal(command, cwd=shell.folder, env=shell.environment, columns=120) as terminal:
        terminal.see("job slow has not ended within 1 second (it is pending).")
        assert terminal.end() == Exit.TIMEOUT


def test_overdue_schedules_without_a_worker_say_what_they_lack(shell: Shell) -> None:
    with TaskQueue(shell.folder / "leasehold.db", num_workers=0) as queue:
        queue.schedule("hourly", "work", Every(3600))
        assert shell.ok("schedule", "list").err == ""
        queue.lease(wait=0)  # A consumer sees to schedules only while it leases: it does not count.
        queue.schedule("soon", "work", Every(0.1))
        while not schedule_document(queue.schedules.get("soon"), queue.now())["overdue"]:
            queue.submit("other")  # Its write notes the time.
        assert "none is running: start one with `queuectl worker start --queues" in (
            shell.ok("schedule", "list").err
        )


@pytest.mark.parametrize("setting", [{"NO_COLOR": "1"}, {"TERM": "dumb", "NO_COLOR": ""}], ids=str)
def test_a_terminal_that_wants_no_colours_gets_none(shell: Shell, setting: dict[str, str]) -> None:
    with TaskQueue(shell.folder / "leasehold.db", num_workers=0) as queue:
        queue.submit("work", job_id="one")
        queue.cancel("one")
    variables = [f"{name}={value}" for name, value in setting.items()]
    command = ["/usr/bin/env", *variables, *shell.command("show", "one")]
    with Terminal(command, cwd=shell.folder, env=shell.environment) as terminal:
        terminal.see("cancelled")
        terminal.end()
        assert b"\x1b[90m" not in terminal.received


def test_help_is_a_word_too(shell: Shell) -> None:
    assert shell.ok("help").out == shell.ok("--help").out
    assert shell.ok("help", "worker", "start").out == shell.ok("worker", "start", "--help").out
    assert shell.ok("worker", "help").out == shell.ok("worker", "--help").out
    assert "did you mean 'queue' or 'enqueue'?" in shell.run("help", "quue").err


def test_mistyped_commands_get_one_answer_in_every_group(shell: Shell) -> None:
    refused = shell.run("stauts")
    assert "there is no command 'submit': did you mean 'enqueue'?" in shell.run("submit", "x").err
    assert "there is no command 'set': did you mean 'update'?" in shell.run("queue", "set", "x").err
    assert "there is no command 'stauts': did you mean 'stats' or 'status'?" in refused.err
    refused = shell.run("worker", "strat")
    meant = "did you mean 'start', 'status' or 'restart'?"
    assert f"there is no command 'strat': {meant}" in refused.err


def test_mistakes_about_usage_are_told_as_all_others_are(shell: Shell) -> None:
    def said(*arguments: str) -> str:
        return shell.run(*arguments).err.splitlines()[0].partition(": ")[2]

    assert said("nonsense-of-all-kinds") == "there is no command 'nonsense-of-all-kinds'"
    meant = "did you mean '--state', '--status' or '--task'?"
    assert said("list", "--stat", "dead") == f"there is no option '--stat': {meant}"
    before = "there is no option '-l'; put `--` before a command: leasehold enqueue -- COMMAND"
    assert said("enqueue", "ls", "-la") == before
    assert said("list", "--limit") == "option '--limit' requires an argument"
    assert said("list", "--limit", "x").startswith("invalid value for '--limit'")
    assert said("why") == "missing argument 'JOB'"
    shell.ok("init")
    first, second = shell.run("cancel", "one", "two", "--yes").err.splitlines()
    assert first == "leasehold: there is no job 'one': it never existed, or was deleted"
    assert second.startswith("leasehold: there is no job 'two'")


def test_a_mistyped_queue_of_a_module_is_answered_with_the_one_that_is_meant(shell: Shell) -> None:
    (shell.folder / "shop.py").write_text(
        "from leasehold import TaskQueue\nqueue = TaskQueue('leasehold.db', num_workers=0)\n"
    )
    refused = shell.run("worker", "start", "--import", "shop:queu", "--until-empty")
    assert refused.code == Exit.USAGE
    assert "there is no TaskQueue 'shop:queu': did you mean 'shop:queue'?" in refused.err
