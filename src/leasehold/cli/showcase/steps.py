"""What `demo` shows: each step does something and checks that it came out as promised."""

from __future__ import annotations

import os
import signal
from typing import Final, Literal

from leasehold.cli.showcase import tasks
from leasehold.cli.showcase.stage import WAIT_SECONDS, ShowcaseStage
from leasehold.cli.showcase.step import ShowcaseStep, StepFailedError, expect, most_at_once
from leasehold.cli.showcase.surroundings import SURROUNDINGS
from leasehold.core.model.reason import ReasonKind
from leasehold.core.model.retry import Exponential
from leasehold.core.model.status import Event, Status
from leasehold.core.model.timing import Every
from leasehold.errors import JobFailedError, QueueFullError
from leasehold.queue.options import NewJob
from leasehold.queue.workflow import Workflow

MANY: Final = 200


def submit(stage: ShowcaseStage) -> str:
    job = stage.queue.submit(tasks.add, 2, two=3)
    with stage.workers():
        result = job.result(WAIT_SECONDS)
    expect(result == 5, f"add(2, 3) returned {result}")
    return f"add(2, 3) ran in a worker and returned {result}"


def submit_many(stage: ShowcaseStage) -> str:
    jobs = stage.queue.submit_many([NewJob(tasks.nothing, queue="many")] * MANY)
    with stage.workers(8, "many"):
        ended = stage.queue.wait(jobs, WAIT_SECONDS)
    done = sum(job.status is Status.COMPLETED for job in ended)
    expect(done == MANY, f"only {done} of {MANY} were completed")
    return f"{done} jobs were stored in one write, and all are completed"


def priorities(stage: ShowcaseStage) -> str:
    names: tuple[Literal["low", "medium", "high", "critical"], ...]
    names = ("low", "medium", "high", "critical")
    jobs = {name: stage.queue.submit(tasks.moment, queue="prio", priority=name) for name in names}
    with stage.workers(1, "prio"):
        ran_at = {name: job.result(WAIT_SECONDS) for name, job in jobs.items()}
    served = sorted(ran_at, key=ran_at.__getitem__)
    expect(served == list(reversed(names)), f"they were served as {served}")
    return f"submitted {', '.join(names)}; served {', '.join(served)}"


def delay(stage: ShowcaseStage) -> str:
    job = stage.queue.submit(tasks.nothing, delay=0.3)
    expect(job.status() is Status.SCHEDULED, f"it is {job.status()}, not scheduled")
    with stage.workers():
        ended = job.wait(WAIT_SECONDS)
    assert ended.started_at is not None
    waited = (ended.started_at - ended.created_at).total_seconds()
    expect(waited >= 0.3, f"it ran after {waited:.2f} s already")
    return f"due in 0.3 s, it ran after {waited:.2f} s"


def retries(stage: ShowcaseStage) -> str:
    policy = Exponential(initial_seconds=0.1, factor=2)
    job = stage.queue.submit(tasks.flaky, 3, max_retries=5, retry=policy)
    with stage.workers():
        result = job.result(WAIT_SECONDS)
    outcomes = [attempt.outcome for attempt in stage.queue.attempts(job)]
    expect(outcomes == [Event.FAILED, Event.FAILED, Event.COMPLETED], f"it went {outcomes}")
    return f"failed twice, was tried again after 0.1 s and 0.2 s; {result}"


def dead_letters(stage: ShowcaseStage) -> str:
    till = stage.path("till")
    job = stage.queue.submit(tasks.charge, "Ada", till)
    with stage.workers():
        died = job.wait(WAIT_SECONDS)
        letters = [letter.id for letter in stage.queue.dead_letters]
        expect(letters == [job.id], f"the dead letters are {letters}")
        open(till, "w").close()
        stage.queue.dead_letters.replay(job)
        result = job.result(WAIT_SECONDS)
    expect(not len(stage.queue.dead_letters), "it is still a dead letter")
    assert died.error is not None
    return f"dead: {died.error.message}; the cause was fixed and the job replayed: {result}"


def idempotency(stage: ShowcaseStage) -> str:
    first = stage.queue.submit(tasks.nothing, idempotency_key="order-17")
    second = stage.queue.submit(tasks.nothing, idempotency_key="order-17")
    expect(second.is_duplicate and second.id == first.id, "a second job was stored")
    return "submitted twice under one key, stored once"


