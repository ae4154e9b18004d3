"""What only a store on this machine can do is asked for, and refused clearly."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from leasehold.core.contract.local_store import LocalVerbs, local_part
from leasehold.core.contract.store import Store
from leasehold.errors import UnsupportedError
from leasehold.stores.memory import MemoryStore
from leasehold.stores.sqlite import SQLiteStore


class FarAway:
    """A store that is reached over a network, as far as this matters."""

    def __repr__(self) -> str:
        return "FarAway('https://jobs.example')"


def test_a_store_here_is_its_own_local_part(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "jobs.db")
    assert local_part(store, "a backup") is store
    store.close()


def test_a_store_elsewhere_has_none() -> None:
    with pytest.raises(UnsupportedError, match=r"^a backup works only where the database"):
        local_part(cast("Store", FarAway()), "a backup")


def test_no_verb_is_both_local_and_for_a_network() -> None:
    def verbs(kind: type) -> set[str]:
        return {name for name in dir(kind) if not name.startswith("_")}

    assert verbs(Store) & verbs(LocalVerbs) == set()
    assert {"backup", "connect", "submit_within", "repair_clock"} <= verbs(LocalVerbs)
    assert verbs(LocalVerbs) <= verbs(MemoryStore)
