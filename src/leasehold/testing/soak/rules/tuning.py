"""Rules of settings, and of a clock that is set back by a person."""

from __future__ import annotations

from datetime import timedelta

from leasehold.core.contract.clock_store import ClockRepair
from leasehold.core.model.status import Status
from leasehold.env import from_micros
from leasehold.errors import InvalidTransitionError, UnsupportedError
from leasehold.testing.soak.rules.base import JudgedCall, rule


@rule("STT-1")
def only_what_was_set_is_there(step: JudgedCall) -> int:
    before, after = step.before.settings, step.after.settings
    values = dict(before.values)
    if not step.refused and step.method == "set_setting":
        values[step.call.get("name")] = step.call.get("value")
    if not step.refused and step.method == "unset_setting":
        values.pop(step.call.get("name"), None)
    assert after.values == values, f"set are {after.values}, not {values}"
    grown = after.generation > before.generation
    changed = after.values != before.values
    # A worker that is asked to stop, once more even, must look (PIN-4).
    stops = step.method == "pin" and step.call.get("kind") == "stop"
    assert grown == changed or (grown and stops), f"from {before} to {after}"
    return int(changed)


@rule("STT-2")
def a_bad_setting_is_refused(step: JudgedCall) -> int:
    if step.method not in ("set_setting", "unset_setting"):
        return 0
    name, value = step.call.get("name"), step.call.get("value")
    bad = name == "no_such_setting" or (name == "backoff_factor" and value == 0.5)
    assert bad == step.refused, f"{name} = {value}: {step.answer!r}"
    return int(bad)


@rule("CLK-5")
def the_clock_is_repaired_when_nobody_works(step: JudgedCall) -> int:
    if step.method != "repair_clock":
        return 0
    running = step.after.of_queue_any(Status.RUNNING)
    if isinstance(step.answer, ClockRepair):
        if step.answer.before <= step.answer.after:
            return 0
        assert not running, f"{running} run, and the clock was set back"
        step.book.clock_repaired = True
        wall = from_micros(step.after.reading.wall)
        ahead = step.after.now - wall
        assert ahead <= timedelta(seconds=1), f"the store is still {ahead} ahead"
        return 1
    expected = InvalidTransitionError | UnsupportedError
    assert isinstance(step.answer, expected), f"{step.answer!r}"
    return 1