def workflow(stage: ShowcaseStage) -> str:
    drawn = Workflow()
    drawn.add("one", NewJob(tasks.add, (1, 2)))
    drawn.add("two", NewJob(tasks.add, (3, 4)))
    drawn.add("sum", NewJob(tasks.total), after=["one", "two"])
    run = stage.queue.submit_workflow(drawn)
    before = run["sum"].status()
    with stage.workers():
        result = run["sum"].result(WAIT_SECONDS)
    expect((before, result) == (Status.BLOCKED, 10), f"{before}, then {result}")
    return f"the third job waited for the other two and added their results: {result}"


def schedule(stage: ShowcaseStage) -> str:
    stage.queue.schedule("often", tasks.nothing, Every(0.2))
    with stage.workers(2), stage.workers(2):
        stage.until(lambda: stage.queue.schedules.get("often").fired >= 2)
    removed = stage.queue.schedules.remove("often")
    fired = sum(1 for _ in stage.queue.search(metadata={"schedule": "often"}))
    expect(fired == removed.fired, f"{removed.fired} ticks made {fired} jobs")
    return f"every 0.2 s, two workers: {fired} ticks, {fired} jobs"


def queue_rules(stage: ShowcaseStage) -> str:
    stage.queue.create_queue("ruled", max_concurrency=2, max_depth=6)
    stage.queue.pause_queue("ruled")
    jobs = [stage.queue.submit(tasks.pause, 0.05, queue="ruled") for _ in range(6)]
    try:
        stage.queue.submit(tasks.nothing, queue="ruled")
    except QueueFullError:
        pass
    else:
        raise StepFailedError("a seventh job was accepted")
    why = stage.queue.why(jobs[0])
    with stage.workers(4, "ruled"):
        expect(why.kind is ReasonKind.QUEUE_PAUSED, f"why says {why}")
        stage.queue.resume_queue("ruled")
        stage.queue.wait(jobs, WAIT_SECONDS)
    together = most_at_once([stage.queue.attempts(job)[0] for job in jobs])
    expect(together <= 2, f"{together} ran at once")
    return f"paused, nothing ran; full, a submit was refused; resumed, {together} ran at once"


def cancel(stage: ShowcaseStage) -> str:
    running = stage.queue.submit(tasks.until_stopped, queue="stop")
    waiting = stage.queue.submit(tasks.nothing, queue="stop")
    with stage.workers(1, "stop"):
        stage.until(lambda: running.status() is Status.RUNNING)
        waiting.cancel("not needed any more")
        running.cancel("not needed any more")
        stage.queue.wait([running, waiting], WAIT_SECONDS)
    for job in (running, waiting):
        expect(job.status() is Status.CANCELLED, f"job {job.id} is {job.status()}")
    return "one that waited and one that ran are cancelled, with the reason"


def progress(stage: ShowcaseStage) -> str:
    enough = stage.path("enough")
    job = stage.queue.submit(tasks.paint, enough)
    with stage.workers():
        stage.until(lambda: (job.progress or {}).get("done") == 50)
        seen = job.progress
        open(enough, "w").close()
        job.result(WAIT_SECONDS)
    log = stage.queue.log(job)
    expect(log == ["half of the wall is painted"], f"the log is {log}")
    return f"seen while it ran: {(seen or {}).get('message')}"


def commands(stage: ShowcaseStage) -> str:
    greeting = "it's $HOME; `date`"
    options = {"allow_commands": True, "output_dir": stage.path("output")}
    good = stage.queue.submit_command(["echo", greeting], queue="shell")
    slow = stage.queue.submit_command("sleep 60", queue="shell", timeout_seconds=0.2, max_retries=0)
    with stage.workers(2, "shell", **options):
        stage.queue.wait([good, slow], WAIT_SECONDS)
    job = good.job()
    expect(job.status is Status.COMPLETED, f"the command is {job.status}: {job.error}")
    with open(job.stdout_path or "") as output:
        printed = output.read().rstrip()
    expect(printed == greeting, f"it printed {printed!r}")
    expect(slow.status() is Status.DEAD, f"the slow one is {slow.status()}")
    stage.queue.dead_letters.discard(slow)
    return f"no shell touched {printed!r}; the one that took too long was killed"


