"""The valid fields of a form: an order accepts the fields of its own forms, each once.

A misspelt field would be a missing condition: the order would affect more jobs than the person
meant, at worst the whole store. So unknown fields are refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from leasehold.dashboard.queue_rules import RULE_NAMES
from leasehold.dashboard.searching import quoted
from leasehold.errors import InvalidRequestError

CHOSEN: Final = "chosen"
"""The ids of jobs whose rows are ticked: the one field that may come more than once."""
_LETTERS: Final = "queue task agreed"
_FOUND: Final = "q agreed"
_FIELDS: Final = {
    "cancel": "job_id reason",
    "replay": "job_id seen",
    "discard": "job_id",
    "pause-queue": "queue",
    "resume-queue": "queue",
    "drain-queue": "queue",
    "purge-queue": "queue agreed",
    "replay-letters": f"{_LETTERS} reset dependents",
    "discard-letters": _LETTERS,
    "replay-group": "fingerprint agreed reset dependents",
    "cancel-found": f"{_FOUND} reason",
    "replay-found": f"{_FOUND} reset dependents",
    "reprioritize-found": f"{_FOUND} priority",
    "discard-found": _FOUND,
    "stop-operation": "operation",
    "continue-operation": "operation",
    "undo-operation": "operation",
    "run-schedule": "name request_id",
    "pause-schedule": "name",
    "resume-schedule": "name",
    "update-queue": f"queue shown {' '.join(RULE_NAMES)}",
    "set-setting": "name value",
    "unset-setting": "name",
    "keep-view": "name q show",
    "forget-view": "name",
    "mark-deploy": "name",
    "stop-worker": "worker",
    "replay-graph": "job_id workflow reset agreed",
}
"""By order, what its forms may say beside its name."""
FIELDS_OF: Final = {order: frozenset(names.split()) for order, names in _FIELDS.items()}


def fields_of(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The fields of an order, whose name is one of them; raises InvalidRequestError."""
    fields: dict[str, str] = {}
    chosen: list[str] = []
    for name, value in pairs:
        if name == CHOSEN:
            chosen.append(value)
            continue
        if name in fields:
            raise InvalidRequestError(f"the form says {name!r} twice")
        fields[name] = value
    order = fields.get("order", "")
    if chosen:
        if "q" not in FIELDS_OF.get(order, frozenset()):
            raise InvalidRequestError(f"the order {order!r} takes no field {CHOSEN!r}")
        # A person who has ticked rows means those, not all results of the search.
        fields["q"] = " ".join(f"id:{quoted(each)}" for each in chosen)
    unknown = sorted(fields.keys() - {"order"} - FIELDS_OF.get(order, frozenset()))
    if order in FIELDS_OF and unknown:
        raise InvalidRequestError(f"the order {order!r} takes no field {unknown[0]!r}")
    return fields
