"""Operations: orders to many jobs that are counted first, carried out in steps, stopped, undone."""

from __future__ import annotations

from collections.abc import Callable

from leasehold.core.rules.filter_orders import (
    CancelAll,
    DiscardAll,
    PurgeAll,
    ReplayAll,
    ReprioritizeAll,
)
from leasehold.core.rules.operations import OperationDraft, OperationState
from leasehold.testing.soak.book import KnownOperation
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
    plans = [each.plan for each in scene.book.plans if each.jobs or scene.luck(0.1)]
    if not plans:
        return None
    plan = scene.random.choice(plans[-3:])
    draft = OperationDraft(id=scene.book.new_operation_id(), plan=plan)
    return call("begin_operation", draft=draft, actor=ACTOR)


@verb("advance an operation", 14, Feature.OPERATIONS)
def advance_operation(scene: Scene) -> Call:
    limit = scene.random.choice((1, 2, 100))
    wanted = _one(scene, lambda each: each.last.state is OperationState.RUNNING)
    return call("advance_operation", operation_id=wanted, limit=limit)


@verb("stop an operation", 2, Feature.OPERATIONS)
def stop_operation(scene: Scene) -> Call:
    return call("stop_operation", operation_id=_one(scene), actor=ACTOR)


@verb("undo an operation", 5, Feature.OPERATIONS)
def undo_operation(scene: Scene) -> Call:
    draft = OperationDraft(id=scene.book.new_operation_id(), undoes=_one(scene, _can_be_undone))
    return call("begin_operation", draft=draft, actor=ACTOR)


@verb("list operations", 1, Feature.OPERATIONS)
def operations(scene: Scene) -> Call:  # noqa: ARG001 - every verb sees the scene.
    return call("operations")


@verb("one operation", 1, Feature.SURVEYS)
def operation(scene: Scene) -> Call:
    return call("operation", operation_id=_one(scene))


def _can_be_undone(known: KnownOperation) -> bool:
    return known.last.can_be_undone and known.undone_by is None


def _one(scene: Scene, wanted: Callable[[KnownOperation], bool] = lambda _: True) -> str:
    """Mostly an operation of which there is something to ask; now and then any, or none at all."""
    known = scene.book.operations
    fitting = [name for name, each in known.items() if wanted(each) or scene.luck(0.1)]
    if not fitting or scene.luck(0.05):
        return "no-such-operation"
    return scene.random.choice(fitting)
