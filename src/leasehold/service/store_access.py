"""Which roles may call which verb of the store remotely, and how a scope narrows it.

For a caller with a scope, jobs of other queues do not exist. To make that look the same in every
verb, the store is asked for an impossible id instead (`hidden`), and its answer is returned.

A verb missing from ROLES_OF is refused to every role, and one without a rule about queues here is
refused to tokens limited to some queues: a forgotten rule means refusal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from leasehold.core.contract.store import Store
from leasehold.core.model.blob import BLOB_CODEC, names_foreign_blob
from leasehold.core.model.error_documents import error_document, error_from
from leasehold.core.model.job import Draft
from leasehold.core.model.lease import Settlement
from leasehold.core.model.limits import PAYLOAD_BYTES_MAX
from leasehold.core.model.nesting import LEVELS_OF_CALL
from leasehold.core.model.outcome import Complete, Fail, JobError
from leasehold.core.model.retention import DAILY
from leasehold.core.model.schedule import ScheduleDraft, not_found
from leasehold.core.model.tokens import LOOKING, Role
from leasehold.core.rules.operations import OperationDraft, Undo
from leasehold.errors import InvalidJobError, InvalidRequestError, LeaseholdError
from leasehold.service.caller import Caller
from leasehold.service.json_in import check_json
from leasehold.service.scope import check_schedule, refusals
from leasehold.service.store_sight import VISIBLE_PART

_ROLES: Final[dict[tuple[Role, ...], str]] = {
    LOOKING: """
        now describe hints settings get position peek graph search count find_ids attempts history
        log history_page log_page stats queues list_queues queue_info key_info metrics series daily
        metrics_by_queue timeline archived search_archive get_blob workers
    """,
    ("producer",): "submit submit_once",
    ("producer", "operator"): "cancel reprioritize",
    ("producer", "consumer", "operator"): "put_blob",
    ("consumer",): """
        exchange exchange_once renew report_progress append_log tell enter_worker leave_worker
    """,
    ("consumer", "operator"): "recover promote fire_schedules prune pin",
    ("consumer", "operator", "observer"): "cleanups",
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
    ("admin",): """
        tokens find_token create_token revoke_token audit_page end_session is_session_over
    """,
}
ROLES_OF: Final = {verb: roles for roles, verbs in _ROLES.items() for verb in verbs.split()}
"""The roles by verb, of which a caller must have one."""

_HARMLESS: Final = frozenset({"now", "hints", "settings"})
"""Verbs that concern no particular queue and reveal nothing to a token limited to some queues."""

_WHOLE_STORE: Final = frozenset(["graph", "set_setting", "unset_setting", "pin", "unpin"])
"""Never for a token with a scope, although an argument could be taken for one of `_SCOPED`."""

_HIDDEN: Final = "\x01"

Arguments = dict[str, Any]


def allowed(store: Store, caller: Caller, verb: str, given: Arguments) -> Arguments:
    """The arguments with which to carry out the verb for this caller; raises ForbiddenError.

    An admin may say for whom it acts and submits; for others, that is the token.
    """
    arguments = dict(given)
    if "admin" not in caller.roles:
        if arguments.get("actor") is not None:
            arguments["actor"] = caller.actor
            if verb == "recover":
                # A worker sweeps automatically; a sweep in somebody's name is an order.
                caller.check_role(("operator",))
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
        _check_payload(store, draft, arguments.get("draft"))
    if "settlements" in arguments:
        arguments["settlements"] = [_readable(store, each) for each in arguments["settlements"]]
    if verb == "create_token":
        caller.check_hands_on(commands=arguments["draft"].commands)
    if caller.queues is not None:
        _narrow(store, caller, verb, arguments)
    return arguments


def hidden(job_id: str) -> str:
    """An id that no job can have, since it contains a control character."""
    return _HIDDEN + job_id


def told(error: LeaseholdError) -> LeaseholdError:
    """An error about a hidden job, worded as for a job that does not exist."""
    if _HIDDEN not in str(error) and repr(_HIDDEN)[1:-1] not in str(error):
        return error
    document = error_document(error)
    message = document["message"].replace(_HIDDEN, "").replace(repr(_HIDDEN)[1:-1], "")
    hiding = error_from({**document, "message": message})
    assert isinstance(hiding, LeaseholdError)
    return hiding


def _is_daily(arguments: Arguments) -> bool:
    """Whether a clean-up is the one that is due, of jobs past their retention."""
    return arguments["policy"] is None and arguments["scope"] == DAILY


def _check_payload(store: Store, draft: Draft, schedule: ScheduleDraft | None) -> None:
    """Refuse values that the next reader could not read: they would be in everybody's lists."""
    if draft.codec == "json":
        _check_readable(draft.id, "payload", draft.payload, LEVELS_OF_CALL)
    elif draft.codec == BLOB_CODEC:
        known = None if schedule is None else store.get_schedule(schedule.name)
        # A schedule's values may have come from the store that this one was moved from.
        if known is None or known.draft.job.payload != draft.payload:
            _check_blob(store, draft.id, "payload", draft.payload)


def _check_blob(store: Store, job_id: str, what: str, reference: bytes) -> None:
    """Refuse a blob of another store: several may share one bucket."""
    if names_foreign_blob(reference, store.describe().get("store_id", "memory")):
        raise InvalidJobError(f"the {what} of job {job_id} names a blob that is not this store's")


