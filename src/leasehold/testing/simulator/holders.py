"""Careless holders: somebody's own worker, built on the public classes, that does not let go.

It settles twice, renews lost leases and reports under leases of long ago. The store must refuse all
of that, and say so.
"""

from __future__ import annotations

from contextlib import suppress

import msgspec

from leasehold.core.model.joblog import LogLine
from leasehold.core.model.lease import Lease, Settlement
from leasehold.errors import LeaseLostError, StoreError
from leasehold.testing.simulator.channel import channel
from leasehold.testing.simulator.outcomes import draw_outcome
from leasehold.testing.simulator.producers import QUEUES, TASKS
from leasehold.testing.simulator.world import Process, World
from leasehold.worker.heartbeat import Heartbeat
from leasehold.worker.leases import LeaseManager


def holder(name: str) -> Process:
    """A process that leases and settles by hand."""

    def start(process: Process, world: World) -> None:
        held = StubbornHolder(world, process)
        world.act(process, held.step)
        world.act(process, held.beat)

    return Process(name, start)


class StubbornHolder:
    """Leases, works, settles; and remembers leases that it should have forgotten."""

    def __init__(self, world: World, process: Process) -> None:
        self._world = world
        self._random = world.stream(process.name)
        store = channel(world, process)
        self._store = store
        self._leases = LeaseManager(
            store, process.worker_name, lease_seconds=world.swarm.lease_seconds
        )
        self._heartbeat = Heartbeat(
            store,
            process.worker_name,
            env=world.env,
            interval_seconds=world.swarm.lease_seconds / 3,
            on_lost=lambda lease, _: self._let_go(lease),
            on_cancel=lambda _lease, _reason: None,
        )
        self._held: list[Lease] = []
        self._past: list[Lease] = []

    def beat(self) -> float:
        self._heartbeat.beat()
        return self._world.swarm.lease_seconds / 3

    def step(self) -> float:
        # Told, or left in the dark: it goes on with its belief.
        with suppress(StoreError, LeaseLostError):
            self._act()
        return self._random.uniform(0.05, self._world.swarm.run_seconds_max)

    def _act(self) -> None:
        random = self._random
        luck = random.random()
        if self._past and luck < 0.25:
            self._misuse(random.choice(self._past))
        elif self._held and luck < 0.55:
            self._settle(random.choice(self._held))
        elif self._held and luck < 0.65:
            self._leases.renew(random.choice(self._held))
        elif self._held and luck < 0.75:
            self._settle_all_and_lease()
        elif self._held and luck < 0.85:
            lease = random.choice(self._held)
            self._store.report_progress(lease.job_id, lease.version, b'{"done":1}')
        elif len(self._held) < 4:
            self._lease()

    def _lease(self) -> None:
        random = self._random
        sent_at = self._world.now
        leases = self._leases.acquire(
            queues=random.choice((QUEUES, QUEUES[:1], QUEUES[1:])),
            limit=random.randint(1, 3),
            tasks=random.choice((None, None, TASKS[:2])),
            parent_id=random.choice((None, None, None, "group")),
        )
        self._take(leases, sent_at)

    def _settle(self, lease: Lease) -> None:
        self._let_go(lease)
        outcome = draw_outcome(self._random, quiet=self._world.quiet)
        self._leases.settle(lease, outcome)
        self._heartbeat.discard(lease)

    def _settle_all_and_lease(self) -> None:
        settled, sent_at = list(self._held), self._world.now
        settlements = [
            Settlement(lease.job_id, lease.version, draw_outcome(self._random, quiet=False))
            for lease in settled
        ]
        answer = self._leases.exchange(settlements, QUEUES, limit=2)
        for lease in settled:
            self._let_go(lease)
        self._heartbeat.discard_all(settled)
        self._take(answer.leases, sent_at)

    def _misuse(self, lease: Lease) -> None:
        """Act under a lease that is probably over, or under one that never was."""
        random = self._random
        if random.random() < 0.1:
            lease = msgspec.structs.replace(lease, version=lease.version + 1)
        luck = random.random()
        if luck < 0.5:
            self._leases.settle(lease, draw_outcome(random, quiet=False))
        elif luck < 0.8:
            self._leases.renew(lease)
        elif luck < 0.9:
            self._store.report_progress(lease.job_id, lease.version, b'{"done":-1}')
        else:
            line = LogLine(lease.acquired_at, "from the past")
            self._store.append_log(lease.job_id, lease.version, [line])

    def _take(self, leases: list[Lease], sent_at: float) -> None:
        self._held.extend(leases)
        self._heartbeat.add_all(leases, sent_at)

    def _let_go(self, lease: Lease) -> None:
        if lease in self._held:
            self._held.remove(lease)
            self._past.append(lease)
