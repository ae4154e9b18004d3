"""Who may call which verb of the store from afar, and what is left of it for whom.

A verb that is not named in ROLES_OF is nobody's, and one that says nothing here about queues is not
for tokens that are good for some queues only: what is forgotten is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from leasehold.core.contract.store import Store
from leasehold.core.model.job import Draft
from leasehold.core.model.lease import Settlement
from leasehold.core.model.limits import PAYLOAD_BYTES_MAX
from leasehold.core.model.outcome import Complete, Fail, JobError
from leasehold.core.model.refusals import no_job
from leasehold.core.model.retention import DAILY
from leasehold.core.model.schedule import not_found
from leasehold.core.model.tokens import LOOKING, Role
from leasehold.errors import ForbiddenError, InvalidJobError, InvalidRequestError
from leasehold.service.caller import Caller
from leasehold.service.json_in import check_json
from leasehold.service.scope import refusals

_ROLES: Final[dict[tuple[Role, ...], str]] = {
    LOOKING: """
        now describe hints settings get position graph search count find_ids attempts history log
        history_page log_page stats queues list_queues queue_info key_info metrics series daily
        timeline archived search_archive
    """,
    ("producer",): "submit submit_once",
    ("producer", "operator"): "cancel reprioritize",
    ("consumer",): """
        exchange exchange_once renew report_progress append_log tell enter_worker leave_worker
    """,
    ("consumer", "operator"): "recover promote fire_schedules prune cleanups pin",
    ("consumer", "operator", "observer"): "workers",
    ("operator", "observer"): """
        pins operations operation
        stuck check changes failures worker_totals lifetimes schedules get_schedule
    """,
    ("operator",): """
        replay discard order recover_one plan_operation begin_operation advance_operation
        stop_operation
        create_queue update_queue set_queue_state purge_queue delete_queue
        set_schedule remove_schedule pause_schedule run_schedule
        set_setting unset_setting unpin
    """,
    ("admin",): "tokens find_token create_token revoke_token audit_log audit_page",
}
ROLES_OF: Final = {verb: roles for roles, verbs in _ROLES.items() for verb in verbs.split()}
"""The roles of which a caller must have one, by verb."""

_HARMLESS: Final = frozenset(
    {"now", "hints", "settings", "describe", "cleanups"}
    | {"recover", "promote", "fire_schedules", "prune"}
)
"""About no queue in particular, and nothing that a token for some queues may not know or do."""

_WHOLE_STORE: Final = frozenset(
    ["graph", "set_setting", "unset_setting", "begin_operation", "pin", "unpin"]
)
"""Never for a token with a scope, although an argument could be taken for one of `_SCOPED`."""

Arguments = dict[str, Any]


def allowed(store: Store, caller: Caller, verb: str, given: Arguments) -> Arguments:
    """The arguments with which the verb is carried out for this caller; raises ForbiddenError.

    An admin may say for whom it acts and submits; for others, that is the token.
    """
    arguments = dict(given)
    if "admin" not in caller.roles:
        if "actor" in arguments:
            arguments["actor"] = caller.actor
        if "drafts" in arguments:
            arguments["drafts"] = [_by(caller, each) for each in arguments["drafts"]]
        if verb == "prune" and not _is_daily(arguments):
            # A worker sees to it that the daily clean-up is made; what else goes is an order.
            caller.check_role(("operator",))
        if verb == "pin" and arguments["kind"] != "deploy":
            # A worker marks its own version; what else is pinned is an order.
            caller.check_role(("operator",))
    for draft in _drafts_in(arguments):
        caller.check_task(draft.task)
        _check_payload(draft)
    if "settlements" in arguments:
        arguments["settlements"] = [_readable(each) for each in arguments["settlements"]]
    if verb == "create_token":
        caller.check_hands_on(commands=arguments["draft"].commands)
    if caller.queues is not None:
        _narrow(store, caller, verb, arguments)
    return arguments


def visible(caller: Caller, verb: str, answer: Any) -> Any:
    """What a caller may see of the answer."""
    if caller.queues is None or (rest := _VISIBLE.get(verb)) is None:
        return answer
    return rest(caller.queues, answer)


def _is_daily(arguments: Arguments) -> bool:
    """Whether a clean-up is the one that is due, of jobs that nobody keeps any longer."""
    return arguments["policy"] is None and arguments["scope"] == DAILY


def _check_payload(draft: Draft) -> None:
    """Refuse what the next reader could not read: it would be in everybody's lists."""
    if draft.codec == "json":
        _check_readable(draft.id, "payload", draft.payload)


def _readable(settlement: Settlement) -> Settlement:
    """The settlement; a result that nobody could read is a permanent failure, as one that is too
    large (SET-6): it hinders no other settlement, and whoever runs the job again gets no other.
    """
    outcome = settlement.outcome
    if not isinstance(outcome, Complete):
        return settlement
    try:
        if outcome.result is not None and outcome.codec == "json":
            _check_readable(settlement.job_id, "result", outcome.result)
        if outcome.note is not None:
            _check_readable(settlement.job_id, "note", outcome.note)
    except InvalidJobError as error:
        failed = Fail(JobError("PayloadError", str(error)), retryable=False)
        return msgspec.structs.replace(settlement, outcome=failed)
    return settlement


