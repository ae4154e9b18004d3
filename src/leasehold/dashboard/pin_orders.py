"""Orders that pin something to the store: named views, deploy marks, workers that are to stop."""

from __future__ import annotations

from leasehold.core.model.phrases import counted
from leasehold.dashboard.action import OPERATOR, Action, Fields, Question, given
from leasehold.dashboard.job_columns import chosen_columns, in_address
from leasehold.dashboard.searching import parse
from leasehold.dashboard.shown import link
from leasehold.dashboard.visit import Desk
from leasehold.errors import InvalidRequestError
from leasehold.queue.upkeep import Upkeep
from leasehold.service.caller import Caller


def _keep_view(desk: Desk, caller: Caller, fields: Fields) -> int:
    show = in_address(chosen_columns([fields.get("show", "")]))
    # An invalid search is explained to its author, and not kept.
    parse(fields.get("q", ""), desk.queue.now())
    # Only what follows the page's name is kept: a view never leads anywhere else.
    query = link("jobs", q=fields.get("q"), show=show).partition("?")[2]
    name = given(fields, "name").strip()
    known = {each.name: each for each in desk.store.pins("view")}.get(name)
    if known is not None and known.by != caller.actor and known.text != query:
        raise InvalidRequestError(
            f"there is a view {name!r} already, by {known.by}: choose another name, or delete it "
            "first"
        )
    desk.store.pin("view", name, query, actor=caller.actor)
    return 1


def _forget_view(desk: Desk, caller: Caller, fields: Fields) -> int:
    desk.store.unpin("view", given(fields, "name"), actor=caller.actor)
    return 1


def _mark_deploy(desk: Desk, caller: Caller, fields: Fields) -> int:
    desk.store.pin("deploy", given(fields, "name").strip(), "", actor=caller.actor)
    return 1


def _ask_stop(desk: Desk, fields: Fields) -> Question:
    worker = given(fields, "worker")
    known = next((each for each in desk.store.workers() if each.id == worker), None)
    if known is None:
        return Question(f"Stop worker {worker}?", "It is not registered: it may have stopped.", "")
    effect = (
        f"It leases no more, finishes what it runs ({counted(known.running, 'job')}) within its "
        "grace period, and hands back the rest with no attempt spent. It learns of this when it "
        "next contacts the store. The program that started it may start another one."
    )
    return Question(f"Stop worker {worker}?", effect, "Stop the worker")


def _stop(desk: Desk, caller: Caller, fields: Fields) -> int:
    Upkeep(desk.store, caller.actor).stop_worker(given(fields, "worker"))
    return 1


PIN_ORDERS = {
    "keep-view": Action(
        OPERATOR, _keep_view, "The view is saved, for everybody.",
        lambda fields: link("jobs", q=fields.get("q"), show=fields.get("show")),
    ),
    "forget-view": Action(OPERATOR, _forget_view, "The view is deleted.", lambda _: "jobs"),
    "mark-deploy": Action(
        OPERATOR, _mark_deploy, "The deploy is marked.", lambda _: "failures",
    ),
    "stop-worker": Action(
        OPERATOR, _stop, "The worker was asked to stop.", lambda _: "workers", _ask_stop,
    ),
}  # fmt: skip
