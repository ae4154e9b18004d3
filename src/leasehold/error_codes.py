"""Codes of errors, with which errors cross a network and come back as the same classes."""

from __future__ import annotations

from typing import ClassVar


class CodedError(Exception):
    """The base of errors with a code: a short, stable word for programs, logs and other languages.

    A class defined elsewhere without a code of its own has the code of its base class, and comes
    back from another machine as that class (`leasehold.core.model.error_documents`).
    """

    code: str = ""
    """The code of the class; an error that arrived with an unknown code keeps that."""
    fields: ClassVar[tuple[str, ...]] = ()
    """The data it carries beside its message, as attributes and keywords of the same names; those
    that end in `_at` are times.
    """

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
