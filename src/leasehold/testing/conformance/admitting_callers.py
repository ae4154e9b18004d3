"""TOK: tokens for callers from other machines."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from leasehold.core.contract.store import Store
from leasehold.core.model.job import Draft
from leasehold.core.model.status import Status
from leasehold.core.model.tokens import Token, TokenDraft, digest_of
from leasehold.core.rules.tokens import ENDED_SESSIONS_KEPT
from leasehold.env import Env, ManualClock
from leasehold.errors import (
    DuplicateJobError,
    InvalidJobError,
    InvalidTokenError,
    LeaseholdError,
    TokenExistsError,
    TokenNotFoundError,
    UnauthenticatedError,
)
from leasehold.testing.conformance.base import ConformanceBase, MakeStore, at_once
from leasehold.testing.conformance.cases import on_one_store

SECRET = "lh_" + "5ec4e7" * 11
DIGEST = digest_of(SECRET)


def create(store: Store, name: str = "ci", digest: str = DIGEST, **options: Any) -> Token:
    draft = TokenDraft(**{"name": name, "roles": ("producer",), **options})
    return store.create_token(draft, digest, actor="ann")


class AdmittingCallersClauses(ConformanceBase):
    def test_tok_1_a_token_is_what_was_asked_for(self, store: Store) -> None:
        made = create(
            store,
            roles=("producer", "consumer"),
            queues=("mail", "bänk"),
            commands=True,
            lifetime_seconds=60,
        )
        assert made == Token(
            name="ci",
            roles=("producer", "consumer"),
            queues=("mail", "bänk"),
            commands=True,
            created_at=store.now(),
            created_by="ann",
            expires_at=store.now() + timedelta(seconds=60),
        )
        assert store.tokens() == [made]
        assert store.find_token(DIGEST) == made

    def test_tok_1_a_name_that_is_taken(self, store: Store) -> None:
        first = create(store)
        with pytest.raises(TokenExistsError, match="'ci'"):
            create(store, digest=digest_of("another"), roles=("admin",))
        assert store.tokens() == [first]
        assert store.find_token(digest_of("another")) is None

    def test_tok_1_of_many_at_once_one_is_made(self, store: Store) -> None:
        def attempt(number: int) -> bool:
            try:
                create(store, digest=digest_of(str(number)))
            except TokenExistsError:
                return False
            return True

        assert sorted(at_once(4, attempt)) == [False, False, False, True]

    @on_one_store(
        "options",
        [{"name": ""}, {"name": "x" * 1000}, {"name": "a\x1bb"}, {"name": "\ud800"},
         {"roles": ()}, {"roles": ("root",)}, {"queues": ()}, {"queues": ("",)},
         {"roles": ("admin",), "queues": ("mail",)},
         {"lifetime_seconds": 0}, {"lifetime_seconds": float("nan")}],
    )  # fmt: skip
    def test_tok_1_what_is_no_token_is_refused(self, store: Store, options: Any) -> None:
        with pytest.raises(InvalidTokenError):
            create(store, **options)
        assert store.tokens() == []
        assert store.audit_page().records == []

    def test_tok_2_changes_are_audited_without_the_secret(self, store: Store) -> None:
        create(store, queues=("mail",), lifetime_seconds=60)
        store.revoke_token("ci", actor="bob")
        revoked, created = store.audit_page().records
        assert (created.actor, created.action) == ("ann", "create_token")
        assert (revoked.actor, revoked.action) == ("bob", "revoke_token")
        ends_at = msgspec.to_builtins(store.now() + timedelta(seconds=60))
        assert created.detail == {
            "token": "ci", "roles": ["producer"], "queues": ["mail"], "commands": False,
            "expires_at": ends_at,
        }  # fmt: skip
        assert revoked.detail == created.detail
        for record in (revoked, created):
            assert DIGEST not in str(record.detail)
            assert SECRET not in str(record.detail)

    def test_tok_3_it_is_good_until_it_expires(self, store: Store, clock: ManualClock) -> None:
        made = create(store, lifetime_seconds=60)
        lasting = create(store, "lasting", digest_of("lasting"))
        clock.advance(59)
        assert store.find_token(DIGEST) == made
        clock.advance(1)
        assert store.find_token(DIGEST) is None
        assert store.find_token(digest_of("lasting")) == lasting
        assert store.tokens() == [made, lasting]

    def test_tok_3_it_is_good_until_it_is_revoked(self, store: Store) -> None:
        create(store)
        assert store.find_token(DIGEST) is not None
        store.revoke_token("ci", actor="bob")
        assert store.find_token(DIGEST) is None
        assert store.tokens() == []

    def test_tok_3_what_is_no_hash_is_found_by_nobody(self, store: Store) -> None:
        create(store)
        for digest in ("", SECRET, "ci", "%", DIGEST[:-1], DIGEST.upper()):
            assert store.find_token(digest) is None

    def test_tok_4_to_revoke_answers_with_it_and_frees_the_name(self, store: Store) -> None:
        made = create(store)
        assert store.revoke_token("ci", actor="bob") == made
        again = create(store, digest=digest_of("again"), roles=("operator",))
        assert store.tokens() == [again]
        assert store.find_token(DIGEST) is None

    @pytest.mark.parametrize("name", ["nobody", "", "\ud800", "c%"])
    def test_tok_4_an_unknown_name(self, store: Store, name: str) -> None:
        create(store)
        with pytest.raises(TokenNotFoundError) as refused:
            store.revoke_token(name, actor="bob")
        assert isinstance(refused.value, LeaseholdError)
        assert len(store.tokens()) == 1

    def test_tok_6_a_session_is_over_once_somebody_has_ended_it(self, store: Store) -> None:
        for name in ("ci", "shop"):
            create(store, name, digest_of(name))
        before = store.find_token(digest_of("ci"))
        store.end_session("ci", "session-1")
        store.end_session("ci", "session-1")
        assert store.is_session_over("ci", "session-1")
        assert not store.is_session_over("ci", "session-0")
        assert not store.is_session_over("ci", "session-2")
        assert not store.is_session_over("shop", "session-1")
        assert store.find_token(digest_of("ci")) == before
        store.end_session("nobody", "session-1")
        assert not store.is_session_over("nobody", "session-1")
        store.revoke_token("ci", actor="me")
        create(store, "ci", digest_of("ci again"))
        assert not store.is_session_over("ci", "session-1")

    def test_tok_6_of_very_many_those_before_the_latest_are_over(self, store: Store) -> None:
        create(store)
        for number in range(1, ENDED_SESSIONS_KEPT + 2):
            store.end_session("ci", f"{2 * number:05d}")
        last = 2 * (ENDED_SESSIONS_KEPT + 1)
        over = [store.is_session_over("ci", f"{number:05d}") for number in range(last + 2)]
        # Sessions between the kept ones go on; those that began before them do not.
        assert over == [number < 5 or number % 2 == 0 for number in range(last + 2)]

    def test_tok_7_a_submit_for_the_holder_of_a_token(self, store: Store) -> None:
        token = create(store)
        drafts = [Draft(id="a", task="t"), Draft(id="b", task="t", depends_on=("a",))]
        answers = store.submit_as(token, DIGEST, drafts)
        assert [getattr(each, "id", each) for each in answers] == ["a", "b"]
        statuses = [job.status for job in map(store.get, ("a", "b")) if job is not None]
        assert statuses == [Status.PENDING, Status.BLOCKED]

    @pytest.mark.parametrize("end", ["revoked", "expired", "another", "unknown"])
    def test_tok_7_nothing_is_stored_for_one_that_has_ended(
        self, store: Store, clock: ManualClock, end: str
    ) -> None:
        token, digest = create(store, lifetime_seconds=60), DIGEST
        match end:
            case "revoked":
                store.revoke_token("ci", actor="bob")
            case "expired":
                clock.advance(60)
            case "another":
                store.revoke_token("ci", actor="bob")
                create(store, lifetime_seconds=60, roles=("observer",))
            case "unknown":
                digest = digest_of("unknown")
        with pytest.raises(UnauthenticatedError):
            store.submit_as(token, digest, [Draft(id="a", task="t")])
        assert store.get("a") is None

    def test_tok_7_it_is_all_or_nothing(self, store: Store) -> None:
        token = create(store)
        with pytest.raises(DuplicateJobError):
            store.submit_as(token, DIGEST, [Draft(id="a", task="t"), Draft(id="a", task="t")])
        with pytest.raises(InvalidJobError):
            store.submit_as(token, DIGEST, [Draft(id="a", task="t"), Draft(id="b", task="")])
        assert store.get("a") is None

    def test_tok_5_every_store_has_a_key_of_its_own(
        self, store: Store, make_store: MakeStore, env: Env
    ) -> None:
        keys = set(at_once(4, lambda _: store.signing_key()))
        assert len(keys) == 1
        [key] = keys
        assert len(key) == 32
        other = make_store(env)
        try:
            assert other.signing_key() != key
        finally:
            other.close()
