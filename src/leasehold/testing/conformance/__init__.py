"""The conformance suite: one test or more for each numbered clause of the store contract.

A store's test module subclasses it and says how to make an empty store:

    class TestMyStore(StoreConformance):
        @pytest.fixture
        def make_store(self, tmp_path: Path) -> MakeStore:
            numbers = itertools.count()
            return lambda env: MyStore(tmp_path / f"{next(numbers)}.db", env=env)

Each call of the factory must give a store of its own, empty, on the clock and randomness of `env`.
A test names its clause: `test_sub_1_...` is about SUB-1.
"""

import pytest

# Before they are imported (hence the imports below), so that a failed assert shows its values.
pytest.register_assert_rewrite(
    *(
        f"{__name__}.{module}"
        for module in (
            "base", "general", "submitting", "settling", "leasing", "holding", "recovering",
            "people", "reading", "waking", "breaking", "scheduling", "queueing", "limiting",
            "depending", "scoring", "inheriting", "keying", "retaining", "configuring",
            "referencing", "blobs", "measuring", "transacting", "transacting_rules", "texts",
            "clocking",
        )
    )
)  # fmt: skip

from leasehold.testing.conformance.base import MakeStore  # noqa: E402
from leasehold.testing.conformance.breaking import BreakingClauses  # noqa: E402
from leasehold.testing.conformance.clocking import ClockClauses  # noqa: E402
from leasehold.testing.conformance.configuring import ConfiguringClauses  # noqa: E402
from leasehold.testing.conformance.depending import DependingClauses  # noqa: E402
from leasehold.testing.conformance.general import GeneralClauses  # noqa: E402
from leasehold.testing.conformance.holding import HoldingClauses  # noqa: E402
from leasehold.testing.conformance.inheriting import InheritingClauses  # noqa: E402
from leasehold.testing.conformance.keying import KeyingClauses  # noqa: E402
from leasehold.testing.conformance.leasing import LeasingClauses  # noqa: E402
from leasehold.testing.conformance.limiting import LimitingClauses  # noqa: E402
from leasehold.testing.conformance.measuring import MeasuringClauses  # noqa: E402
from leasehold.testing.conformance.people import PeopleClauses  # noqa: E402
from leasehold.testing.conformance.queueing import QueueingClauses  # noqa: E402
from leasehold.testing.conformance.reading import ReadingClauses  # noqa: E402
from leasehold.testing.conformance.recovering import RecoveringClauses  # noqa: E402
from leasehold.testing.conformance.referencing import ReferencingClauses  # noqa: E402
from leasehold.testing.conformance.retaining import RetainingClauses  # noqa: E402
from leasehold.testing.conformance.scheduling import SchedulingClauses  # noqa: E402
from leasehold.testing.conformance.scoring import ScoringClauses  # noqa: E402
from leasehold.testing.conformance.settling import SettlingClauses  # noqa: E402
from leasehold.testing.conformance.submitting import SubmittingClauses  # noqa: E402
from leasehold.testing.conformance.texts import TextClauses  # noqa: E402
from leasehold.testing.conformance.transacting import TransactingClauses  # noqa: E402
from leasehold.testing.conformance.transacting_rules import TransactingRulesClauses  # noqa: E402
from leasehold.testing.conformance.waking import WakingClauses  # noqa: E402


class StoreConformance(
    GeneralClauses,
    ClockClauses,
    SubmittingClauses,
    SettlingClauses,
    LeasingClauses,
    BreakingClauses,
    HoldingClauses,
    RecoveringClauses,
    PeopleClauses,
    ReadingClauses,
    RetainingClauses,
    WakingClauses,
    SchedulingClauses,
    QueueingClauses,
    LimitingClauses,
    DependingClauses,
    ScoringClauses,
    InheritingClauses,
    ConfiguringClauses,
    ReferencingClauses,
    MeasuringClauses,
    TransactingClauses,
    TransactingRulesClauses,
    KeyingClauses,
    TextClauses,
):
    """Every clause of the contract, for one store."""


__all__ = ["MakeStore", "StoreConformance"]
