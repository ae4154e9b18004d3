"""Changing queues, and finishing a deletion that was cut short."""

from __future__ import annotations

from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from leasehold.core.model.budget import BURIED_AT_ONCE, batched
from leasehold.stores.memory import queues
from leasehold.stores.memory.locked import LockedState
from leasehold.stores.memory.state import State

P = ParamSpec("P")
T = TypeVar("T")


class BuryingVerbs(LockedState):
    """The common part of deletions and of sweeps, which go on where one was cut short."""

    def _change_queue(
        self,
        queue: str,
        verb: Callable[Concatenate[State, str, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Let a verb change a queue, and tell followers so."""

        def change(state: State) -> T:
            answer = verb(state, queue, *args, **kwargs)
            state.note_change("queue", queue)
            return answer

        return self._run(change)

    def _bury(self, queue: str) -> int:
        """Finish deleting a queue, so many jobs under each hold of the lock."""
        buried = 0
        done = False
        while not done:
            found = self._look(queues.waiting_in, queue)
            for jobs in batched(found, BURIED_AT_ONCE) if found else ((),):
                more, done = self._change_queue(queue, queues.bury, jobs, buried)
                buried += more
        return buried
