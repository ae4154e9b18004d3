"""Sessions: a visitor who logged in with a token has a cookie that every server process
understands.

The cookie holds the token's hash, the session's id and an end, signed with a key of the store: no
process keeps any state, and a stolen cookie does not reveal the token. At each request the store is
asked whether the token is valid and the session not over: revoking the token, or logging out, ends
it at once, for every process and every copy of the cookie. A cookie is valid only for a short time,
and open pages renew it.

Browsers keep cookies by host, regardless of the port, so the cookie is named for the store: the
dashboards of two stores on one host do not overwrite each other's session.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Final, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from leasehold.core.model.tokens import digest_of
from leasehold.errors import UnauthenticatedError
from leasehold.service.api import Api
from leasehold.service.caller import Caller

COOKIE: Final = "leasehold_session"
"""The prefix of cookie names; the rest identifies the store."""
NAME_DIGITS: Final = 16
SESSION_SECONDS: Final = 12 * 3600
"""The longest duration of a session, however much it is used."""
UNUSED_SECONDS: Final = 3600
"""How long a cookie is valid; an unused session ends then."""
COOKIE_LENGTH_MAX: Final = 300


class _Session(NamedTuple):
    """The contents of a cookie. Times are whole seconds since 1970."""

    digest: str
    id: str
    over_at: int
    """When the session is over, however often its cookie is renewed."""
    good_until: int


class Sessions:
    """Logs people in, and recognises them afterwards."""

    def __init__(self, api: Api) -> None:
        self._api = api
        key = api.store.signing_key()
        self._key = hmac.digest(key, b"leasehold dashboard session", hashlib.sha256)
        named = hmac.digest(key, b"leasehold dashboard cookie", hashlib.sha256)
        self.cookie_name = f"{COOKIE}_{named.hex()[:NAME_DIGITS]}"

    def cookie_of(self, request: Request) -> str | None:
        """The cookie that a browser sends for this store."""
        return request.cookies.get(self.cookie_name)

    def begin(self, secret: str) -> str:
        """The cookie for the owner of a secret; raises UnauthenticatedError if it is invalid."""
        digest = digest_of(secret)
        self._api.caller_of(digest)
        return self._cookie(digest, self._api.env.new_id(), self._now() + SESSION_SECONDS)

    def caller_of(self, cookie: str | None) -> Caller:
        """The caller with this cookie; raises UnauthenticatedError if it is not good."""
        if cookie is None:
            return self._api.authenticate(None)
        session = self._read(cookie)
        caller = self._api.caller_of(session.digest)
        store = self._api.store
        if self._api.guarded(lambda: store.is_session_over(caller.name, session.id)):
            raise _over()
        return caller

    def end(self, cookie: str) -> None:
        """Log out: every copy of the cookie becomes worthless."""
        caller, session = self.caller_of(cookie), self._read(cookie)
        self._api.guarded(lambda: self._api.store.end_session(caller.name, session.id))

    def renewed(self, cookie: str) -> str | None:
        """The next cookie of an active session; None while the present one has long to live."""
        session = self._read(cookie)
        if session.good_until == session.over_at:
            return None
        if session.good_until - self._now() > UNUSED_SECONDS / 2:
            return None
        return self._cookie(session.digest, session.id, session.over_at)

    def keep(self, response: Response, cookie: str, request: Request) -> None:
        """Give a browser its cookie. Without a path, it counts where the dashboard is, and there
        only: behind a proxy, the server does not know where that is.
        """
        self._give(response, cookie, UNUSED_SECONDS, request)

    def forget(self, response: Response, request: Request) -> None:
        """Delete the cookie."""
        self._give(response, "", 0, request)

    def _give(self, response: Response, cookie: str, seconds: int, request: Request) -> None:
        response.set_cookie(
            self.cookie_name,
            cookie,
            max_age=seconds,
            path=None,
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )

    def _cookie(self, digest: str, session_id: str, over_at: int) -> str:
        good_until = min(over_at, self._now() + UNUSED_SECONDS)
        session = _Session(digest, session_id, over_at, good_until)
        return f"{_text(session)}.{self._signature(session)}"

    def _read(self, cookie: str) -> _Session:
        parts = (*cookie.split(".", 4), *[""] * 4)[:5]
        digest, session_id, over_at, good_until, signature = parts
        if len(cookie) > COOKIE_LENGTH_MAX or not all(
            moment.isascii() and moment.isdecimal() for moment in (over_at, good_until)
        ):
            raise _not_ours()
        session = _Session(digest, session_id, int(over_at), int(good_until))
        if not hmac.compare_digest(
            signature.encode(errors="replace"), self._signature(session).encode()
        ):
            raise _not_ours()
        if session.good_until <= self._now():
            raise _over()
        return session

    def _signature(self, session: _Session) -> str:
        said = _text(session).encode(errors="replace")
        return hmac.new(self._key, said, hashlib.sha256).hexdigest()

    def _now(self) -> int:
        return int(self._api.env.now().timestamp())


def _text(session: _Session) -> str:
    return f"{session.digest}.{session.id}.{session.over_at}.{session.good_until}"


def _over() -> UnauthenticatedError:
    return UnauthenticatedError("this session has ended: log in again")


def _not_ours() -> UnauthenticatedError:
    return UnauthenticatedError("this session does not belong to this store: log in again")