def _check_readable(job_id: str, what: str, data: bytes) -> None:
    if len(data) > PAYLOAD_BYTES_MAX:
        return  # That is for the store to refuse.
    try:
        check_json(data)
    except InvalidRequestError as error:
        raise InvalidJobError(f"the {what} of job {job_id}: {error}") from None


def _by(caller: Caller, draft: Draft) -> Draft:
    return msgspec.structs.replace(draft, client=caller.name)


def _drafts_in(arguments: Arguments) -> list[Draft]:
    if "drafts" in arguments:
        return list(arguments["drafts"])
    job = getattr(arguments.get("draft"), "job", None)  # of a schedule
    return [job] if isinstance(job, Draft) else []


def _narrow(store: Store, caller: Caller, verb: str, arguments: Arguments) -> None:
    """Keep a caller with a scope within it."""
    assert caller.queues is not None
    if verb == "prune" and not _is_daily(arguments):
        caller.check_unscoped()
    if verb in _HARMLESS or verb in _VISIBLE:
        return
    if verb in _WHOLE_STORE:
        caller.check_unscoped()
    is_scoped = False
    for name, check in _SCOPED.items():
        if arguments.get(name) is not None:
            check(store, caller, arguments, name)
            is_scoped = True
    if not is_scoped:
        caller.check_unscoped()


def _check_queue(_: Store, caller: Caller, arguments: Arguments, name: str) -> None:
    caller.check_queue(arguments[name])


def _check_filter(_: Store, caller: Caller, arguments: Arguments, name: str) -> None:
    arguments[name] = caller.within(arguments[name])


def _check_jobs(store: Store, caller: Caller, arguments: Arguments, name: str) -> None:
    """Jobs of other queues are not there; what becomes of unknown ones is for the store to say."""
    assert caller.queues is not None
    named = arguments[name]
    for job_id in (named,) if isinstance(named, str) else named:
        job = store.get(job_id)
        if job is not None and job.queue not in caller.queues:
            raise no_job(job_id)


def _check_drafts(store: Store, caller: Caller, arguments: Arguments, name: str) -> None:
    drafts = _drafts_in(arguments)
    for draft in drafts:
        caller.check_queue(draft.queue)
    for refusal in refusals(caller, drafts, store.get).values():
        raise refusal
    if name == "draft":
        _check_schedule(store, caller, {"name": arguments["draft"].name}, "name")


def _check_request(_: Store, caller: Caller, arguments: Arguments, name: str) -> None:
    caller.check_queue(*arguments[name].queues)


def _check_entry(store: Store, caller: Caller, arguments: Arguments, name: str) -> None:
    """A worker that enters or leaves touches no entry of one that serves other queues."""
    assert caller.queues is not None
    _check_request(store, caller, arguments, name)
    worker = arguments[name].id
    if any(
        each.id == worker and not caller.queues.issuperset(each.queues) for each in store.workers()
    ):
        raise ForbiddenError(
            f"token {caller.name!r} cannot use the worker name {worker!r}: choose another one"
        )


def _check_schedule(store: Store, caller: Caller, arguments: Arguments, name: str) -> None:
    assert caller.queues is not None
    known = store.get_schedule(arguments[name])
    if known is not None and known.queue not in caller.queues:
        raise not_found(arguments[name])


def _check_held(store: Store, caller: Caller, arguments: Arguments, name: str) -> None:
    """A lease's secret does not widen a scope."""
    held = {"job_ids": [each.job_id for each in arguments[name]]}
    _check_jobs(store, caller, held, "job_ids")


_SCOPED: Final[dict[str, Callable[[Store, Caller, Arguments, str], None]]] = {
    "queue": _check_queue,
    "where": _check_filter,
    "job_id": _check_jobs,
    "job_ids": _check_jobs,
    "drafts": _check_drafts,
    "draft": _check_drafts,
    "request": _check_request,
    "info": _check_entry,
    "name": _check_schedule,
    "settlements": _check_held,
    "renewals": _check_held,
}
"""By the names of arguments, which mean the same in every verb but those of `_WHOLE_STORE`."""

_VISIBLE: Final[dict[str, Callable[[frozenset[str], Any], Any]]] = {
    "queues": lambda queues, names: [each for each in names if each in queues],
    "list_queues": lambda queues, infos: [each for each in infos if each.name in queues],
    "schedules": lambda queues, known: [each for each in known if each.queue in queues],
    "get": lambda queues, job: job if job is not None and job.queue in queues else None,
    "archived": lambda queues, job: job if job is not None and job.queue in queues else None,
}
"""Verbs of which a caller with a scope sees the part that is theirs."""
