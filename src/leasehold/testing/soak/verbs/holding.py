"""Holders: lease, settle, renew, report; and use leases of long ago."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from leasehold.core.model.breaker import Breaker
from leasehold.core.model.joblog import LogLine
from leasehold.core.model.lease import LeaseRequest, Renewal, Settlement
from leasehold.core.model.outcome import Cancel, Complete, Fail, JobError, Outcome, Release, Snooze
from leasehold.core.model.records import WorkerInfo
from leasehold.core.model.status import Event
from leasehold.testing.soak.calls import COMPLETE_WITHIN, Call, call
from leasehold.testing.soak.swarm import Feature
from leasehold.testing.soak.verbs.base import Scene, verb
from leasehold.testing.soak.verbs.submitting import TASKS

_ERROR = JobError("OSError", "the line is dead")


@verb("lease", 25)
def lease(scene: Scene) -> Call:
    return scene.once(call("exchange", settlements=[], request=_request(scene)))


@verb("settle", 25)
def settle(scene: Scene) -> Call | None:
    settlements = _settlements(scene, most=1)
    return call("exchange", settlements=settlements, request=None) if settlements else None


@verb("settle and lease", 15)
def settle_and_lease(scene: Scene) -> Call | None:
    settlements = _settlements(scene, most=4)
    return scene.once(call("exchange", settlements=settlements, request=_request(scene)))


@verb("complete within a transaction", 4, Feature.TRANSACTIONS)
def complete_within(scene: Scene) -> Call | None:
    held = scene.lease()
    if held is None:
        return None
    settlement = Settlement(held.job_id, held.version, Complete(b'"kept together"'))
    return call(COMPLETE_WITHIN, settlement=settlement, commit=scene.luck(0.7))


@verb("renew", 10)
def renew(scene: Scene) -> Call | None:
    held = scene.lease()
    if held is None:
        return None
    seconds = scene.random.choice((1.0, held.lease_seconds, 3 * held.lease_seconds))
    renewals = [Renewal(held.job_id, held.version, seconds)]
    return call("renew", worker=held.worker, renewals=renewals)


@verb("report progress", 4, Feature.REPORTS)
def report_progress(scene: Scene) -> Call | None:
    held = scene.lease()
    if held is None:
        return None
    progress = scene.random.choice((b'{"done":1}', b'{"done":2}', b"[1]"))
    return call("report_progress", job_id=held.job_id, version=held.version, progress=progress)


@verb("append to the log", 4, Feature.REPORTS)
def append_log(scene: Scene) -> Call | None:
    held = scene.lease()
    if held is None:
        return None
    count = scene.random.choice((1, 2, 2, 600))
    lines = [LogLine(held.acquired_at + timedelta(seconds=n), f"line {n}") for n in range(count)]
    dropped = scene.random.choice((0, 0, 3))
    return call(
        "append_log", job_id=held.job_id, version=held.version, lines=lines, dropped=dropped
    )


@verb("tell", 2, Feature.REPORTS)
def tell(scene: Scene) -> Call | None:
    held = scene.lease()
    if held is None:
        return None
    event = scene.random.choice((Event.HEARTBEAT_FAILED, Event.ABANDONED, Event.COMPLETED))
    return call(
        "tell",
        job_id=held.job_id,
        event=event,
        worker=held.worker,
        version=held.version,
        message="told",
    )


@verb("sweep", 10)
def sweep(scene: Scene) -> Call:  # noqa: ARG001 - every verb sees the scene.
    return call("recover")


@verb("promote", 3)
def promote(scene: Scene) -> Call:  # noqa: ARG001 - every verb sees the scene.
    return call("promote")


@verb("take a job back", 3, Feature.PEOPLE)
def recover_one(scene: Scene) -> Call | None:
    held = scene.lease()
    if held is None:
        return None
    return call(
        "recover_one",
        job_id=held.job_id,
        version=held.version,
        reset_attempts=scene.luck(0.5),
        reason="stuck",
        actor=scene.random.choice((None, "ada")),
    )


@verb("look for stuck jobs", 2, Feature.PEOPLE)
def stuck(scene: Scene) -> Call:
    return call("stuck", silent_seconds=scene.random.choice((0.0, scene.swarm.lease_seconds)))


@verb("register a worker", 1, Feature.WORKERS)
def register_worker(scene: Scene) -> Call:
    info = WorkerInfo(
        id=scene.random.choice(scene.swarm.workers),
        host="here",
        pid=1,
        queues=scene.swarm.queues,
        slots=2,
        started_at=scene.seen.now,
        heartbeat_at=scene.seen.now,
    )
    return call("register_worker", info=info)


@verb("list workers", 1, Feature.WORKERS)
def workers(scene: Scene) -> Call:  # noqa: ARG001 - every verb sees the scene.
    return call("workers")


def _request(scene: Scene) -> LeaseRequest:
    random, queues = scene.random, scene.swarm.queues
    return LeaseRequest(
        worker=random.choice(scene.swarm.workers),
        queues=random.choice((queues, queues, (random.choice(queues),))),
        limit=random.choice((1, 1, 2, 5, 20)),
        free_slots=random.choice((None, None, None, 0, 1, 3)),
        lease_seconds=random.choice((None, scene.swarm.lease_seconds, scene.swarm.lease_seconds)),
        lease_seconds_by_task=random.choice((None, None, {"mail": 7.0})),
        tasks=random.choice((None, None, None, TASKS[:2])),
        except_lanes=random.choice(((), (), (), ((queues[0], TASKS[0]),))),
        parent_id=random.choice((None, None, None, None, "group")),
    )


def _settlements(scene: Scene, most: int) -> list[Settlement]:
    found = []
    for _ in range(scene.random.randint(1, most)):
        held = scene.lease()
        if held is not None:
            version = held.version + (scene.luck(0.02))
            found.append(Settlement(held.job_id, version, _outcome(scene)))
    return found


def _outcome(scene: Scene) -> Outcome:
    random = scene.random
    luck = random.random()
    if luck < 0.45:
        return Complete(
            random.choice((b'"done"', b'"done anew"', None)), random.choice((None, b'"noted"'))
        )
    if luck < 0.75:
        failed = Fail(_ERROR)
        if scene.has(Feature.BREAKERS):
            failed = msgspec.structs.replace(failed, breaker=Breaker(2, 20.0))
        return failed
    if luck < 0.80:
        return Fail(_ERROR, retryable=False)
    if luck < 0.85:
        return Fail(_ERROR, retry_after_seconds=random.choice((0.0, 12.0)))
    if luck < 0.90:
        return Snooze(random.choice((0.0, 10.0)), "not now")
    if luck < 0.96:
        return Release(random.choice((0.0, 5.0)), "handed back")
    return Cancel("no longer wanted")
