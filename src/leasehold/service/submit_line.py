"""Single submits that arrive while others are being stored are stored together.

A group takes one thread, one check of each token and one write, instead of one of each per submit;
most of a submit's cost is the thread switch. A lone submit goes at once, and its write checks the
token itself (TOK-7): a separate check would first have to read again the pages that the previous
write has changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from leasehold.core.model.job import Draft
from leasehold.core.model.records import Submitted
from leasehold.core.model.tokens import digest_of
from leasehold.observe import tracing
from leasehold.queue.large import has_large
from leasehold.service.caller import Caller
from leasehold.service.producers import Submit, SubmitAnswer

if TYPE_CHECKING:
    from leasehold.service.api import Api

GROUPS_MAX: Final = 2
"""Groups stored at the same time: while one waits for the disk, the next is prepared."""
GROUP_SIZE_MAX: Final = 64


class Submission(NamedTuple):
    """A pending request: the caller, the submit, and how to deliver the answer."""

    caller: Caller | None
    """None if the secret has not been looked up yet."""
    secret: str | None
    asked: Callable[[Caller], Submit]
    """The request; refuses a caller without the right."""
    encode: Callable[[SubmitAnswer], bytes]


class _Alone(NamedTuple):
    """A submit that is not stored together with others."""

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
        """The answer to a submit; raises its refusal."""
        if self._groups < GROUPS_MAX:
            return await self._go_at_once(submission)
        place: asyncio.Future[_Outcome] = asyncio.get_running_loop().create_future()
        self._waiting.append((submission, place))
        outcome = await place
        if isinstance(outcome, _Alone):
            caller, request = outcome
            alone = partial(self._store_alone, submission, caller, request)
            return await self._api.on_thread(alone)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def _go_at_once(self, submission: Submission) -> bytes:
        self._groups += 1
        try:
            return await self._api.on_thread(partial(self._store_one, submission))
        finally:
            self._has_ended()

    def _begin(self) -> None:
        group = self._waiting[:GROUP_SIZE_MAX]
        del self._waiting[:GROUP_SIZE_MAX]
        self._groups += 1
        stored = self._api.begin_on_thread(lambda: self._store([each for each, _ in group]))
        stored.add_done_callback(partial(self._tell, [place for _, place in group]))

    def _tell(
        self, places: Sequence[asyncio.Future[_Outcome]], stored: asyncio.Future[list[_Outcome]]
    ) -> None:
        self._has_ended()
        try:
            outcomes = stored.result()
        except Exception as error:  # noqa: BLE001  # raised again, where it was asked
            outcomes = [error] * len(places)
        for place, outcome in zip(places, outcomes, strict=True):
            if not place.done():
                place.set_result(outcome)

    def _has_ended(self) -> None:
        self._groups -= 1
        if self._waiting:
            self._begin()

    # -- on a thread ------------------------------------------------------------------------------

    def _store_one(self, submission: Submission) -> bytes:
        """The answer to a lone submit."""
        caller = submission.caller
        if caller is None:
            if submission.secret is not None:
                answer = self._store_unasked(submission, digest_of(submission.secret))
                if answer is not None:
                    return answer
            caller = self._api.authenticate(submission.secret)
        return self._store_alone(submission, caller, submission.asked(caller))

    def _store_unasked(self, submission: Submission, digest: str) -> bytes | None:
        """Let the write check the token of a known caller; None in any other case."""
        caller = self._api.known_callers.find(digest)
        if caller is None or caller.token is None or caller.queues is not None:
            return None
        token = caller.token
        try:
            request = submission.asked(caller)
            if not _is_plain(caller, request):
                return None
            draft = request.draft(caller, self._api.env)
            if has_large([draft]):
                return None
            [stored] = self._api.guarded(lambda: self._api.store.submit_as(token, digest, [draft]))
        except Exception:
            # Who shows a token that has ended is told that, and nothing else.
            self._api.caller_of(digest)
            raise
        assert isinstance(stored, Submitted)
        return submission.encode(SubmitAnswer.of(stored))

    def _store(self, group: Sequence[Submission]) -> list[_Outcome]:
        """The answer to each; each caller is checked once, after all of them have come."""
        if len(group) == 1:
            return [_outcome(lambda: self._store_one(group[0]))]
        known: dict[str | None, Caller] = {}

        def prepared(submission: Submission) -> _Alone:
            caller = submission.caller or known.get(submission.secret)
            if caller is None:
                caller = known[submission.secret] = self._api.authenticate(submission.secret)
            return _Alone(caller, submission.asked(caller))

        outcomes = [_outcome(partial(prepared, each)) for each in group]
        return self._store_together(group, outcomes)

    def _store_alone(self, submission: Submission, caller: Caller, request: Submit) -> bytes:
        return submission.encode(self._api.guarded(lambda: self._api.submit(caller, request)))

    def _store_together(
        self, group: Sequence[Submission], outcomes: list[_Outcome]
    ) -> list[_Outcome]:
        """Store independent submits in one write."""
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
            # If two would be one job, the second has to be answered with the first, so it is stored
            # later.
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


def _outcome(made: Callable[[], _Outcome]) -> _Outcome:
    try:
        return made()
    except Exception as error:  # noqa: BLE001  # raised again, where it was asked
        return error


def _is_plain(caller: Caller, request: Submit) -> bool:
    """Whether a submit asks only to be stored."""
    return (
        caller.queues is None
        and request.request_id is None
        and not request.with_position
        and not request.depends_on
    )


def may_be_grouped(headers: Any) -> bool:
    """Whether a submit need not be traced: a trace is about one."""
    return not tracing.is_on() and "traceparent" not in headers
