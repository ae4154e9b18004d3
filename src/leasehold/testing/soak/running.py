"""One seed, one run: the same calls to every store, compared and judged one by one."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from leasehold.core.model.history import HistoryEvent
from leasehold.core.model.job import Job
from leasehold.core.model.lease import Exchange, Settled
from leasehold.core.model.retention import PruneReport
from leasehold.env import ManualClock
from leasehold.testing.soak.book import Answered, Book
from leasehold.testing.soak.calls import Call, brief
from leasehold.testing.soak.comparing import (
    by_job,
    comparable,
    difference,
    difference_of_snapshots,
)
from leasehold.testing.soak.coverage import Coverage, transition
from leasehold.testing.soak.observing import HistoryReader, Snapshot, observe
from leasehold.testing.soak.rules import RULES, BrokenRuleError, JudgedCall
from leasehold.testing.soak.subjects import Stage, Subject
from leasehold.testing.soak.swarm import DRAWN_LAST, CallFault, Feature, SoakSwarm
from leasehold.testing.soak.verbs import VERBS, Scene

STEPS_DEFAULT = 200
JOBS_MAX = 60
"""With more unfinished jobs, none are submitted for a while: looking at all of them takes time."""
SAME = "SAME"
"""The rule that every store answers alike."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """What to run."""

    seed: int
    steps: int = STEPS_DEFAULT
    omitted: frozenset[int] = frozenset()
    """Steps that a shrunk run leaves out."""
    features: frozenset[Feature] | None = None
    """Only these, instead of the seed's draw."""


@dataclass(slots=True)
class Report:
    """The result of a run."""

    scenario: Scenario
    coverage: Coverage
    calls: int = 0
    broken: BrokenRuleError | None = None
    trace: list[str] = field(default_factory=list)
    """Every step that was taken, in words."""
    taken: list[int] = field(default_factory=list)
    """The numbers of the steps in which anything was done."""


def run(scenario: Scenario, stage: Stage) -> Report:
    """Run a scenario on new stores, to its end or to the first broken rule."""
    clock = ManualClock()
    weighed = [each for each in VERBS.values() if each.feature not in DRAWN_LAST]
    names = tuple(
        each.name for each in sorted(weighed, key=lambda each: each.feature is Feature.OPERATIONS)
    )
    swarm = SoakSwarm.draw(Random(f"{scenario.seed}/swarm"), names)
    if scenario.features is not None:
        swarm = replace(swarm, features=scenario.features | {Feature.ALWAYS})
    subjects = stage.subjects(clock, lasting_only=swarm.has(Feature.REPAIRS))
    if not swarm.prompt:
        only = subjects.pop(scenario.seed % len(subjects))
        for subject in subjects:
            subject.close()
        subjects = [only]
    report = Report(scenario, Coverage())
    try:
        with _silence():
            SoakRun(scenario, subjects, clock, report, swarm).go()
    except BrokenRuleError as error:
        report.broken = error
    finally:
        for subject in subjects:
            with suppress(Exception):
                subject.close()
    return report


