"""The soak asks a store for all that the contract has: a new verb is drawn, or says why not."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

from leasehold.core.contract.store import Store
from leasehold.testing.soak import verbs

ASKED_IN_ANOTHER_WAY: Final = {
    "changes": "drawn as `follow`, which reads the feed to its end",
    "submit_once": "a submit that is drawn with a request id",
    "exchange_once": "an exchange that is drawn with a request id",
    "history": "read of every job that a call has changed",
    "list_queues": "looked at after every call",
    "now": "looked at after every call",
    "schedules": "looked at after every call",
    "settings": "looked at after every call",
    "close": "the fault `restarted` closes a store and opens it again",
}
NOT_DRAWN: Final = {
    "signing_key": "a secret of each store: there is nothing to compare",
    "subscribe": "hints come in threads of their own; the conformance suite waits for them",
}
OF_LOCAL_STORES: Final = {"repair_clock"}
"""What is drawn beyond the contract; transactions have calls of their own."""


def drawn() -> set[str]:
    """The methods that the soak's verbs name, each in a call like `call("submit", ...)`."""
    folder = Path(verbs.__file__).parent
    return {
        argument.value
        for path in sorted(folder.glob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "call"
        for argument in node.args[:1]
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    }


def contract() -> set[str]:
    return {name for name in dir(Store) if not name.startswith("_")}


def test_every_verb_of_the_contract_is_drawn() -> None:
    assert contract() - drawn() == ASKED_IN_ANOTHER_WAY.keys() | NOT_DRAWN.keys()


def test_nothing_else_is_drawn() -> None:
    assert drawn() - contract() == OF_LOCAL_STORES
