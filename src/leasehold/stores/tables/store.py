"""The verbs that every store on tables has in common."""

from __future__ import annotations

from leasehold.stores.tables.verbs.access import PinVerbs, SettingVerbs, TokenVerbs
from leasehold.stores.tables.verbs.figures import FigureVerbs
from leasehold.stores.tables.verbs.holding import HoldingVerbs
from leasehold.stores.tables.verbs.keeping import KeepingVerbs
from leasehold.stores.tables.verbs.looking import LookingVerbs
from leasehold.stores.tables.verbs.people import PeopleVerbs
from leasehold.stores.tables.verbs.queues import QueueVerbs, ScheduleVerbs


class TableStore(
    HoldingVerbs,
    PeopleVerbs,
    LookingVerbs,
    FigureVerbs,
    QueueVerbs,
    ScheduleVerbs,
    SettingVerbs,
    TokenVerbs,
    PinVerbs,
    KeepingVerbs,
):
    """A store hands in its own classes and functions as attributes."""
