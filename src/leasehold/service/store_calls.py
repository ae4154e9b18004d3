"""The store for remote stores: every verb of the contract, for callers with its role.

The public operations are for people and other languages; `TaskQueue("http://...")` uses this.
Leases have secrets here too: a version alone, which could be guessed, settles nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from leasehold.blobs.blobs import Blobs
from leasehold.core.contract.store import Store
from leasehold.core.contract.wire import (
    VERBS,
    HintsSince,
    Verb,
    crossing_exchange,
    encode,
    leases_in,
    nonsense,
)
from leasehold.core.model.lease import Exchange
from leasehold.core.model.refusals import stale_lease
from leasehold.core.model.status import Event, Status
from leasehold.core.rules.messages import refused_as_stale
from leasehold.core.rules.operations import OperationDraft
from leasehold.core.rules.replies import check_request_id
from leasehold.errors import InvalidRequestError, LeaseholdError, LeaseLostError
from leasehold.service.blob_calls import BLOB_VERBS, BlobCalls
from leasehold.service.caller import Caller
from leasehold.service.hints import HintLine
from leasehold.service.lease_secret import LeaseSecrets
from leasehold.service.out_of_sight import refused, shown
from leasehold.service.plan_seal import PlanSeals
from leasehold.service.store_access import ROLES_OF, allowed, told
from leasehold.service.store_sight import VISIBLE_PART


class StoreCalls:
    """Carries out calls of remote stores."""

    def __init__(
        self,
        store: Store,
        secrets: LeaseSecrets,
        plans: PlanSeals,
        hints: HintLine,
        blobs: Blobs | None,
    ) -> None:
        self._store = store
        self._secrets = secrets
        self._plans = plans
        self._hints = hints
        self._blobs = blobs
        self._blob_calls = BlobCalls(store, secrets, blobs)

    def call(self, verb: Verb, caller: Caller, body: bytes) -> bytes:
        """Carry out a verb, except `hints`."""
        asked = arguments_of(verb, caller, body)
        secrets: list[str] = asked.pop("lease_secrets")
        if verb.name in BLOB_VERBS:
            return encode(self._blob_calls.call(verb.name, caller, asked, secrets))
        begun: OperationDraft | None = asked["draft"] if verb.name == "begin_operation" else None
        arguments = allowed(self._store, caller, verb.name, asked)
        if begun is not None and begun.plan is not None:
            self._plans.check_plan(begun.plan)
        if "request_id" in arguments:
            check_request_id(arguments["request_id"])
            arguments["request_id"] = caller.request_id(arguments["request_id"])
        refusals = self._refusals(leases_in(verb.name, arguments), secrets)
        try:
            answer = self._carry_out(verb.name, arguments, refusals)
        except LeaseholdError as error:
            raise refused(caller, self._store, told(error)) from error
        return encode(shown(caller, self._store, _visible(caller, verb.name, answer)))

    async def hints(self, caller: Caller, body: bytes) -> bytes:
        """Wait for hints."""
        asked = arguments_of(VERBS["hints"], caller, body)
        told = await self._hints.after(asked["cursor"], asked["wait_seconds"], ends=asked["ends"])
        if caller.queues is not None:
            told = _without_ids(told)
        return encode(told)

    def _carry_out(
        self, verb: str, arguments: dict[str, Any], refusals: list[LeaseLostError | None]
    ) -> Any:
        store = self._store
        match verb:
            case "exchange" | "exchange_once":
                arguments["settlements"] = _good(arguments["settlements"], refusals)
                done: Exchange = getattr(store, verb)(**arguments)
                secrets = [self._secrets.of(each.job_id, each.version) for each in done.leases]
                settled = [
                    told(each) if isinstance(each, LeaseholdError) else each
                    for each in _with_refusals(done.settled, refusals)
                ]
                return crossing_exchange(msgspec.structs.replace(done, settled=settled), secrets)
            case "renew":
                arguments["renewals"] = _good(arguments["renewals"], refusals)
                return _with_refusals(store.renew(**arguments), refusals)
            case "enter_worker":
                store.register_worker(arguments["info"], is_remote=True)
                return None
            case "leave_worker":
                # Another server may have made its entry.
                life = store.register_worker(arguments["info"], is_remote=True, is_entered=True)
                life.close()
                return None
            case "plan_operation":
                return self._plans.sealed(store.plan_operation(**arguments))
            case "describe":
                return {name: each for name, each in store.describe().items() if name != "path"}
        for refusal in filter(None, refusals):
            raise refusal
        answer = getattr(store, verb)(**arguments)
        if self._blobs is not None and verb in ("discard", "order", "advance_operation"):
            self._blobs.forget_jobs(answer if verb == "discard" else answer.blobs_left)
        return answer

    def _refusals(
        self, leases: Sequence[tuple[str, int]], secrets: Sequence[str]
    ) -> list[LeaseLostError | None]:
        if len(secrets) < len(leases):
            secrets = [*secrets, *[""] * (len(leases) - len(secrets))]
        return [
            self._refusal(job_id, version, secret)
            for (job_id, version), secret in zip(leases, secrets, strict=False)
        ]

    def _refusal(self, job_id: str, version: int, secret: str) -> LeaseLostError | None:
        """The error for a call under a lease with a wrong secret.

        A lease that is over is for the store to refuse, which also writes it down: there is nothing
        left to steal. A lease that was not granted yet might be, in this very moment: it is refused
        here, in the same words.
        """
        try:
            self._secrets.check(job_id, version, secret)
        except LeaseLostError as error:
            job = self._store.get(job_id)
            if job is None or version < job.lease_version:
                return None
            if version == job.lease_version:
                return error if job.status is Status.RUNNING else None
            message = refused_as_stale(None, version, job.lease_version)
            self._store.tell(
                job_id, Event.VERSION_MISMATCH, worker=None, version=version, message=message
            )
            is_running = job.status is Status.RUNNING
            holder = (job.worker or "", job.lease_version) if is_running else None
            return stale_lease(job_id, version, job.status, holder)
        return None


def arguments_of(verb: Verb, caller: Caller, body: bytes) -> dict[str, Any]:
    """The arguments; raises ForbiddenError before it looks at them."""
    caller.check_role(ROLES_OF[verb.name])
    try:
        return msgspec.structs.asdict(verb.arguments.decode(body))
    except msgspec.ValidationError as error:
        raise nonsense(verb.name)(str(error)) from None
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        # A ValueError is text that is no UTF-8, or an extension that is no number.
        raise InvalidRequestError(f"this is not a call of a store: {error}") from None


def _visible(caller: Caller, verb: str, answer: Any) -> Any:
    """The part of an answer that the caller may see."""
    if caller.queues is None:
        return answer
    if isinstance(answer, list):
        answer = [told(each) if isinstance(each, LeaseholdError) else each for each in answer]
    rest = VISIBLE_PART.get(verb)
    return answer if rest is None else rest(caller.queues, answer)


def _without_ids(told: HintsSince) -> HintsSince:
    """That there is something, not which jobs: those of other queues are not there."""
    return HintsSince(
        told.cursor,
        told.is_ready,
        [] if told.ended == [] else None,
        [] if told.cancel_requested == [] else None,
    )


def _good(given: Sequence[Any], refusals: Sequence[LeaseLostError | None]) -> list[Any]:
    return [each for each, refusal in zip(given, refusals, strict=True) if refusal is None]


def _with_refusals(answers: Sequence[Any], refusals: Sequence[LeaseLostError | None]) -> list[Any]:
    """One answer for each argument, in order."""
    rest = iter(answers)
    return [next(rest) if refusal is None else refusal for refusal in refusals]
