"""Seals of plans: a client can return the service's counts only unchanged.

A caller who agrees to a plan sends it back, and it is recorded as announced. A seal is made with
the store's signing key, so every server of a store recognises the plans of all of them, and none
has to be stored.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Any

import msgspec

from leasehold.core.rules.operations import Plan
from leasehold.errors import InvalidRequestError


class PlanSeals:
    """Makes seals, and checks them."""

    def __init__(self, key: bytes) -> None:
        self._key = hmac.digest(key, b"leasehold plan", hashlib.sha256)

    def of(self, announced: Any) -> str:
        """The seal of a plan, as text.

        >>> PlanSeals(b"key").of(["replay", 3]) == PlanSeals(b"key").of(["replay", 4])
        False
        """
        return hmac.new(self._key, msgspec.msgpack.encode(announced), hashlib.sha256).hexdigest()

    def check(self, seal: str, announced: Any) -> None:
        """Raise InvalidRequestError unless exactly this plan was sealed here."""
        if not hmac.compare_digest(seal.encode(errors="replace"), self.of(announced).encode()):
            raise InvalidRequestError(
                "this plan does not come from this service: make a new one, and confirm that"
            )

    def sealed(self, plan: Plan) -> Plan:
        """A sealed plan, for a client to send back."""
        return msgspec.structs.replace(plan, seal=self.of(msgspec.structs.replace(plan, seal="")))

    def check_plan(self, plan: Plan) -> None:
        """Raise InvalidRequestError unless this is an unchanged sealed plan."""
        self.check(plan.seal, msgspec.structs.replace(plan, seal=""))
