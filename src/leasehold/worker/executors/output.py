"""Where the output of commands is kept, and how parts of it are quoted."""

from __future__ import annotations

import hashlib
import os
import re
from typing import Final

TAIL_BYTES_MAX: Final = 4096
LINE_LENGTH_MAX: Final = 500

# Lower case only: some file systems do not distinguish "Job" from "job".
_SAFE_NAME: Final = re.compile(r"[a-z0-9_-][a-z0-9_.-]{0,99}")


def output_paths(output_dir: str, job_id: str, version: int) -> tuple[str, str]:
    """The files for one attempt's stdout and stderr: no two attempts share them.

    >>> output_paths("/var/out", "0191-a", 7)
    ('/var/out/0191-a/7.out', '/var/out/0191-a/7.err')
    """
    folder = os.path.join(output_dir, _folder_name(job_id))
    return os.path.join(folder, f"{version}.out"), os.path.join(folder, f"{version}.err")


def tail(path: str) -> str:
    """The end of a file as text; bytes that are not UTF-8 are replaced."""
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - TAIL_BYTES_MAX))
        data = file.read(TAIL_BYTES_MAX)
    if size > TAIL_BYTES_MAX:
        # The cut may have split a character, whose remaining bytes are useless.
        data = re.sub(rb"\A[\x80-\xbf]{1,3}", b"", data)
    return data.decode("utf-8", "replace")


def last_line(text: str) -> str:
    r"""The last non-empty line, bounded, with control characters made visible.

    >>> last_line("ok\n\x1b[31mno such file\n\n")
    '\\x1b[31mno such file'
    """
    lines = [line for line in text.split("\n") if line.strip()]
    line = lines[-1].strip() if lines else ""
    visible = "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in line
    )
    return visible if len(visible) <= LINE_LENGTH_MAX else visible[: LINE_LENGTH_MAX - 3] + "..."


def _folder_name(job_id: str) -> str:
    if _SAFE_NAME.fullmatch(job_id):
        return job_id
    # The id is untrusted: it must not lead out of the folder, or into another job's.
    readable = re.sub(r"[^a-z0-9_-]+", "-", job_id.lower())[:40]
    digest = hashlib.sha256(job_id.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return f"{readable}.{digest}"
