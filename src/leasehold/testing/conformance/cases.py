"""Many cases on one store: to make a store takes longer than to ask it something."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any


def on_one_store(
    names: str, cases: Iterable[Any]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Try a test with each case in turn, on the same store; a failure names its case.

    It is given as to `pytest.mark.parametrize`, for tests that leave the store as they found it.
    """
    parameters = names.split(", ")
    given = [
        dict(zip(parameters, case if len(parameters) > 1 else (case,), strict=True))
        for case in cases
    ]

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        def try_each(*args: Any, **fixtures: Any) -> None:
            for case in given:
                try:
                    test(*args, **fixtures, **case)
                except BaseException as error:
                    error.add_note(f"with {case}")
                    raise

        asked = inspect.signature(test)
        fixtures = [each for each in asked.parameters.values() if each.name not in parameters]
        vars(try_each)["__signature__"] = asked.replace(parameters=fixtures)
        try_each.__name__ = test.__name__
        try_each.__doc__ = test.__doc__
        return try_each

    return decorate
