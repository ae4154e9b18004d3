"""Soaking: every verb of the store contract, with faults, on every store side by side, judged.

>>> with stage("memory") as stores:
...     run(Scenario(seed=1, steps=30), stores).broken is None
True

The simulator (`leasehold.testing.simulator`) runs the production worker against a store; this
package draws every verb itself, so that it reaches calls that no worker makes.

swarm.py      which features and faults a seed has
verbs/        the calls of programs and people: one function per verb
running.py    one seed, one run               subjects.py   the stores, opened and restarted
observing.py  everything a store shows        comparing.py  that all stores show the same
rules/        the invariants: one judge per clause
book.py       the memory of a run             coverage.py   events met, how often
shrinking.py  the smallest run that still fails
"""

from leasehold.testing.soak.coverage import Coverage
from leasehold.testing.soak.rules import RULES, BrokenRuleError
from leasehold.testing.soak.running import SAME, Report, Scenario, run
from leasehold.testing.soak.shrinking import shrink
from leasehold.testing.soak.subjects import Stage, stage
from leasehold.testing.soak.verbs import VERBS

__all__ = [
    "RULES",
    "SAME",
    "VERBS",
    "BrokenRuleError",
    "Coverage",
    "Report",
    "Scenario",
    "Stage",
    "run",
    "shrink",
    "stage",
]
