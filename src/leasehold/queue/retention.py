"""How long jobs are kept: clean-ups on demand, and the records of past clean-ups."""

from __future__ import annotations

from collections.abc import Callable

from leasehold.blobs.blobs import Blobs
from leasehold.core.contract.store import Store
from leasehold.core.model import checked
from leasehold.core.model.retention import CleanUp, RetentionPolicy, Scope
from leasehold.env import Env
from leasehold.interrupts import import_whole


class Retention:
    """The part of a TaskQueue that cleans up."""

    def __init__(
        self,
        store: Store,
        env: Env,
        actor: str,
        blobs: Blobs | None,
        policy: RetentionPolicy | None,
    ) -> None:
        self.store = store
        self._env = env
        self._actor = actor
        self.blobs = blobs
        self._policy = policy

    def prune(
        self,
        *,
        force: bool = False,
        emergency: bool = False,
        dead: bool = False,
        on_progress: Callable[[CleanUp], None] | None = None,
    ) -> CleanUp | None:
        """Archive and delete jobs that ended longer ago than the retention policy keeps them.

        Workers do this automatically once a day, and the same rule applies here: it returns None if
        the last clean-up is less than a day old, or there is not enough to clean. `force` cleans up
        now. `emergency` removes every completed and cancelled job, of any age, and does not pause
        for others; dead letters stay, unless you pass `dead=True`.

        `on_progress` is called after each write with the current record of the clean-up.
        """
        import_whole("leasehold.worker.pruner")
        from leasehold.worker.pruner import Pruner

        scope = Scope(force=force, emergency=emergency, dead=dead)
        pruner = Pruner(
            self.store,
            policy=self._policy,
            env=self._env,
            actor=self._actor,
            blobs=self.blobs,
        )
        return pruner.prune_once(scope, on_progress=on_progress)

    def cleanups(self, limit: int = 100) -> list[CleanUp]:
        """The records of the latest clean-ups, newest first: who, when, how many, how long."""
        return self.store.cleanups(checked.at_least(0, "limit", limit))