def _readable(store: Store, settlement: Settlement) -> Settlement:
    """The settlement; an unreadable result is a permanent failure, as one that is too large
    (SET-6): it hinders no other settlement, and another attempt would end the same.
    """
    outcome = settlement.outcome
    if not isinstance(outcome, Complete):
        return settlement
    try:
        if outcome.result is not None and outcome.codec == "json":
            _check_readable(settlement.job_id, "result", outcome.result)
        if outcome.result is not None and outcome.codec == BLOB_CODEC:
            _check_blob(store, settlement.job_id, "result", outcome.result)
        if outcome.note is not None:
            _check_readable(settlement.job_id, "note", outcome.note)
    except InvalidJobError as error:
        failed = Fail(JobError("PayloadError", str(error)), retryable=False)
        return msgspec.structs.replace(settlement, outcome=failed)
    return settlement


def _check_readable(job_id: str, what: str, data: bytes, around: int = 0) -> None:
    if len(data) > PAYLOAD_BYTES_MAX:
        return  # That is for the store to refuse.
    try:
        check_json(data, around)
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
    """Restrict a caller to their scope."""
    assert caller.queues is not None
    if verb == "prune" and not _is_daily(arguments):
        caller.check_unscoped()
    if verb in _HARMLESS or verb in VISIBLE_PART:
        return
    if verb in _WHOLE_STORE:
        caller.check_unscoped()
    if verb == "run_schedule":
        # An id of the caller's own, which cannot be taken by another.
        arguments["job_id"] = caller.request_id(arguments["job_id"])
    if arguments.get("worker") is not None:
        arguments["worker"] = caller.worker_name(arguments["worker"])
    if verb == "begin_operation":
        _check_new_operation(store, caller, arguments)
        return
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
    named = arguments[name]
    if isinstance(named, str):
        arguments[name] = _in_sight(store, caller, named)
    else:
        arguments[name] = [_in_sight(store, caller, job_id) for job_id in named]


def _in_sight(store: Store, caller: Caller, job_id: str) -> str:
    """The id, or an impossible one in place of a job that the caller may not see."""
    job = store.get(job_id)
    return job_id if job is None or caller.may_see(job) else hidden(job_id)


def _check_drafts(store: Store, caller: Caller, arguments: Arguments, name: str) -> None:
    drafts = _drafts_in(arguments)
    for draft in drafts:
        caller.check_queue(draft.queue)
        if name == "drafts":
            caller.check_new_name("the id of a job", draft.id, draft.queue)
    if name == "draft":
        check_schedule(caller, store, arguments["draft"])
        return
    for refusal in refusals(caller, drafts, store.get).values():
        raise refusal


def _check_request(_: Store, caller: Caller, arguments: Arguments, name: str) -> None:
    caller.check_queue(*arguments[name].queues)
    worker = caller.worker_name(arguments[name].worker)
    arguments[name] = msgspec.structs.replace(arguments[name], worker=worker)


def _check_entry(_: Store, caller: Caller, arguments: Arguments, name: str) -> None:
    caller.check_queue(*arguments[name].queues)
    worker = caller.worker_name(arguments[name].id)
    arguments[name] = msgspec.structs.replace(arguments[name], id=worker)


def _check_new_operation(store: Store, caller: Caller, arguments: Arguments) -> None:
    """An operation is about the queues of its filter; an undo about those of its operation."""
    draft: OperationDraft = arguments["draft"]
    # An id of the caller's own: what began under the id of another's would be told.
    draft = msgspec.structs.replace(draft, id=caller.request_id(draft.id))
    if draft.plan is not None:
        where = caller.within(draft.plan.where)
        draft = msgspec.structs.replace(
            draft, plan=msgspec.structs.replace(draft.plan, where=where)
        )
    if draft.undoes is not None:
        draft = msgspec.structs.replace(draft, undoes=_own_operation(store, caller, draft.undoes))
    if draft.resumes is not None:
        draft = msgspec.structs.replace(draft, resumes=_own_operation(store, caller, draft.resumes))
    arguments["draft"] = draft


def _check_operation(store: Store, caller: Caller, arguments: Arguments, name: str) -> None:
    arguments[name] = _own_operation(store, caller, arguments[name])


def _own_operation(store: Store, caller: Caller, operation_id: str) -> str:
    """The id, or an impossible one in place of an operation about other queues."""
    assert caller.queues is not None
    found = asked = store.operation(operation_id)
    if found is not None and isinstance(found.order, Undo):
        found = store.operation(found.order.operation)
    queues = None if found is None else found.where.queues
    mine = queues is not None and caller.queues.issuperset(queues)
    return operation_id if asked is None or mine else hidden(operation_id)


def _check_schedule(store: Store, caller: Caller, arguments: Arguments, name: str) -> None:
    assert caller.queues is not None
    known = store.get_schedule(arguments[name])
    if known is not None and known.queue not in caller.queues:
        raise not_found(arguments[name])


def _check_held(store: Store, caller: Caller, arguments: Arguments, name: str) -> None:
    """A lease's secret does not extend a scope."""
    arguments[name] = [
        msgspec.structs.replace(each, job_id=_in_sight(store, caller, each.job_id))
        for each in arguments[name]
    ]


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
    "operation_id": _check_operation,
}
"""By the names of arguments, which mean the same in every verb but those of `_WHOLE_STORE`."""
