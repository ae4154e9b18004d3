"""Dark, light, or the system's choice: a cookie, so that a page arrives in the right colours."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

COOKIE: Final = "leasehold_theme"
THEMES: Final = ("system", "light", "dark")
KEPT_SECONDS: Final = 365 * 24 * 3600


def theme_of(request: Request) -> str:
    """The colours that this browser wants."""
    asked = request.cookies.get(COOKIE, "")
    return asked if asked in THEMES else THEMES[0]


def keep_theme(response: Response, theme: str, request: Request) -> None:
    """Give the browser its cookie, which applies to the dashboard's path (`Sessions.keep`)."""
    response.set_cookie(
        COOKIE,
        theme if theme in THEMES else THEMES[0],
        max_age=KEPT_SECONDS,
        path=None,
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )


def page_before(request: Request) -> str:
    """The page whose form this is, relative to the dashboard."""
    before = urlsplit(request.headers.get("referer", ""))
    name = before.path.rpartition("/")[2]
    return f"{name}?{before.query}" if before.query else name
