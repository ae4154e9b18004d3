"""Rules of pins: one of each name, the latest text, and its author."""

from __future__ import annotations

from leasehold.core.model.pins import Pin
from leasehold.errors import InvalidPinError
from leasehold.testing.soak.rules.base import JudgedCall, rule


@rule("PIN-1")
def pins_are_told_oldest_first(step: JudgedCall) -> int:
    if step.method != "pins":
        return 0
    known = [pin for (kind, _), pin in step.book.pins.items() if kind == step.call.get("kind")]
    assert len(step.answer) == len(known), f"there are {known}: {step.answer}"
    for told in step.answer:
        assert _same(step, told, step.book.pins[told.kind, told.name]), f"{told} is in {known}"
    order = [(pin.at, pin.name) for pin in step.answer]
    assert order == sorted(order), f"{step.answer} are not in the order of their times"
    return 1


@rule("PIN-2")
def the_same_pin_again_is_no_change(step: JudgedCall) -> int:
    if step.method != "pin":
        return 0
    asked = step.call
    kind, name, text = asked.get("kind"), asked.get("name"), asked.get("text")
    if not name:
        assert isinstance(step.answer, InvalidPinError), f"without a name: {step.answer!r}"
        return 1
    known = step.book.pins.get((kind, name))
    if known is None or text not in ("", known.text):
        known = Pin(kind=kind, name=name, text=text, at=step.now, by=asked.get("actor"))
    assert _same(step, step.answer, known), f"it should be {known}: {step.answer!r}"
    step.book.pins[kind, name] = known
    return 1


@rule("PIN-5")
def what_is_not_pinned_is_not_taken_away(step: JudgedCall) -> int:
    if step.method != "unpin":
        return 0
    known = step.book.pins.pop((step.call.get("kind"), step.call.get("name")), None)
    if known is None:
        assert step.answer is None, f"there was none: {step.answer!r}"
    else:
        assert _same(step, step.answer, known), f"it was {known}: {step.answer!r}"
    return 1


@rule("PIN-4")
def a_stop_is_told_by_the_settings(step: JudgedCall) -> int:
    """Judged last: the other rules have noted the present pins."""
    stops = {name: pin.text for (kind, name), pin in step.book.pins.items() if kind == "stop"}
    assert step.after.settings.stops == stops, f"{stops} were asked to: {step.after.settings}"
    return len(stops)


def _same(step: JudgedCall, answer: object, pin: Pin) -> bool:
    """Whether it is that pin; its time is another once the clock was set back."""
    if not isinstance(answer, Pin):
        return False
    times_agree = answer.at == pin.at or step.book.clock_repaired
    return times_agree and (answer.kind, answer.name, answer.text, answer.by) == (
        pin.kind,
        pin.name,
        pin.text,
        pin.by,
    )
