"""The operations of consumers: lease jobs, keep them, and report their outcomes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeVar

import msgspec

from leasehold.core.model.job import DEFAULT_LEASE_SECONDS
from leasehold.core.model.joblog import LogLine
from leasehold.core.model.lease import (
    Exchange,
    Lease,
    LeaseRequest,
    Renewal,
    Renewed,
    Settled,
    Settlement,
    next_heartbeat_seconds,
)
from leasehold.core.model.limits import PAYLOAD_BYTES_MAX
from leasehold.core.model.outcome import Cancel, Complete, Fail, JobError, Outcome, Release, Snooze
from leasehold.errors import LeaseholdError, PayloadError, PermanentError
from leasehold.queue.large import inline
from leasehold.service.answers import Done, Problem
from leasehold.service.base import ApiPart, encoded
from leasehold.service.caller import Caller
from leasehold.service.consumer_messages import (
    CompleteJob,
    ExchangeAnswer,
    ExchangeJobs,
    FailJob,
    GivenLine,
    GivenSettlement,
    Held,
    HeldFor,
    LeaseDocument,
    LeaseJobs,
    Leases,
    LogLines,
    ReleaseJob,
    RenewalAnswer,
    Renewals,
    RenewLease,
    RenewLeases,
    ReportProgress,
    SettleAnswer,
    SettleCancel,
    SettleComplete,
    SettleFail,
    SettlementAnswer,
    SettleRelease,
    SettleSnooze,
    SnoozeJob,
)
from leasehold.service.operation import operation
from leasehold.worker.describe import told_error

NOT_HERE_SECONDS: Final = 30.0
"""When to offer a job again whose payload could not be read or cannot cross a network."""

T = TypeVar("T")


class _Grant(NamedTuple):
    worker: str
    seconds: float


class Consumers(ApiPart):
    """Operations for those who run jobs."""

    @operation("POST", "/leases", "consumer")
    async def lease(self, caller: Caller, request: LeaseJobs) -> Leases:
        """Lease the next available jobs; if there are none, wait for the first one (long poll)."""
        wanted = request.lease_request(caller)
        exchange = await self._exchange(
            caller, (), wanted, request.wait_seconds, request.request_id
        )
        leases = await self._told(exchange.leases)
        return Leases(leases=leases, next_due_at=exchange.next_due_at)

    @operation("POST", "/exchange", "consumer")
    async def exchange(self, caller: Caller, request: ExchangeJobs) -> ExchangeAnswer:
        """Settle jobs that have run and lease the next ones, in one write.

        A settlement that comes too late is answered with its problem; the others still take effect.
        """
        wanted = None if request.lease is None else request.lease.lease_request(caller)
        given = await self.call_store(
            lambda: [self._settlement(caller, each) for each in request.settlements]
        )
        good = [each for each in given if isinstance(each, Settlement)]
        answer = await self._exchange(
            caller, good, wanted, request.wait_seconds, request.request_id
        )
        leases = await self._told(answer.leases)
        settled = iter(answer.settled)
        return ExchangeAnswer(
            settled=[
                _settled(next(settled) if isinstance(each, Settlement) else each) for each in given
            ],
            leases=leases,
            next_due_at=answer.next_due_at,
            next_tick_at=answer.next_tick_at,
            settings_generation=answer.settings_generation,
            at=answer.at,
        )

    @operation("POST", "/jobs/{job_id}/complete", "consumer")
    def complete(self, caller: Caller, request: CompleteJob) -> SettleAnswer:
        """Complete a leased job (ack)."""
        return self._settle(caller, request, self._completion(request))

    @operation("POST", "/jobs/{job_id}/fail", "consumer")
    def fail(self, caller: Caller, request: FailJob) -> SettleAnswer:
        """Report that an attempt failed (nack); the answer says whether and when it is retried."""
        return self._settle(caller, request, _failure(request))

    @operation("POST", "/jobs/{job_id}/snooze", "consumer")
    def snooze(self, caller: Caller, request: SnoozeJob) -> SettleAnswer:
        """Put a leased job off until later, without using up an attempt."""
        return self._settle(caller, request, Snooze(request.delay_seconds, request.reason))

    @operation("POST", "/jobs/{job_id}/release", "consumer")
    def release(self, caller: Caller, request: ReleaseJob) -> SettleAnswer:
        """Hand a leased job back unfinished, without using up an attempt."""
        return self._settle(caller, request, Release(request.delay_seconds, request.reason))

    @operation("POST", "/jobs/{job_id}/renew", "consumer")
    def renew(self, caller: Caller, request: RenewLease) -> Renewed:
        """Renew a lease; the answer says when it expires and when to renew it next."""
        self._check(caller, request)
        given = None if request.worker is None else caller.worker_name(request.worker)
        worker = given or self._last_grant(request).worker
        [answer] = self.store.renew(worker, [self._renewal(request)])
        if isinstance(answer, LeaseholdError):
            raise answer
        return answer

    @operation("POST", "/renewals", "consumer")
    def renew_many(self, caller: Caller, request: RenewLeases) -> Renewals:
        """Renew all leases of a worker in one write, as its heartbeat."""
        checked = [self._refusal(caller, each) for each in request.leases]
        renewals = [
            self._renewal(each)
            for each, refusal in zip(request.leases, checked, strict=True)
            if refusal is None
        ]
        answers = iter(self.store.renew(caller.worker_name(request.worker), renewals))
        return Renewals(
            renewals=[
                _renewal(next(answers) if refusal is None else refusal) for refusal in checked
            ]
        )

    @operation("POST", "/jobs/{job_id}/progress", "consumer")
    def progress(self, caller: Caller, request: ReportProgress) -> Done:
        """Report the progress of a leased job."""
        self._check(caller, request)
        self.store.report_progress(request.job_id, request.version, encoded(request.progress))
        return Done()

    @operation("POST", "/jobs/{job_id}/log", "consumer")
    def append_log(self, caller: Caller, request: LogLines) -> Done:
        """Append lines to the log of a leased job."""
        self._check(caller, request)
        now = self.store.now()
        given = (GivenLine(text=each) if isinstance(each, str) else each for each in request.lines)
        lines = [LogLine(each.at or now, each.text) for each in given]
        self.store.append_log(request.job_id, request.version, lines, dropped=request.dropped)
        return Done()

    # -- inside ----------------------------------------------------------------------------------

    async def hand_back(self, leases: Sequence[LeaseDocument]) -> None:
        """Release leases granted to a caller that is gone, with no attempt spent."""
        handed_back = [
            Settlement(each.job_id, each.version, Release(0.0, "its consumer hung up"))
            for each in leases
        ]
        if handed_back:
            await self.call_store(lambda: self.store.exchange(handed_back))

    async def _exchange(
        self,
        caller: Caller,
        settlements: Sequence[Settlement],
        request: LeaseRequest | None,
        wait_seconds: float,
        request_id: str | None,
    ) -> Exchange:
        """Exchange once, then wait for jobs if none were leased.

        Under a request's id each look has its own id, so a repeated request goes through the same
        looks, up to the one that returned leases.
        """
        first: list[Exchange] = []

        def exchange(tries: int) -> Exchange:
            if tries:
                self.check_token(caller)
            given = settlements if tries == 0 else ()
            named = caller.request_id(request_id, tries)
            if named is None:
                return self.store.exchange(given, request)
            return self.store.exchange_once(named, given, request)

        async def look(tries: int) -> Exchange:
            answer = await self._to_its_end(lambda: exchange(tries))
            first.append(answer)
            return answer

        if request is None:
            return await look(0)
        last = await self.lines.lease(request, wait_seconds, look)
        return msgspec.structs.replace(last, settled=first[0].settled)

    async def _told(self, leases: Sequence[Lease]) -> list[LeaseDocument]:
        """The leases for the answer; none cost nothing."""
        return await self._to_its_end(lambda: self._documents(leases)) if leases else []

    async def _to_its_end(self, function: Callable[[], T]) -> T:
        """Call the store, and take its answer even if the caller has hung up meanwhile.

        A running thread cannot be stopped, and its leases must be known in order to hand them back.
        """
        asked = asyncio.ensure_future(self.call_store(function))
        try:
            return await asyncio.shield(asked)
        except asyncio.CancelledError:
            return await asked

    def _renewal(self, held: HeldFor) -> Renewal:
        seconds = held.lease_seconds or self._last_grant(held).seconds
        return Renewal(held.job_id, held.version, seconds)

    def _last_grant(self, held: Held) -> _Grant:
        """The job of a lease, from its own row; any job once the lease is lost."""
        job = self.store.get(held.job_id)
        if job is None or job.lease_expires_at is None or job.heartbeat_at is None:
            return _Grant("", DEFAULT_LEASE_SECONDS)
        seconds = (job.lease_expires_at - job.heartbeat_at).total_seconds()
        return _Grant(job.worker or "", seconds)

    def _check(self, caller: Caller, held: Held) -> None:
        self.check_job(caller, held.job_id)
        self.secrets.check(held.job_id, held.version, held.secret)

    def _refusal(self, caller: Caller, held: Held) -> LeaseholdError | None:
        try:
            self._check(caller, held)
        except LeaseholdError as error:
            return error
        return None

    def _settle(self, caller: Caller, held: Held, outcome: Outcome) -> SettleAnswer:
        self._check(caller, held)
        answer = self.store.exchange([Settlement(held.job_id, held.version, outcome)]).settled[0]
        if isinstance(answer, LeaseholdError):
            raise answer
        return SettleAnswer(**msgspec.structs.asdict(answer))

    def _settlement(self, caller: Caller, given: GivenSettlement) -> Settlement | LeaseholdError:
        """The settlement for the store, or the error that prevents it."""
        try:
            self._check(caller, given)
            outcome = self._outcome(given)
        except LeaseholdError as error:
            return error
        return Settlement(given.job_id, given.version, outcome)

    def _outcome(self, given: GivenSettlement) -> Outcome:
        match given:
            case SettleComplete():
                return self._completion(given)
            case SettleFail():
                return _failure(given)
            case SettleSnooze():
                return Snooze(given.delay_seconds, given.reason)
            case SettleRelease():
                return Release(given.delay_seconds, given.reason)
            case SettleCancel():
                return Cancel(given.reason)

    def _completion(self, given: CompleteJob) -> Complete:
        result = None if given.result is None else encoded(given.result)
        note = None if given.note is None else encoded(given.note)
        if result is None or len(result) <= PAYLOAD_BYTES_MAX or self.blobs is None:
            return Complete(result, note)
        self.secrets.check(given.job_id, given.version, given.secret)
        data, codec = self.blobs.keep_result(given, result, "json")
        return Complete(data, note, codec)

    def _documents(self, leases: Sequence[Lease]) -> list[LeaseDocument]:
        """The leases as they cross the network; jobs that cannot cross are handed back."""
        documents = []
        for lease in leases:
            try:
                documents.append(self._document(lease))
            except LeaseholdError as error:
                outcome: Outcome = Release(NOT_HERE_SECONDS, str(error))
                if isinstance(error, PermanentError):
                    outcome = Fail(JobError(type(error).__name__, str(error)), retryable=False)
                self.store.exchange([Settlement(lease.job_id, lease.version, outcome)])
        return documents

    def _document(self, lease: Lease) -> LeaseDocument:
        payload, codec = inline(self.blobs, lease.payload, lease.codec)
        if codec != "json":
            raise PayloadError(
                f"the payload of job {lease.job_id} is a signed pickle, which does not cross a "
                "network: lease it on a machine that has the key of its queue"
            )
        given = {
            name: getattr(lease, name)
            for name in LeaseDocument.__struct_fields__
            if name not in ("secret", "payload", "next_heartbeat_seconds")
        }
        return LeaseDocument(
            **given,
            payload=msgspec.Raw(payload),
            secret=self.secrets.of(lease.job_id, lease.version),
            next_heartbeat_seconds=next_heartbeat_seconds(lease.lease_seconds),
        )


def _failure(given: FailJob) -> Fail:
    error = told_error(given.error.type, given.error.message, given.error.traceback)
    return Fail(error, given.requeue, given.retry_after_seconds)


def _settled(answer: Settled | LeaseholdError) -> SettlementAnswer:
    if isinstance(answer, LeaseholdError):
        return SettlementAnswer(error=Problem.of(answer))
    return SettlementAnswer(settled=answer)


def _renewal(answer: Renewed | LeaseholdError) -> RenewalAnswer:
    if isinstance(answer, LeaseholdError):
        return RenewalAnswer(error=Problem.of(answer))
    return RenewalAnswer(renewed=answer)
