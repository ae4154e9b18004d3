"""Queues and schedules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leasehold.core.model.budget import PURGE_AT_ONCE
from leasehold.core.model.job import Job
from leasehold.core.model.key_limits import KeyInfo
from leasehold.core.model.queue_config import QueueConfig, QueueInfo, QueueState
from leasehold.core.model.records import Purged
from leasehold.core.model.schedule import Fired, Schedule, ScheduleDraft
from leasehold.core.model.search import JobFilter
from leasehold.core.model.stored import moment
from leasehold.core.rules import scheduling
from leasehold.stores.memory import queues
from leasehold.stores.memory.locked import LockedState
from leasehold.stores.memory.record import snapshot
from leasehold.stores.memory.schedules import ScheduleShelf, fire_due
from leasehold.stores.memory.state import State
from leasehold.stores.memory.verbs.burying import BuryingVerbs


class QueueVerbs(BuryingVerbs):
    """Queues and their rules."""

    def queues(self) -> list[str]:
        return self._look(lambda state: sorted(state.queues))

    def create_queue(self, queue: str, config: QueueConfig, *, actor: str) -> QueueInfo:
        info = self._change_queue(queue, queues.create, config, actor)
        self._place_anew(queue)
        return info

    def update_queue(self, queue: str, changes: Mapping[str, Any], *, actor: str) -> QueueInfo:
        info = self._change_queue(queue, queues.update, changes, actor)
        self._place_anew(queue)
        return info

    def _place_anew(self, queue: str) -> None:
        """A queue's parameters have changed: other calls go on while jobs are placed anew."""
        while self._run(queues.place_anew, queue):
            pass

    def set_queue_state(self, queue: str, state: QueueState, *, actor: str) -> QueueInfo:
        return self._change_queue(queue, queues.set_state, state, actor)

    def purge_queue(
        self, queue: str, where: JobFilter, *, actor: str, limit: int = PURGE_AT_ONCE
    ) -> Purged:
        return self._run(queues.purge, queue, where, actor, limit)

    def delete_queue(self, queue: str, *, force: bool, actor: str) -> int:
        if self._change_queue(queue, queues.delete, actor, force):
            return 0
        return self._bury(queue)

    def queue_info(self, queue: str) -> QueueInfo | None:
        return self._look(queues.info, queue)

    def list_queues(self) -> list[QueueInfo]:
        return self._look(queues.infos)

    def key_info(self, queue: str, key: str) -> KeyInfo:
        return self._look(queues.key_info, queue, key)


class ScheduleVerbs(LockedState):
    """Schedules."""

    def set_schedule(self, draft: ScheduleDraft, *, actor: str) -> Schedule:
        draft.check()
        return self._run(lambda state: scheduling.set_schedule(ScheduleShelf(state), draft, actor))

    def schedules(self) -> list[Schedule]:
        return self._look(
            lambda state: [known.detached() for _, known in sorted(state.schedules.items())]
        )

    def get_schedule(self, name: str) -> Schedule | None:
        return self._look(lambda state: ScheduleShelf(state).find(name))

    def remove_schedule(self, name: str, *, actor: str) -> Schedule:
        return self._run(
            lambda state: scheduling.remove_schedule(ScheduleShelf(state), name, actor)
        )

    def pause_schedule(self, name: str, *, paused: bool, actor: str) -> Schedule:
        return self._run(
            lambda state: scheduling.pause_schedule(ScheduleShelf(state), name, paused, actor)
        )

    def run_schedule(self, name: str, *, job_id: str, actor: str) -> Job:
        def verb(state: State) -> Job:
            refusal = scheduling.run_schedule(ScheduleShelf(state), name, job_id, actor)
            if refusal is not None:
                raise refusal
            return snapshot(state.records[job_id])

        return self._run(verb)

    def fire_schedules(self) -> Fired:
        return self._run(lambda state: Fired(fire_due(state), moment(state.next_tick)))
