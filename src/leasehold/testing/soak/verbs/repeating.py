"""Requests under ids of their own, sent again: because a reply was lost, or by mistake."""

from __future__ import annotations

from leasehold.testing.soak.calls import Call
from leasehold.testing.soak.swarm import Feature
from leasehold.testing.soak.verbs.base import Scene, verb


@verb("send a request again", 5, Feature.REPEATS)
def send_again(scene: Scene) -> Call | None:
    requests = list(scene.book.requests.values())[-20:]
    return scene.random.choice(requests).asked if requests else None


@verb("send another request under its id", 1, Feature.REPEATS)
def send_another(scene: Scene) -> Call | None:
    """A caller that gives one id to two requests, of one kind or of two."""
    requests = list(scene.book.requests.values())[-20:]
    if not requests:
        return None
    asked = scene.random.choice(requests).asked
    others = (
        Call("exchange", {"settlements": [], "request": None}, asked.request_id),
        Call("submit", {"drafts": [], "partial": False}, asked.request_id),
    )
    return scene.random.choice([other for other in others if other != asked])
