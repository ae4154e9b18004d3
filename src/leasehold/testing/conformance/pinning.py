"""Clauses about pins: deploy marks, named views, workers that are to stop."""

from __future__ import annotations

import pytest

from leasehold.core.contract.store import Store
from leasehold.core.model.pins import PINS_MAX, TEXT_LENGTH_MAX
from leasehold.env import ManualClock
from leasehold.errors import InvalidPinError
from leasehold.testing.conformance.base import ConformanceBase
from leasehold.testing.conformance.cases import on_one_store
from leasehold.testing.conformance.waking import Ears


class PinningClauses(ConformanceBase):
    """PIN-1 to PIN-5."""

    def test_pin_1_the_oldest_come_first_each_kind_by_itself(
        self, store: Store, clock: ManualClock
    ) -> None:
        for name in ("v2", "v1"):
            store.pin("deploy", name, "", actor="me")
            clock.advance(1)
        store.pin("view", "v1", "status:dead", actor="me")
        assert [each.name for each in store.pins("deploy")] == ["v2", "v1"]
        assert [each.text for each in store.pins("view")] == ["status:dead"]
        assert store.pins("stop") == []

    def test_pin_1_those_of_one_moment_come_by_name(self, store: Store) -> None:
        for name in ("v2", "v3", "v1"):
            store.pin("deploy", name, "", actor="me")
        assert [each.name for each in store.pins("deploy")] == ["v1", "v2", "v3"]

    def test_pin_1_only_the_latest_are_kept(self, store: Store, clock: ManualClock) -> None:
        for number in range(PINS_MAX + 2):
            store.pin("view", f"view {number}", "", actor="me")
            clock.advance(1)
        kept = store.pins("view")
        assert len(kept) == PINS_MAX
        assert kept[0].name == "view 2"

    def test_pin_2_the_same_again_is_no_change_and_another_text_is_one(
        self, store: Store, clock: ManualClock
    ) -> None:
        first = store.pin("deploy", "v1", "a", actor="ann")
        assert (first.kind, first.by, first.at) == ("deploy", "ann", store.now())
        clock.advance(5)
        for text in ("a", ""):
            assert store.pin("deploy", "v1", text, actor="bob") == first
        second = store.pin("deploy", "v1", "b", actor="bob")
        assert (second.by, second.at) == ("bob", store.now())
        assert store.pins("deploy") == [second]

    @on_one_store(
        "name, text",
        [("", ""), ("a\n", ""), ("n" * 300, ""), ("v1", "t" * (TEXT_LENGTH_MAX + 1)),
         ("v\ud800", ""), ("v1", "\ud800")],
    )  # fmt: skip
    def test_pin_2_what_cannot_be_pinned_is_refused(
        self, store: Store, name: str, text: str
    ) -> None:
        with pytest.raises(InvalidPinError):
            store.pin("view", name, text, actor="me")
        assert store.pins("view") == []

    def test_pin_3_every_change_is_audited(self, store: Store) -> None:
        store.pin("view", "dead", "status:dead", actor="ann")
        store.pin("view", "dead", "status:dead", actor="bob")
        store.unpin("view", "dead", actor="eve")
        assert [
            (each.action, each.actor, each.detail["view"]) for each in store.audit_page().records
        ] == [
            ("unpin_view", "eve", "dead"),
            ("pin_view", "ann", "dead"),
        ]

    def test_pin_4_a_stop_is_told_by_the_settings(self, store: Store) -> None:
        before = store.settings()
        ears = Ears(store)
        store.subscribe(ears)
        store.pin("stop", "worker-1", "today", actor="me")
        assert ears.wait_for(lambda: ears.ready > 0)
        after = store.settings()
        assert after.stops == {"worker-1": "today"}
        assert after.generation > before.generation
        assert store.exchange().settings_generation == after.generation
        store.pin("deploy", "v1", "", actor="me")
        assert store.settings() == after

    def test_pin_5_what_is_taken_away_is_gone(self, store: Store) -> None:
        pinned = store.pin("deploy", "v1", "", actor="me")
        assert store.unpin("deploy", "v1", actor="me") == pinned
        assert store.unpin("deploy", "v1", actor="me") is None
        assert store.pins("deploy") == []
