"""Write the faces, or with `--check` only say whether they are what would be written."""

from __future__ import annotations

import sys

from tools.faces import awaitable, blocking
from tools.faces.definitions import ROOT

FACES = {blocking.PATH: blocking.text, awaitable.PATH: awaitable.text}


def main(*, only_check: bool) -> int:
    """0 if all is, or was made, up to date."""
    status = 0
    for path, text in FACES.items():
        made = text()
        if (ROOT / path).read_text() == made:
            continue
        if only_check:
            sys.stderr.write(f"{path} is not what its definitions make: run `make faces`\n")
            status = 1
        else:
            (ROOT / path).write_text(made)
            sys.stdout.write(f"wrote {path}\n")
    return status


if __name__ == "__main__":
    sys.exit(main(only_check="--check" in sys.argv))
