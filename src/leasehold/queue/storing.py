"""The single path of all submits into the store: at once, when there is room, or awaited."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from leasehold.blobs.blobs import Blobs
from leasehold.core.contract.local_store import LocalVerbs, local_part
from leasehold.core.contract.store import Store
from leasehold.core.contract.transactions import OwnConnection
from leasehold.core.model.job import Draft
from leasehold.core.model.limits import PAYLOAD_BYTES_MAX
from leasehold.core.model.records import Submitted
from leasehold.env import Env
from leasehold.errors import LeaseholdError
from leasehold.interrupts import import_whole
from leasehold.observe import tracing
from leasehold.queue.large import has_large, submit_large
from leasehold.queue.lifecycle import Lifecycle
from leasehold.queue.ready import Ready
from leasehold.queue.room import Block, check_may_wait, store_when_room
from leasehold.worker.context import open_connection
from leasehold.worker.hooks import call_hook_of_caller

T = TypeVar("T")
Answers = list[Submitted | LeaseholdError]


class Storing:
    """Hands drafts to the store."""

    def __init__(
        self,
        store: Store,
        env: Env,
        blobs: Blobs | None,
        ready: Ready,
        lifecycle: Lifecycle,
        on_submit: Callable[[Draft], None] | None,
    ) -> None:
        self.blobs = blobs
        self._store = store
        self._env = env
        self._ready = ready
        self._check_open, self._ensure_workers, self.bridge = lifecycle
        self._on_submit = on_submit
        self.on_stored: Callable[[], None] | None = None
        """Called after every blocking write; a queue without workers may then run the jobs."""

    def store_draft(
        self, draft: Draft, connection: OwnConnection | None
    ) -> Submitted | LeaseholdError:
        """`store_drafts` for one draft, with a fast path for most."""
        if (
            connection is not None
            or tracing.is_on()
            or open_connection() is not None
            or len(draft.payload) > PAYLOAD_BYTES_MAX
            or self._on_submit is not None
            or self.on_stored is not None
        ):
            [answer] = self.store_drafts([draft], connection=connection)
        else:
            self._check_open()
            self._ensure_workers()
            [answer] = self._store.submit([draft])
        return answer

    def store_drafts(
        self,
        drafts: Sequence[Draft],
        *,
        partial: bool = False,
        connection: OwnConnection | None = None,
    ) -> Answers:
        """Submit now, into the transaction that is open on `connection` or in the running task."""
        if tracing.is_on():
            with tracing.submitting(drafts, self._store) as drafts:  # as they go on
                return self._store_drafts(drafts, partial, connection)
        return self._store_drafts(drafts, partial, connection)

    def _store_drafts(
        self, drafts: Sequence[Draft], partial: bool, connection: OwnConnection | None
    ) -> Answers:
        self._check_open()
        connection = connection or self._joined()
        if connection is None:
            self._ensure_workers()
        # Otherwise `connect` has started them, since registering is a write outside the
        # transaction.
        if self.blobs is not None and has_large(drafts):
            drafts, answers = submit_large(
                lambda kept: self._hand_over(kept, partial, connection), self.blobs, drafts
            )
        else:
            answers = self._hand_over(drafts, partial, connection)
        if self._on_submit is not None:
            self._tell_submitted(self._on_submit, drafts, answers)
        if self.on_stored is not None:
            self.on_stored()
        return answers

    def store_when_room(
        self, drafts: Sequence[Draft], block: Block, connection: OwnConnection | None
    ) -> Answers:
        """Submit as soon as the queues are not full, within the time that `block` gives."""
        check_may_wait(connection or self._joined())
        return store_when_room(
            lambda: self.store_drafts(drafts),
            block,
            store=self._store,
            ready=self._ready,
            check_open=self._check_open,
            env=self._env,
        )

    # -- awaiting ----------------------------------------------------------------------------

    async def astore_draft(self, draft: Draft, connection: OwnConnection | None) -> Submitted:
        """`store_drafts` for one, to be awaited: submits at the same time share one write."""
        if tracing.is_on():
            with tracing.submitting([draft]) as [draft]:
                return await self._astore_draft(draft, connection)
        return await self._astore_draft(draft, connection)

    async def _astore_draft(self, draft: Draft, connection: OwnConnection | None) -> Submitted:
        if connection is not None or self._joined() is not None:
            [stored] = await self.bridge().call_within(
                connection or self._joined(),
                lambda: self.store_drafts([draft], connection=connection),
            )
        elif self.on_stored is not None or has_large([draft]):
            # The blob is a large write of its own, so sharing the row's write gains nothing.
            [stored] = await self.bridge().call(self.store_drafts, [draft])
        else:
            self._check_open()
            self._ensure_workers()
            stored = await self.bridge().funnel.submit(draft)
            if self._on_submit is not None:
                self._tell_submitted(self._on_submit, [draft], [stored])
        assert isinstance(stored, Submitted)
        return stored

    async def await_room(
        self,
        submit: Callable[[], Awaitable[T]],
        block: Block,
        connection: OwnConnection | None,
    ) -> T:
        """`store_when_room` for any way to submit, to be awaited: no thread waits."""
        import_whole("leasehold.queue.awaiting")
        from leasehold.queue.awaiting import wait_for_room

        check_may_wait(connection or self._joined())
        return await wait_for_room(
            submit,
            block,
            store=self._store,
            ready=self._ready,
            check_open=self._check_open,
            bridge=self.bridge(),
        )

    # -- inside ------------------------------------------------------------------------------

    def _hand_over(
        self, drafts: Sequence[Draft], partial: bool, connection: OwnConnection | None
    ) -> Answers:
        if connection is not None:
            local = local_part(self._store, "a transaction of your own")
            return local.submit_within(connection, drafts, partial=partial)
        return self._store.submit(drafts, partial=partial) if drafts else []

    def _joined(self) -> OwnConnection | None:
        """The connection of the running task's own transaction, if it leads to this store."""
        connection = open_connection()
        is_ours = (
            connection is not None
            and isinstance(self._store, LocalVerbs)
            and self._store.owns(connection)
        )
        return connection if is_ours else None

    @staticmethod
    def _tell_submitted(
        on_submit: Callable[[Draft], None],
        drafts: Sequence[Draft],
        answers: Sequence[Submitted | LeaseholdError],
    ) -> None:
        for draft, answer in zip(drafts, answers, strict=True):
            if isinstance(answer, Submitted) and not answer.is_duplicate:
                call_hook_of_caller(on_submit, draft)
