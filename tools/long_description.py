"""What a package index shows of the README.

A link to a file of the repository leads nowhere on an index, and neither does a picture. Once
`[project.urls]` has a `Source`, links lead there; until then they are plain words.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from hatchling.metadata.plugin.interface import MetadataHookInterface

_PICTURE: Final = re.compile(r"^!\[[^\]]*\]\((?!https?:)[^)]*\)\n\n?", re.MULTILINE)
_LINK: Final = re.compile(r"\[([^\]]+)\]\((?!https?:|#)([^)]+)\)")


class LongDescription(MetadataHookInterface):
    """Sets the `readme` of the project."""

    def update(self, metadata: dict[str, Any]) -> None:
        source = metadata.get("urls", {}).get("Source")
        readme = (Path(self.root) / "README.md").read_text()
        text = long_description(readme, source)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


def long_description(readme: str, source: str | None) -> str:
    """The README for a reader who does not have the repository.

    >>> long_description("see [tasks](docs/tasks.md)", None)
    'see tasks'
    >>> long_description("see [tasks](docs/tasks.md)", "https://example.com/leasehold")
    'see [tasks](https://example.com/leasehold/blob/main/docs/tasks.md)'
    """
    without_pictures = _PICTURE.sub("", readme)
    if source is None:
        return _LINK.sub(r"\1", without_pictures)
    return _LINK.sub(rf"[\1]({source.rstrip('/')}/blob/main/\2)", without_pictures)
