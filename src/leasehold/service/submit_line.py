"""Single submits that come while others are being stored are stored together.

A group takes one thread, one look at each token and one write, where each by itself would take one
of its own: most of what a submit costs is to change threads. Who comes alone goes at once, as it
would without a line.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from leasehold.core.model.job import Draft
from leasehold.core.model.records import Submitted
from leasehold.observe import tracing
from leasehold.queue.large import has_large
from leasehold.service.caller import Caller
from leasehold.service.producers import Submit, SubmitAnswer

if TYPE_CHECKING:
    from leasehold.service.api import Api

GROUPS_MAX: Final = 2
"""Stored at the same time: while one waits for the disk, the next is made ready."""
GROUP_SIZE_MAX: Final = 64

Authenticate = Callable[[str | None], Caller]


class Submission(NamedTuple):
    """A request on its way: how to find out who asks what, and how to tell them the answer."""

    prepare: Callable[[Authenticate], tuple[Caller, Submit]]
    encode: Callable[[SubmitAnswer], bytes]


class _Alone(NamedTuple):
    """One that is not stored together with others."""

    caller: Caller
    request: Submit


_Outcome = bytes | _Alone | Exception


class SubmitLine:
    """The submits of one server; everything but `_store` happens on its event loop."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._waiting: list[tuple[Submission, asyncio.Future[_Outcome]]] = []
        self._groups = 0

    async def submit(self, submission: Submission) -> bytes:
        """The answer to a submit; raises what it is refused with."""
        place: asyncio.Future[_Outcome] = asyncio.get_running_loop().create_future()
        self._waiting.append((submission, place))
        if self._groups < GROUPS_MAX:
            self._begin()
        outcome = await place
        if isinstance(outcome, _Alone):
            caller, request = outcome
            alone = partial(self._store_alone, submission, caller, request)
            return await self._api.on_thread(alone)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def _begin(self) -> None:
        group = self._waiting[:GROUP_SIZE_MAX]
        del self._waiting[:GROUP_SIZE_MAX]
        self._groups += 1
        stored = self._api.begin_on_thread(lambda: self._store([each for each, _ in group]))
        stored.add_done_callback(partial(self._tell, [place for _, place in group]))

    def _tell(
        self, places: Sequence[asyncio.Future[_Outcome]], stored: asyncio.Future[list[_Outcome]]
    ) -> None:
        self._groups -= 1
        if self._waiting:
            self._begin()
        try:
            outcomes = stored.result()
        except Exception as error:  # noqa: BLE001  # raised again, where it was asked
            outcomes = [error] * len(places)
        for place, outcome in zip(places, outcomes, strict=True):
            if not place.done():
                place.set_result(outcome)

    # -- on a thread ------------------------------------------------------------------------------

    def _store(self, group: Sequence[Submission]) -> list[_Outcome]:
        """What becomes of each; whoever asks is asked for once, after all of them have come."""
        known: dict[str | None, Caller] = {}

        def authenticate(secret: str | None) -> Caller:
            if secret not in known:
                known[secret] = self._api.authenticate(secret)
            return known[secret]

        outcomes: list[Any] = []
        for submission in group:
            try:
                asked = submission.prepare(authenticate)
                if len(group) == 1:
                    outcomes.append(self._store_alone(submission, *asked))
                else:
                    outcomes.append(_Alone(*asked))
            except Exception as error:  # noqa: BLE001  # raised again, where it was asked
                outcomes.append(error)
        return outcomes if len(group) == 1 else self._store_together(group, outcomes)

    def _store_alone(self, submission: Submission, caller: Caller, request: Submit) -> bytes:
        return submission.encode(self._api.guarded(lambda: self._api.submit(caller, request)))

    def _store_together(
        self, group: Sequence[Submission], outcomes: list[_Outcome]
    ) -> list[_Outcome]:
        """Store those that have nothing to do with each other in one write."""
        drafts: dict[int, Draft] = {}
        taken: set[object] = set()
        for index, outcome in enumerate(outcomes):
            if not isinstance(outcome, _Alone) or not _is_plain(*outcome):
                continue
            try:
                draft = outcome.request.draft(outcome.caller, self._api.env)
            except Exception as error:  # noqa: BLE001  # raised again, where it was asked
                outcomes[index] = error
                continue
            names = {draft.id, (draft.queue, draft.idempotency_key)} - {(draft.queue, None)}
            # Of two that would be one job, the second is told of the first: later.
            if taken.isdisjoint(names) and not has_large([draft]):
                taken |= names
                drafts[index] = draft
        if len(drafts) > 1:
            answers = self._api.guarded(
                lambda: self._api.store.submit(list(drafts.values()), partial=True)
            )
            for index, answer in zip(drafts, answers, strict=True):
                outcomes[index] = (
                    group[index].encode(SubmitAnswer.of(answer))
                    if isinstance(answer, Submitted)
                    else answer
                )
        return outcomes


def _is_plain(caller: Caller, request: Submit) -> bool:
    """Whether a submit asks for nothing but to be stored, whatever else is."""
    return (
        caller.queues is None
        and request.request_id is None
        and not request.with_position
        and not request.depends_on
    )


def may_be_grouped(headers: Any) -> bool:
    """Whether a submit need not be traced: a trace is about one."""
    return not tracing.is_on() and "traceparent" not in headers
