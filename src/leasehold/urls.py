"""What the URL of a store says without opening it, and without loading anything."""

from __future__ import annotations


def sqlite_path(url: str) -> str | None:
    """The file that a URL names; None if it names another kind of store.

    >>> sqlite_path("jobs.db"), sqlite_path("sqlite:////var/jobs.db?durability=normal")
    ('jobs.db', '/var/jobs.db')
    >>> sqlite_path("sqlite://jobs.db") is None
    True
    """
    scheme, separator, rest = url.partition("://")
    if not separator:
        return url
    if scheme != "sqlite" or not rest.startswith("/"):
        return None  # A URL with two slashes names no file: opening it says so.
    from urllib.parse import unquote

    return unquote(rest.partition("?")[0][1:])
