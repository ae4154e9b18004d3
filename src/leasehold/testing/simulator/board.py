"""What simulated people and programs know beside the store: which ids and keys there have been."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from leasehold.core.model.job import Draft


@dataclass(slots=True)
class Board:
    """Shared by all processes, and never forgotten: a crashed producer must not repeat an id."""

    ids: list[str] = field(default_factory=list)
    discarded: list[str] = field(default_factory=list)
    keyed: list[Draft] = field(default_factory=list)
    """Submitted drafts with an idempotency key, accepted or not."""
    last_number: int = 0

    def new_id(self) -> str:
        self.last_number += 1
        self.ids.append(f"job-{self.last_number}")
        return self.ids[-1]

    def new_key(self) -> str:
        self.last_number += 1
        return f"key-{self.last_number}"

    def some_ids(self, random: Random, most: int = 2) -> list[str]:
        """A few ids, the latest more likely than the others."""
        recent = self.ids[-30:] if random.random() < 0.7 else self.ids
        return random.sample(recent, min(len(recent), random.randint(1, most)))
