"""Codes of errors: under them errors cross a network, and come back as the same classes."""

from __future__ import annotations

from typing import ClassVar


class CodedError(Exception):
    """What has a code: a short word that stays the same, for programs, logs and other languages.

    A class that is defined elsewhere without a code of its own has that of the class it extends,
    and comes back from another machine as that class (`leasehold.core.model.error_documents`).
    """

    code: str = ""
    """Of the class; an error that came under a code which is not known here keeps that."""
    fields: ClassVar[tuple[str, ...]] = ()
    """What it carries beside its message, as attributes and keywords of the same names; those that
    end in `_at` are moments."""

    def __init_subclass__(
        cls, *, code: str | None = None, fields: tuple[str, ...] | None = None
    ) -> None:
        super().__init_subclass__()
        if code is not None:
            assert code not in CLASSES, f"{code} is the code of {CLASSES[code].__name__} already"
            cls.code = code
            CLASSES[code] = cls
        if fields is not None:
            cls.fields = fields


CLASSES: dict[str, type[CodedError]] = {}
"""Each code and its class."""
