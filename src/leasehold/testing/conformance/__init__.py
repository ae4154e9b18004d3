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

import pkgutil

import pytest

# Before they are imported (hence the imports below), so that a failed assert shows its values.
pytest.register_assert_rewrite(
    *(f"{__name__}.{each.name}" for each in pkgutil.iter_modules(__path__))
)

from leasehold.testing.conformance.admitting import AdmittingClauses  # noqa: E402
from leasehold.testing.conformance.admitting_callers import AdmittingCallersClauses  # noqa: E402
from leasehold.testing.conformance.archive_orders import ArchiveOrderClauses  # noqa: E402
from leasehold.testing.conformance.archiving import ArchivingClauses  # noqa: E402
from leasehold.testing.conformance.base import MakeStore  # noqa: E402
from leasehold.testing.conformance.breaking import BreakingClauses  # noqa: E402
from leasehold.testing.conformance.clocking import ClockClauses  # noqa: E402
from leasehold.testing.conformance.configuring import ConfiguringClauses  # noqa: E402
from leasehold.testing.conformance.consuming import ConsumingClauses  # noqa: E402
from leasehold.testing.conformance.counting import CountingClauses  # noqa: E402
from leasehold.testing.conformance.dependency_ends import DependencyEndsClauses  # noqa: E402
from leasehold.testing.conformance.depending import DependingClauses  # noqa: E402
from leasehold.testing.conformance.expiring import ExpiringClauses  # noqa: E402
from leasehold.testing.conformance.failing import FailingClauses  # noqa: E402
from leasehold.testing.conformance.firing import FiringClauses  # noqa: E402
from leasehold.testing.conformance.following import FollowingClauses  # noqa: E402
from leasehold.testing.conformance.general import GeneralClauses  # noqa: E402
from leasehold.testing.conformance.holding import HoldingClauses  # noqa: E402
from leasehold.testing.conformance.inheriting import InheritingClauses  # noqa: E402
from leasehold.testing.conformance.keying import KeyingClauses  # noqa: E402
from leasehold.testing.conformance.leasing import LeasingClauses  # noqa: E402
from leasehold.testing.conformance.limiting import LimitingClauses  # noqa: E402
from leasehold.testing.conformance.measuring import MeasuringClauses  # noqa: E402
from leasehold.testing.conformance.measuring_kinds import MeasuringKindsClauses  # noqa: E402
from leasehold.testing.conformance.measuring_lifetimes import (  # noqa: E402
    MeasuringLifetimesClauses,
)
from leasehold.testing.conformance.measuring_now import MeasuringNowClauses  # noqa: E402
from leasehold.testing.conformance.operating import OperatingClauses  # noqa: E402
from leasehold.testing.conformance.ordering import OrderingClauses  # noqa: E402
from leasehold.testing.conformance.pacing import PacingClauses  # noqa: E402
from leasehold.testing.conformance.paging import PagingClauses  # noqa: E402
from leasehold.testing.conformance.parking import ParkingClauses  # noqa: E402
from leasehold.testing.conformance.people import PeopleClauses  # noqa: E402
from leasehold.testing.conformance.pinning import PinningClauses  # noqa: E402
from leasehold.testing.conformance.purging import PurgingClauses  # noqa: E402
from leasehold.testing.conformance.queueing import QueueingClauses  # noqa: E402
from leasehold.testing.conformance.reading import ReadingClauses  # noqa: E402
from leasehold.testing.conformance.recovering import RecoveringClauses  # noqa: E402
from leasehold.testing.conformance.referencing import ReferencingClauses  # noqa: E402
from leasehold.testing.conformance.repairing_clock import RepairingClockClauses  # noqa: E402
from leasehold.testing.conformance.repeating import RepeatingClauses  # noqa: E402
from leasehold.testing.conformance.retaining import RetainingClauses  # noqa: E402
from leasehold.testing.conformance.retaining_by_queue import RetainingByQueueClauses  # noqa: E402
from leasehold.testing.conformance.scheduling import SchedulingClauses  # noqa: E402
from leasehold.testing.conformance.scoring import ScoringClauses  # noqa: E402
from leasehold.testing.conformance.searching import SearchingClauses  # noqa: E402
from leasehold.testing.conformance.settling import SettlingClauses  # noqa: E402
from leasehold.testing.conformance.settling_again import SettlingAgainClauses  # noqa: E402
from leasehold.testing.conformance.signing import SigningClauses  # noqa: E402
from leasehold.testing.conformance.starting import StartingClauses  # noqa: E402
from leasehold.testing.conformance.submitting import SubmittingClauses  # noqa: E402
from leasehold.testing.conformance.submitting_partly import SubmittingPartlyClauses  # noqa: E402
from leasehold.testing.conformance.telling import TellingClauses  # noqa: E402
from leasehold.testing.conformance.texts import TextClauses  # noqa: E402
from leasehold.testing.conformance.timelines import TimelineClauses  # noqa: E402
from leasehold.testing.conformance.transacting import TransactingClauses  # noqa: E402
from leasehold.testing.conformance.transacting_attempts import TransactingAttemptsClauses  # noqa: E402
from leasehold.testing.conformance.transacting_rules import TransactingRulesClauses  # noqa: E402
from leasehold.testing.conformance.undoing import UndoingClauses  # noqa: E402
from leasehold.testing.conformance.waking import WakingClauses  # noqa: E402


class StoreConformance(
    GeneralClauses,
    ClockClauses,
    RepairingClockClauses,
    SubmittingClauses,
    SubmittingPartlyClauses,
    SettlingClauses,
    SettlingAgainClauses,
    LeasingClauses,
    BreakingClauses,
    HoldingClauses,
    RecoveringClauses,
    PeopleClauses,
    ReadingClauses,
    RetainingClauses,
    ExpiringClauses,
    ArchivingClauses,
    ArchiveOrderClauses,
    SigningClauses,
    PinningClauses,
    CountingClauses,
    RetainingByQueueClauses,
    WakingClauses,
    SchedulingClauses,
    FiringClauses,
    QueueingClauses,
    PurgingClauses,
    LimitingClauses,
    AdmittingClauses,
    AdmittingCallersClauses,
    DependingClauses,
    DependencyEndsClauses,
    ScoringClauses,
    InheritingClauses,
    ConfiguringClauses,
    ReferencingClauses,
    MeasuringClauses,
    MeasuringNowClauses,
    MeasuringKindsClauses,
    MeasuringLifetimesClauses,
    TimelineClauses,
    FailingClauses,
    TransactingClauses,
    TransactingAttemptsClauses,
    TransactingRulesClauses,
    KeyingClauses,
    OrderingClauses,
    OperatingClauses,
    UndoingClauses,
    PagingClauses,
    RepeatingClauses,
    FollowingClauses,
    SearchingClauses,
    ParkingClauses,
    TextClauses,
    TellingClauses,
    ConsumingClauses,
    StartingClauses,
    PacingClauses,
):
    """Every clause of the contract, for one store."""


__all__ = ["MakeStore", "StoreConformance"]
