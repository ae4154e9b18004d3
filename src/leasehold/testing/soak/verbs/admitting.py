"""Tokens: the rights of callers over a network."""

from __future__ import annotations

from leasehold.core.model.tokens import Role, TokenDraft
from leasehold.testing.soak.calls import Call, call
from leasehold.testing.soak.swarm import Feature
from leasehold.testing.soak.verbs.base import Scene, verb
from leasehold.testing.soak.verbs.ordering import ACTOR
from leasehold.testing.soak.verbs.submitting import drafts

NAMES = ("ci", "shop", "till")


@verb("create a token", 3, Feature.TOKENS)
def create_token(scene: Scene) -> Call:
    random = scene.random
    roles: tuple[Role, ...] = random.choice((("producer",), ("consumer", "operator"), ()))
    draft = TokenDraft(
        name=random.choice(NAMES),
        roles=roles,
        queues=random.choice((None, scene.swarm.queues[:1])),
        commands=scene.luck(0.2),
        lifetime_seconds=random.choice((None, 20.0, 300.0)),
    )
    # No two tokens have one secret.
    digest = scene.book.new_digest()
    return call("create_token", draft=draft, digest=digest, actor=ACTOR)


@verb("revoke a token", 2, Feature.TOKENS)
def revoke_token(scene: Scene) -> Call:
    return call("revoke_token", name=scene.random.choice(NAMES), actor=ACTOR)


@verb("list tokens", 1, Feature.TOKENS)
def tokens(scene: Scene) -> Call:  # noqa: ARG001 - every verb sees the scene.
    return call("tokens")


@verb("look for a token", 3, Feature.TOKENS)
def find_token(scene: Scene) -> Call:
    digests = scene.book.digests[-6:] or ["digest-0"]
    return call("find_token", digest=scene.random.choice(digests))


SESSIONS = ("session-1", "session-2", "session-3")


@verb("submit as the holder of a token", 3, Feature.SESSIONS)
def submit_as(scene: Scene) -> Call | None:
    """By a token that was good when it was found; by now it may be revoked, or have expired."""
    found = [*scene.book.found_tokens.items()][-6:]
    if not found:
        return None
    digest, token = scene.random.choice(found)
    return call("submit_as", token=token, digest=digest, drafts=drafts(scene))


@verb("end a session", 5, Feature.SESSIONS)
def end_session(scene: Scene) -> Call:
    token, session = _holder(scene), scene.random.choice(SESSIONS)
    return call("end_session", token=token, session=session)


@verb("is a session over", 6, Feature.SESSIONS)
def is_session_over(scene: Scene) -> Call:
    token, session = _holder(scene), scene.random.choice(SESSIONS)
    return call("is_session_over", token=token, session=session)


def _holder(scene: Scene) -> str:
    """Mostly the name of a token that there is."""
    known = NAMES if scene.luck(0.1) else tuple(scene.book.tokens) or NAMES
    return scene.random.choice(known)
