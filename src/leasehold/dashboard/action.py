"""An order on the pages: its roles, its question beforehand, and its message afterwards."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from leasehold.core.model.job import Job
from leasehold.core.model.tokens import Role
from leasehold.core.rules.operations import Operation, Plan
from leasehold.dashboard.left_behind import NOBODY, LeftBehind
from leasehold.dashboard.visit import Desk, FilledPage
from leasehold.errors import InvalidRequestError
from leasehold.service.api import OPERATIONS
from leasehold.service.caller import Caller

Fields = Mapping[str, str]
OPERATOR: Final[tuple[Role, ...]] = ("operator",)
_BY_NAME: Final = {each.name: each for each in OPERATIONS}


@dataclass(frozen=True)
class Question:
    """The question before an order is carried out."""

    title: str
    effect: str
    button: str
    """Empty if there is nothing to do."""
    is_grave: bool = False
    has_reason: bool = False
    has_priority: bool = False
    has_reset: bool = False
    plan: Plan | None = None
    """The plan of an order to many jobs."""
    samples: tuple[Job, ...] = ()
    why_skipped: str = ""
    left_behind: LeftBehind = NOBODY


@dataclass(frozen=True)
class Action:
    """One order."""

    roles: tuple[Role, ...]
    do: Callable[[Desk, Caller, Fields], int | Operation]
    """Carries it out; returns how many jobs were changed, or the operation that carries it out."""
    told: str
    """The message of the next page; {jobs} and {rules} are that number of them."""
    back: Callable[[Fields], str]
    """The page to go to afterwards."""
    ask: Callable[[Desk, Fields], Question] | None = None
    """None for an order without a question: it can be undone, and concerns one thing."""
    again: Callable[[Desk, Fields, str], FilledPage] | None = None
    """For an order with fields to fill in: its page again, with the mistake."""
    told_none: str = ""
    """The message of the next page when nothing was changed, if that is another one."""


def operation_of(name: str, *names: str) -> Callable[[Desk, Caller, Fields], int]:
    """Carry out an operation of the service, which checks the caller and audits it."""
    operation = _BY_NAME[name]

    def do(desk: Desk, caller: Caller, fields: Fields) -> int:
        asked = operation.request(**{each: given(fields, each) for each in names})
        desk.api.call(operation, caller, asked)
        return 1

    return do


def given(fields: Fields, name: str) -> str:
    """A required field of a form; only a reason may be left out."""
    if name == "reason":
        return fields.get(name, "")
    if not fields.get(name):
        raise InvalidRequestError(f"the form lacks {name}")
    return fields[name]
