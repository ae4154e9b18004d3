"""Rules of tokens: which there are, and which of them are good."""

from __future__ import annotations

from datetime import timedelta

from leasehold.core.model.tokens import Token
from leasehold.errors import (
    InvalidTokenError,
    TokenExistsError,
    TokenNotFoundError,
    UnauthenticatedError,
)
from leasehold.testing.soak.rules.base import JudgedCall, rule


@rule("TOK-1")
def a_token_is_made_once(step: JudgedCall) -> int:
    if step.method != "create_token":
        return 0
    draft, known = step.call.get("draft"), step.book.tokens
    if not draft.roles:
        assert isinstance(step.answer, InvalidTokenError), f"without a role: {step.answer!r}"
    elif draft.name in known:
        assert isinstance(step.answer, TokenExistsError), f"{draft.name} is there: {step.answer!r}"
    else:
        lifetime = draft.lifetime_seconds
        assert step.answer == Token(
            name=draft.name,
            roles=draft.roles,
            queues=draft.queues,
            commands=draft.commands,
            created_at=step.now,
            created_by=step.call.get("actor"),
            expires_at=None if lifetime is None else step.now + timedelta(seconds=lifetime),
        ), f"{draft} became {step.answer!r}"
        known[draft.name] = (step.call.get("digest"), step.answer)
        step.book.found_tokens[step.call.get("digest")] = step.answer
    return 1


@rule("TOK-4")
def a_token_is_revoked_once(step: JudgedCall) -> int:
    if step.method != "revoke_token":
        return 0
    name = step.call.get("name")
    known = step.book.tokens.pop(name, None)
    if known is None:
        assert isinstance(step.answer, TokenNotFoundError), f"no {name}, yet {step.answer!r}"
    else:
        assert _same(step, step.answer, known[1]), f"{name} was {known[1]}, not {step.answer!r}"
    return 1


@rule("TOK-3")
def only_what_is_good_is_found(step: JudgedCall) -> int:
    if step.method == "tokens":
        known = sorted(token.name for _, token in step.book.tokens.values())
        assert [each.name for each in step.answer] == known, f"there are {known}: {step.answer}"
        return 1
    if step.method != "find_token" or step.book.clock_repaired:
        return 0
    asked = step.call.get("digest")
    found = [token for digest, token in step.book.tokens.values() if digest == asked]
    good = [each for each in found if each.expires_at is None or each.expires_at > step.now]
    assert [each for each in (step.answer,) if each is not None] == good, f"good is {good}"
    return 1


@rule("TOK-6")
def a_session_is_over_until_its_token_is_gone(step: JudgedCall) -> int:
    over, token = step.book.sessions, step.call.get("token")
    if step.method == "revoke_token":
        over.pop(step.call.get("name"), None)
    if step.method == "end_session" and token in step.book.tokens:
        over[token].add(step.call.get("session"))
    if step.method != "is_session_over":
        return 0
    expected = step.call.get("session") in over[token]
    assert step.answer is expected, f"over are {over[token]} of {token}: {step.answer!r}"
    return 1


@rule("TOK-7")
def who_has_no_good_token_submits_nothing(step: JudgedCall) -> int:
    if step.method != "submit_as" or step.book.clock_repaired:
        return 0
    asked = (step.call.get("digest"), step.call.get("token"))
    expires_at = asked[1].expires_at
    good = asked in step.book.tokens.values() and (expires_at is None or expires_at > step.now)
    barred = isinstance(step.answer, UnauthenticatedError)
    if good:
        assert not barred, f"{asked} is good: {step.answer!r}"
    else:
        # What makes no sense may be refused before anybody asks by whose leave it came.
        assert step.refused, f"{asked} is no good: {step.answer!r}"
    return int(good or barred)


def _same(step: JudgedCall, answer: object, token: Token) -> bool:
    """Whether a token is unchanged; its times are others once the clock was set back."""
    return answer == token or (
        step.book.clock_repaired and isinstance(answer, Token) and answer.name == token.name
    )
