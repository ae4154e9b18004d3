"""The dashboard's own files, and the libraries beside them: read once, packed once, kept for ever.

A file's address changes with its contents, so that a browser asks for it once.
"""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

FOLDER: Final = files("leasehold.dashboard") / "static"
KEPT: Final = "public, max-age=31536000, immutable"


def address(name: str) -> str:
    """The address of a file, relative to every page."""
    return f"static/{name}?v={digests()[name]}"


def how_long(name: str, version: str | None) -> str:
    """For how long a browser may keep a file that was asked for under this version.

    The page may come from a server of another version, beside this one: what this one has is not
    the file for that address.
    """
    return KEPT if version == digests()[name] else "no-cache"


def media_type(name: str) -> str:
    """What kind of file a browser is told."""
    return mimetypes.guess_type(name)[0] or "application/octet-stream"


@cache
def contents() -> dict[str, bytes]:
    """Every file, by its name in the folder: `app.css`, `vendor/htmx.min.js`."""
    return dict(_files_in(FOLDER))


@cache
def packed(name: str) -> bytes:
    """The same, made smaller with gzip: texts shrink to a third."""
    return gzip.compress(contents()[name], mtime=0)


def _files_in(folder: Traversable, above: str = "") -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    for each in folder.iterdir():
        name = above + each.name
        found += _files_in(each, f"{name}/") if each.is_dir() else [(name, each.read_bytes())]
    return found


@cache
def digests() -> dict[str, str]:
    return {
        name: hashlib.blake2b(body, digest_size=6).hexdigest() for name, body in contents().items()
    }