class SoakRun:
    """A run that is going on."""

    def __init__(
        self,
        scenario: Scenario,
        subjects: list[Subject],
        clock: ManualClock,
        report: Report,
        swarm: SoakSwarm,
    ) -> None:
        self._scenario = scenario
        self._subjects = subjects
        self._clock = clock
        self._report = report
        self._swarm = swarm
        self._book = Book(clocks=swarm.has(Feature.CLOCKS))
        self._seen = [self._observe(subject) for subject in subjects]
        self._histories = [HistoryReader() for _ in subjects]
        verbs = [each for each in VERBS.values() if self._swarm.has(each.feature)]
        self._verbs = [each.name for each in verbs]
        self._weights = [each.weight * self._swarm.weights.get(each.name, 1.0) for each in verbs]

    def go(self) -> None:
        for number in range(self._scenario.steps):
            if number not in self._scenario.omitted:
                self._step(number, Random(f"{self._scenario.seed}/{number}"))
        self._end()

    # -- one step ----------------------------------------------------------------------------

    def _step(self, number: int, random: Random) -> None:
        self._arrive(number)
        name = random.choices(self._verbs, self._weights)[0]
        if name.startswith("submit") and self._is_crowded():
            return
        strikes = {
            fault: random.random() < self._swarm.chances.get(fault, 0.0) for fault in CallFault
        }
        scene = Scene(random, self._seen[0], self._book, self._swarm, self._clock)
        asked = VERBS[name].draw(scene)
        self._report.coverage.verbs[name] += 1
        self._report.taken.append(number)
        if asked is None:
            self._report.trace.append(f"{number}: {name}: it is {self._clock.now():%d %H:%M:%S}")
            return
        self._strike(number, strikes, random)
        if strikes[CallFault.DELAYED]:
            self._note(number, CallFault.DELAYED, str(asked))
            self._book.late.append((number + random.randint(1, 20), asked))
            return
        heard = not strikes[CallFault.REPLY_LOST]
        self._perform(number, asked, heard=heard and not strikes[CallFault.REPEATED])
        if not heard:
            self._note(number, CallFault.REPLY_LOST)
        if strikes[CallFault.REPEATED]:
            self._note(number, CallFault.REPEATED)
            self._perform(number, asked, heard=heard)
        if strikes[CallFault.REPEATED_LATE]:
            self._note(number, CallFault.REPEATED_LATE)
            self._book.late.append((number + random.randint(1, 30), asked))

    def _is_crowded(self) -> bool:
        return sum(not job.is_terminal for job in self._seen[0].jobs.values()) >= JOBS_MAX

    def _arrive(self, number: int) -> None:
        """Calls under way arrive, and stopped programs go on."""
        book = self._book
        book.held += [lease for due, lease in book.stopped if due <= number]
        book.stopped = [each for each in book.stopped if each[0] > number]
        arrived = [asked for due, asked in book.late if due <= number]
        book.late = [each for each in book.late if each[0] > number]
        for asked in arrived:
            self._perform(number, asked, heard=False)

    def _strike(self, number: int, strikes: dict[CallFault, bool], random: Random) -> None:
        """Faults that strike holders and stores, between two calls."""
        book = self._book
        worker = random.choice(self._swarm.workers)
        its = [lease for lease in book.held if lease.worker == worker]
        if strikes[CallFault.CRASHED] and its:
            self._note(number, CallFault.CRASHED, worker)
            book.held = [lease for lease in book.held if lease not in its]
        elif strikes[CallFault.STOPPED] and its:
            self._note(number, CallFault.STOPPED, worker)
            book.held = [lease for lease in book.held if lease not in its]
            until = number + random.randint(5, 40)
            book.stopped += [(until, lease) for lease in its]
        if strikes[CallFault.RESTARTED]:
            self._note(number, CallFault.RESTARTED)
            for subject in self._subjects:
                subject.restart()
            self._look_again()

    def _note(self, number: int, fault: CallFault, what: str = "") -> None:
        self._report.coverage.faults[fault] += 1
        self._report.trace.append(f"{number}: {fault} {what}".rstrip())

    # -- one call ----------------------------------------------------------------------------

    def _perform(self, number: int, asked: Call, *, heard: bool) -> None:
        report = self._report
        report.calls += 1
        # As long as no time passes, nothing is due that was not after the last call.
        if self._swarm.prompt and self._clock.reading() != self._seen[0].reading:
            for subject in self._subjects:
                subject.store.promote()
            self._look_again()
        # Not the last observation: time may have passed since then, and a store that forgets by
        # itself does so at the first look. That is none of the call's doing.
        now = self._subjects[0].store.now()
        if now > self._seen[0].now:
            self._look_again()
        before = self._seen
        asked = self._book.as_repeated(asked, now)
        try:
            answers = [subject.carry_out(asked) for subject in self._subjects]
            if self._swarm.prompt:
                for subject in self._subjects:
                    subject.store.promote()
            self._seen = [self._observe(subject) for subject in self._subjects]
        except Exception as error:
            report.trace.append(f"{number}: {asked} broke")
            raise BrokenRuleError("ALL", f"{asked} raised {error!r}") from error
        report.trace.append(
            f"{number}: {self._seen[0].now:%H:%M:%S} {asked} -> {brief(answers[0])}"
        )
        events = [
            histories.news(subject.store, was, after, _named(asked, after))
            for histories, subject, was, after in zip(
                self._histories, self._subjects, before, self._seen, strict=True
            )
        ]
        step = JudgedCall(
            asked, answers[0], before[0], self._seen[0], events[0], self._book,
            self._subjects[0].store,
        )  # fmt: skip
        self._count(step)
        self._judge(step)
        self._compare(asked, answers, events)
        self._remember(step, heard=heard)

    def _judge(self, step: JudgedCall) -> None:
        for name, judge in RULES.items():
            try:
                self._report.coverage.rules[name] += judge(step)
            except AssertionError as error:
                raise BrokenRuleError(name, f"{step.call}: {error}") from error

    def _compare(self, asked: Call, answers: list[Any], events: list[list[HistoryEvent]]) -> None:
        first, now = self._seen[0], self._seen[0].now
        for index in range(1, len(self._subjects)):
            pairs = ((answers[0], answers[index]), (by_job(events[0]), by_job(events[index])))
            found = difference_of_snapshots(first, self._seen[index])
            for mine, theirs in pairs:
                if found is None and mine != theirs:
                    found = difference(comparable(mine, now), comparable(theirs, now))
            if found is not None:
                names = f"{self._subjects[0].name} and {self._subjects[index].name}"
                raise BrokenRuleError(SAME, f"{names} differ after {asked}: {found}")
            self._report.coverage.rules[SAME] += 1

    def _count(self, step: JudgedCall) -> None:
        coverage = self._report.coverage
        answers = step.answer if isinstance(step.answer, list) else [step.answer]
        if isinstance(step.answer, Exchange):
            answers = step.answer.settled
        for answer in answers:
            if isinstance(answer, Exception):
                coverage.errors[type(answer).__name__] += 1
        for event in step.events:
            if event.before is not event.after:
                coverage.transitions[transition(event.event, event.before, event.after)] += 1

    def _remember(self, step: JudgedCall, *, heard: bool) -> None:
        """What callers know after this."""
        book, answer = self._book, step.answer
        request_id = step.call.request_id
        if request_id is not None and not isinstance(answer, Exception):
            book.requests[request_id] = Answered(step.call, answer, step.after.now)
        self._still_to_tell(step.events, step.gone)
        book.reused.update(job.id for job in step.new if job.id in book.gone_ids)
        book.gone_ids += [job.id for job in step.gone if job.id not in book.gone_ids]
        book.gone_ids = [each for each in book.gone_ids if each not in step.after.jobs]
        if isinstance(answer, Exchange):
            for settled in answer.settled:
                if isinstance(settled, Settled):
                    book.let_go(settled.job_id, settled.version)
            for lease in answer.leases if heard else ():
                book.held.append(lease)
        if isinstance(answer, Settled):
            book.let_go(answer.job_id, answer.version)
        if isinstance(answer, PruneReport):
            more = answer.more and answer.run is not None
            book.prune_run = (answer.run or 0, step.call) if more else None

    # -- looking -----------------------------------------------------------------------------

    def _observe(self, subject: Subject) -> Snapshot:
        return observe(subject.store, self._clock.reading())

    def _look_again(self) -> None:
        """Follow what happened beside the calls that are judged."""
        before = self._seen
        self._seen = [self._observe(subject) for subject in self._subjects]
        events = [
            histories.news(subject.store, was, after, ())
            for histories, subject, was, after in zip(
                self._histories, self._subjects, before, self._seen, strict=True
            )
        ]
        gone = [job for job_id, job in before[0].jobs.items() if job_id not in self._seen[0].jobs]
        for job in gone:
            if not before[0].may_forget(job):
                raise BrokenRuleError("GONE", f"{job.id} was {job.status}, and nobody sent it away")
        self._still_to_tell(events[0], gone)
        self._book.gone_ids += [job.id for job in gone]

    def _still_to_tell(self, events: Iterable[HistoryEvent], gone: Iterable[Job]) -> None:
        untold = self._book.untold
        if untold is not None:
            for event in events:
                untold.events[event.job_id].append((event.sequence, event.event))
            untold.gone.update(job.id for job in gone)

    def _end(self) -> None:
        """Nothing is damaged, whatever has happened."""
        for subject in self._subjects:
            problems = subject.store.check()
            if problems:
                raise BrokenRuleError("CHECK", f"{subject.name} finds {problems}")


def _named(asked: Call, after: Snapshot) -> Collection[str]:
    """The jobs that a call is about, as far as it says; an order by filter may be about all."""
    if asked.method in ("order", "advance_operation"):
        return after.jobs
    given = asked.arguments
    named = set(given.get("job_ids", ()))
    named.update(each.job_id for each in given.get("settlements", ()))
    named.update(each.job_id for each in given.get("renewals", ()))
    if "job_id" in given:
        named.add(given["job_id"])
    if "settlement" in given:
        named.add(given["settlement"].job_id)
    return named


@contextmanager
def _silence() -> Iterator[None]:
    """A simulated disaster fills no log."""
    logger = logging.getLogger("leasehold")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)
