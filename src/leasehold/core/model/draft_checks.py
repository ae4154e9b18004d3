"""The valid values of a draft's fields; each check raises InvalidJobError and names the field."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from leasehold.core.model.limits import (
    LEASE_SECONDS_MIN,
    METADATA_LENGTH_MAX,
    NAME_LENGTH_MAX,
    SECONDS_MAX,
)
from leasehold.core.model.text import is_text, shown
from leasehold.errors import InvalidJobError

_FIRST_MOMENT: Final = datetime(1970, 1, 1, tzinfo=UTC)
_METADATA_TYPES: Final = frozenset({str, int, float, bool, type(None)})
_LAST_MOMENT: Final = datetime(9999, 12, 31, tzinfo=UTC)


def check_name(what: str, value: str) -> None:
    """Names are printable text of bounded length."""
    # Most values pass this quick test; the others are examined more closely.
    if type(value) is str and 0 < len(value) <= NAME_LENGTH_MAX and value.isprintable():
        return
    if not isinstance(value, str) or not value:
        raise InvalidJobError(f"{what} must be a non-empty string, not {value!r}")
    if len(value) > NAME_LENGTH_MAX:
        raise InvalidJobError(
            f"{what} is {len(value)} characters long; at most {NAME_LENGTH_MAX} are allowed"
        )
    if not value.isprintable():
        raise InvalidJobError(f"{what} must not contain control characters: {value!r}")


def check_moment(what: str, value: datetime) -> None:
    """Times have a time zone, and every calendar can represent them."""
    if value.utcoffset() is None:
        raise InvalidJobError(
            f"{what} needs a time zone, such as datetime.now(UTC); {value} has none"
        )
    if not _FIRST_MOMENT <= value <= _LAST_MOMENT:
        raise InvalidJobError(f"{what} must be from 1970 to 9999 (UTC): {value}")


def check_seconds(what: str, value: float) -> None:
    """Durations are positive and finite."""
    zero = what == "delay"
    # The comparison also refuses NaN, which is neither above nor below anything.
    if not ((value >= 0 if zero else value > 0) and value <= SECONDS_MAX):
        span = "from 0 to ten years" if zero else "above 0 and at most ten years"
        raise InvalidJobError(f"{what} must be {span}, not {value!r} s")


def check_lease_seconds(value: float) -> None:
    """A lease is long enough to be renewed in time."""
    if not LEASE_SECONDS_MIN <= value <= SECONDS_MAX:
        raise InvalidJobError(
            f"lease_seconds must be from {LEASE_SECONDS_MIN:g} second to ten years: a shorter "
            f"lease would end before it is renewed; not {value!r}"
        )


def check_reason(reason: str) -> None:
    """Refuse a reason that no history could store."""
    if not isinstance(reason, str):
        raise InvalidJobError(f"the reason must be text, not {reason!r}")


def check_metadata(metadata: Mapping[str, object]) -> None:
    """Metadata is small, flat, and the same in every encoding."""
    if not isinstance(metadata, dict):
        raise InvalidJobError(f"metadata maps names to values, it is not {shown(metadata)}")
    length = 0
    for key, value in metadata.items():
        # Exact types only: encoders refuse a subclass, in the middle of a write.
        if type(key) is not str or type(value) not in _METADATA_TYPES:
            raise InvalidJobError(
                f"metadata maps names to text, numbers, booleans or None, not "
                f"{shown(key)} to {shown(value)}"
            )
        if isinstance(value, float) and not math.isfinite(value):
            raise InvalidJobError(f"metadata {key!r} must be a finite number, not {value!r}")
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise InvalidJobError(
                f"metadata {key!r} must be a number of at most 64 bits: give a larger one as text"
            )
        if not is_text(key) or (isinstance(value, str) and not is_text(value)):
            raise InvalidJobError(f"metadata must be UTF-8 text, not {key!r}: {value!r}")
        length += len(key) + (len(value) if isinstance(value, str) else 0)
    if length > METADATA_LENGTH_MAX:
        raise InvalidJobError(
            f"metadata has {length:,} characters; at most {METADATA_LENGTH_MAX:,} are kept, as it "
            "comes with every list of jobs: put large data into the payload"
        )
