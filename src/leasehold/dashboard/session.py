"""Sessions: who logged in with a token stays in by a cookie that every server process understands.

The cookie holds the token's hash and an end, signed with a key of the store: no process keeps
anything, and whoever steals a cookie has not got the token. The token itself is looked up for each
request, so one that was revoked ends its sessions at once.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from leasehold.core.model.tokens import digest_of
from leasehold.errors import UnauthenticatedError
from leasehold.service.api import Api
from leasehold.service.caller import Caller

COOKIE: Final = "leasehold_session"
SESSION_SECONDS: Final = 12 * 3600
COOKIE_LENGTH_MAX: Final = 300


class Sessions:
    """Lets people in, and knows them again."""

    def __init__(self, api: Api) -> None:
        self._api = api
        key = api.store.signing_key()
        self._key = hmac.digest(key, b"leasehold dashboard session", hashlib.sha256)

    def begin(self, secret: str) -> str:
        """The cookie of who shows this secret; raises UnauthenticatedError if it is not good."""
        digest = digest_of(secret)
        self._api.caller_of(digest)
        end = int(self._api.env.now().timestamp()) + SESSION_SECONDS
        return f"{digest}.{end}.{self._signature(digest, end)}"

    def caller_of(self, cookie: str | None) -> Caller:
        """Who came with this cookie; raises UnauthenticatedError for nobody."""
        if cookie is None:
            return self._api.authenticate(None)
        return self._api.caller_of(self._digest_in(cookie))

    def _digest_in(self, cookie: str) -> str:
        digest, _, rest = cookie.partition(".")
        end, _, signature = rest.partition(".")
        if (
            len(cookie) > COOKIE_LENGTH_MAX
            or not (end.isascii() and end.isdecimal())
            or not hmac.compare_digest(
                signature.encode(errors="replace"), self._signature(digest, int(end)).encode()
            )
        ):
            raise UnauthenticatedError("this session is none of this store's: log in again")
        if int(end) <= self._api.env.now().timestamp():
            raise UnauthenticatedError("this session has ended: log in again")
        return digest

    def _signature(self, digest: str, end: int) -> str:
        return hmac.new(self._key, f"{digest}.{end}".encode(), hashlib.sha256).hexdigest()


def keep(response: Response, cookie: str, request: Request) -> None:
    """Give a browser its cookie. Without a path, it counts where the dashboard is, and there only:
    behind a proxy, nobody here knows where that is.
    """
    response.set_cookie(
        COOKIE,
        cookie,
        max_age=SESSION_SECONDS,
        path=None,
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )


def forget(response: Response) -> None:
    """Take the cookie away."""
    response.set_cookie(COOKIE, "", max_age=0, path=None, httponly=True, samesite="strict")
