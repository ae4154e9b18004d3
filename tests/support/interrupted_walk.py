"""Ctrl-C at chosen instructions of what a store does, and whether everybody can go on after it."""

from __future__ import annotations

import gc
import random
import threading
from collections.abc import Callable, Collection, Mapping
from typing import Protocol, TypeVar

from leasehold.interrupts import SHIELD
from support.effort import THOROUGH
from support.interrupting import Instruction, Interrupter, chosen

PATIENCE_SECONDS = 60


class Scene(Protocol):
    """A store and what is around it."""

    def examine(self, verb: str) -> None:
        """Raise unless everybody can go on after this verb, which was done or cut short."""


S = TypeVar("S", bound=Scene)
Verbs = Mapping[str, Callable[[S], Callable[[], object]]]
"""What is interrupted: each prepares the scene, and answers with what is to be done then."""


def walk(
    scene: S,
    verbs: Verbs[S],
    verb: str,
    every_one_of: Callable[[str], Collection[str]],
    stride: int,
) -> None:
    """Interrupt a verb before every instruction of some files, and each `stride`-th of the others.

    Verbs share most of their way. An instruction that an earlier verb has been interrupted at is
    one of the others for the later ones, but in a thorough run.
    """
    numbers = chosen(
        _instructions(scene, verbs, verb),
        every_one_of(verb),
        stride,
        known=() if THOROUGH else _met_before(scene, verbs, verb, every_one_of),
    )
    seen = sum(_interrupted(scene, verbs, verb, [number]) for number in numbers)
    # A call takes fewer instructions than the one that was counted if that had to do what is done
    # once a second or once a minute.
    assert seen >= 0.8 * len(numbers)


def interrupt_twice(scene: S, verbs: Verbs[S], verb: str, times: int) -> None:
    """Interrupt a verb at two instructions of one call, so many times."""
    length = len(_instructions(scene, verbs, verb))
    dice = random.Random(verb)
    for _ in range(times):
        _interrupted(scene, verbs, verb, sorted(dice.sample(range(length), 2)))


def in_another_thread(action: Callable[[], object]) -> None:
    """Do it there; raise what it raises, or if it does not end."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            action()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(PATIENCE_SECONDS)
    assert not thread.is_alive(), "another thread waits for ever"
    assert not raised, raised


_MET: dict[tuple[type, str], frozenset[Instruction]] = {}
"""By kind of scene and verb, the instructions of the verb: another scene's are the same."""


def _met_before(
    scene: S, verbs: Verbs[S], verb: str, every_one_of: Callable[[str], Collection[str]]
) -> set[Instruction]:
    names = list(verbs)
    found: set[Instruction] = set()
    for earlier in names[: names.index(verb)]:
        key = type(scene), earlier
        if key not in _MET:
            _MET[key] = frozenset(_instructions(scene, verbs, earlier))
        wanted = every_one_of(earlier)
        found |= {instruction for instruction in _MET[key] if instruction[0] in wanted}
    return found


def _instructions(scene: S, verbs: Verbs[S], verb: str) -> list[Instruction]:
    for _ in range(3):  # The first times, things are looked up and prepared that are known later.
        action = verbs[verb](scene)
        counting = Interrupter()
        with counting.watching():
            action()
        scene.examine(verb)
    return counting.instructions


def _interrupted(scene: S, verbs: Verbs[S], verb: str, at: list[int]) -> int:
    """Interrupt the verb there, as an application would that catches it; how often it had to."""
    action = verbs[verb](scene)
    interrupter, seen = Interrupter(at), 0
    try:
        with interrupter.watching():
            action()
    except KeyboardInterrupt:
        seen += 1
    try:
        with SHIELD:
            pass  # One that came while another was delivered is heard of now.
    except KeyboardInterrupt:
        seen += 1
    assert (interrupter.raised > 0) <= seen <= interrupter.raised
    del action
    gc.collect(0)
    scene.examine(verb)
    return seen
