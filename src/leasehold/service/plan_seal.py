"""Seals of plans: a service's counts come back from its client unchanged, or not at all.

A caller who agrees to a plan brings it back, and it is recorded as the announcement. A seal is made
with the store's signing key: every server of a store knows the plans of all of them, and none has
to be kept.
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
        """The seal of an announcement, as text.

        >>> PlanSeals(b"key").of(["replay", 3]) == PlanSeals(b"key").of(["replay", 4])
        False
        """
        return hmac.new(self._key, msgspec.msgpack.encode(announced), hashlib.sha256).hexdigest()

    def check(self, seal: str, announced: Any) -> None:
        """Raise InvalidRequestError unless exactly this was announced here."""
        if not hmac.compare_digest(seal.encode(errors="replace"), self.of(announced).encode()):
            raise InvalidRequestError(
                "this plan does not come from this service: make a new one, and confirm that"
            )

    def sealed(self, plan: Plan) -> Plan:
        """A plan for a client that is to bring it back."""
        return msgspec.structs.replace(plan, seal=self.of(msgspec.structs.replace(plan, seal="")))

    def check_plan(self, plan: Plan) -> None:
        """Raise InvalidRequestError unless this is a plan as it was given to a client."""
        self.check(plan.seal, msgspec.structs.replace(plan, seal=""))
