"""The deterministic simulator: the production code under a virtual clock and every kind of fault.

>>> from leasehold.stores.memory import MemoryStore
>>> simulate(Scenario(seed=1, steps=50), MemoryStore).violation is None
True

faults.py    the possible faults            world.py     the actors' turns, in virtual time
channel.py   where faults strike calls      calllog.py   requests, effects and replies
producers.py holders.py workers.py operators.py          the actors
model.py     the expected state             judge_*.py   comparisons with it
runner.py    one seed, one run              shrinking.py the smallest run that still fails
replaying.py the same trace on another store
"""

from leasehold.testing.simulator.calllog import Applied, CallLog, LoggedCall
from leasehold.testing.simulator.faults import Fault, Swarm
from leasehold.testing.simulator.model import ViolationError
from leasehold.testing.simulator.replaying import Trace, replay
from leasehold.testing.simulator.runner import RunReport, Scenario, simulate
from leasehold.testing.simulator.shrinking import Shrinker
from leasehold.testing.simulator.world import Omitted

__all__ = [
    "Applied",
    "LoggedCall",
    "CallLog",
    "Fault",
    "Omitted",
    "RunReport",
    "Scenario",
    "Shrinker",
    "Swarm",
    "Trace",
    "ViolationError",
    "replay",
    "simulate",
]