def recovery(stage: ShowcaseStage) -> str:
    job = stage.queue.submit(tasks.survive, 2, queue="risky")
    with stage.worker_process("risky") as doomed:
        stage.until(lambda: job.status() is Status.RUNNING)
        os.kill(doomed.pid, signal.SIGKILL)
        doomed.wait(WAIT_SECONDS)
    stage.until(lambda: bool(stage.queue.lost_workers()))
    report = stage.queue.sweep()
    expect(report.recovered == 1, f"the sweep recovered {report.recovered}")
    with stage.workers(1, "risky"):
        attempt = job.result(WAIT_SECONDS)
    outcomes = [each.outcome for each in stage.queue.attempts(job)]
    expect(outcomes == [Event.RECOVERED, Event.COMPLETED], f"it went {outcomes}")
    return f"kill -9; the kernel proves the worker dead, attempt {attempt} completed the job"


def statistics(stage: ShowcaseStage) -> str:
    before = stage.queue.get_queue_stats()["total_completed"]
    job = stage.queue.submit(tasks.nothing)
    with stage.workers():
        job.wait(WAIT_SECONDS)
    stats = stage.queue.get_queue_stats()
    history = [event.event.value for event in stage.queue.history(job)]
    expect(history == ["created", "leased", "completed"], f"its history is {history}")
    expect(stats["total_completed"] > before, "its end was not counted")
    return (
        f"{stats['total_submitted']} submitted, {stats['total_completed']} completed, "
        f"{stats['total_failed']} attempts failed; a job's history: {', '.join(history)}"
    )


def upkeep(stage: ShowcaseStage) -> str:
    job = stage.queue.submit(tasks.add, 1, 1)
    with stage.workers():
        job.wait(WAIT_SECONDS)
    stage.queue.backup(stage.path("backup.db"))
    done = stage.queue.prune(emergency=True)
    expect(done is not None and stage.queue.archive.get(job).result_summary == "2", "not archived")
    problems = stage.queue.check()
    expect(not problems, "; ".join(problems))
    assert done is not None
    return f"backed up; {done.pruned} jobs archived and deleted; the check finds no problem"


def failures(stage: ShowcaseStage) -> str:
    job = stage.queue.submit(tasks.charge, "Bob", stage.path("nowhere"))
    with stage.workers():
        try:
            job.result(WAIT_SECONDS)
        except JobFailedError as error:
            stage.queue.dead_letters.discard(job)
            expect("was refused" in str(error), str(error))
            return "the caller that waited for the result got the error"
    raise StepFailedError("a job that failed has a result")


STEPS: Final = (
    ShowcaseStep("submit", "A function runs in the background, and its result comes back.", submit),
    ShowcaseStep("submit many", "Many jobs are stored at once: all of them or none.", submit_many),
    ShowcaseStep(
        "priorities", "The most urgent job is served first, whatever came before.", priorities
    ),
    ShowcaseStep("delay", "A job can wait until it is due.", delay),
    ShowcaseStep("retries", "A job that fails is tried again, with growing delays.", retries),
    ShowcaseStep("failures", "A failure reaches the caller that waits.", failures),
    ShowcaseStep(
        "dead letters", "A job that failed for good waits until a person replays it.", dead_letters
    ),
    ShowcaseStep("idempotency", "A submit that is repeated stores nothing twice.", idempotency),
    ShowcaseStep("workflow", "Jobs can wait for other jobs, and read their results.", workflow),
    ShowcaseStep("schedule", "A recurring job: every tick once, however many workers.", schedule),
    ShowcaseStep(
        "queue rules", "Queues can be paused, and limited in depth and concurrency.", queue_rules
    ),
    ShowcaseStep("cancel", "Jobs can be stopped, waiting or running.", cancel),
    ShowcaseStep("progress", "A task can say how far it is, and keep a log.", progress),
    ShowcaseStep("commands", "Programs are jobs too, with their output kept in files.", commands),
    ShowcaseStep("recovery", "A worker is killed; its job is taken back and run again.", recovery),
    ShowcaseStep(
        "statistics", "Counts, totals, and everything that happened to a job.", statistics
    ),
    *SURROUNDINGS,
    ShowcaseStep("upkeep", "A backup while in use, a clean-up, an integrity check.", upkeep),
)
