"""The invariants of every run: one small judge per rule, from the clauses of the contract.

The judges share no decision with the stores or the core, only their data types: they look at all
jobs before and after a call, and say plainly what a clause means for them.
"""

from leasehold.testing.soak.rules import (
    admitting,
    cleaning,
    depending,
    figures,
    filter_orders,
    following,
    history,
    leasing,
    operating,
    ordering,
    pinning,
    queueing,
    reading,
    recovering,
    repeating,
    scheduling,
    settling,
    starting,
    submitting,
    tuning,
)
from leasehold.testing.soak.rules.base import RULES, BrokenRuleError, JudgedCall

__all__ = [
    "RULES",
    "BrokenRuleError",
    "JudgedCall",
    "admitting",
    "cleaning",
    "depending",
    "figures",
    "filter_orders",
    "following",
    "history",
    "leasing",
    "operating",
    "ordering",
    "pinning",
    "queueing",
    "reading",
    "recovering",
    "repeating",
    "scheduling",
    "settling",
    "starting",
    "submitting",
    "tuning",
]
