"""Operations: orders to many jobs that are counted first, carried out in steps, stopped, undone."""

from __future__ import annotations

from leasehold.core.rules.filter_orders import (
    CancelAll,
    DiscardAll,
    PurgeAll,
    ReplayAll,
    ReprioritizeAll,
)
from leasehold.core.rules.operations import OperationDraft
from leasehold.testing.soak.calls import Call, call
from leasehold.testing.soak.swarm import Feature
from leasehold.testing.soak.verbs.base import Scene, verb
from leasehold.testing.soak.verbs.ordering import ACTOR, job_filter


@verb("plan an operation", 5, Feature.OPERATIONS)
def plan_operation(scene: Scene) -> Call:
    wanted = scene.random.choice(
        (
            CancelAll("all of these"),
            ReplayAll(reset_attempts=scene.luck(0.5)),
            DiscardAll(),
            ReprioritizeAll(scene.random.choice((0, 60, 100))),
            PurgeAll(),
        )
    )
    return call("plan_operation", order=wanted, where=job_filter(scene))


@verb("begin an operation", 6, Feature.OPERATIONS)
def begin_operation(scene: Scene) -> Call | None:
    """What somebody has seen the numbers of, now or a while ago."""
    if not scene.book.plans:
        return None
    plan = scene.random.choice(scene.book.plans[-3:]).plan
    draft = OperationDraft(id=scene.book.new_operation_id(), plan=plan)
    return call("begin_operation", draft=draft, actor=ACTOR)


@verb("advance an operation", 14, Feature.OPERATIONS)
def advance_operation(scene: Scene) -> Call:
    limit = scene.random.choice((1, 2, 100))
    return call("advance_operation", operation_id=_one(scene), limit=limit)


@verb("stop an operation", 2, Feature.OPERATIONS)
def stop_operation(scene: Scene) -> Call:
    return call("stop_operation", operation_id=_one(scene), actor=ACTOR)


@verb("undo an operation", 5, Feature.OPERATIONS)
def undo_operation(scene: Scene) -> Call:
    draft = OperationDraft(id=scene.book.new_operation_id(), undoes=_one(scene))
    return call("begin_operation", draft=draft, actor=ACTOR)


@verb("list operations", 1, Feature.OPERATIONS)
def operations(scene: Scene) -> Call:  # noqa: ARG001 - every verb sees the scene.
    return call("operations")


def _one(scene: Scene) -> str:
    """One of the latest operations; now and then one that never was."""
    known = list(scene.book.operations)[-4:]
    if not known or scene.luck(0.05):
        return "no-such-operation"
    return scene.random.choice(known)
