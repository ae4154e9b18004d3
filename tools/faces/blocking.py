"""The blocking face: which parts a TaskQueue is made of, and its calls to them."""

from __future__ import annotations

import textwrap
from typing import Final

from tools.faces.definitions import Definition, definitions, module
from tools.faces.text import method, module_text, overload

PATH: Final = "src/leasehold/queue/calls.py"

PARTS: Final = (
    ("tasks.py", "Tasks"),
    ("submitting.py", "Submitting"),
    ("scheduling.py", "Scheduling"),
    ("workflows.py", "Workflows"),
    ("results.py", "Results"),
    ("joining.py", "Joining"),
    ("looking.py", "Looking"),
    ("orders.py", "Orders"),
    ("consumer.py", "Consuming"),
    ("queues.py", "Queues"),
    ("metrics.py", "Metrics"),
    ("retention.py", "Retention"),
    ("upkeep.py", "Upkeep"),
    ("codecs.py", "Codecs"),
)
"""Files below `src/leasehold/queue` and the classes in them."""

BETWEEN_PARTS: Final = frozenset(
    {
        "task_of",
        "draft_of",
        "submit_drafts",
        "asubmit_drafts",
        "wait_for",
        "await_for",
        "work_with",
        "mark_orphans",
        "close",
        "begin_anew_in_fork",
    }
)
"""What parts ask of each other: on no face."""

UNCHECKED: Final = frozenset({"submit_call", "asubmit_call", "result_of", "aresult_of"})
"""Only our own code calls these."""

UNMATCHED: Final = frozenset({"task", "submit_many"})
"""Type checkers match the overloads of these with no call that gives all their parameters."""


def text() -> str:
    """The module with `QueueCalls`."""
    sources = [module(f"leasehold/queue/{file}") for file, _ in PARTS]
    attributes = [f"_{name.lower()}: {name}" for _, name in PARTS]
    methods = [
        _method(f"_{name.lower()}", definition)
        for source, (_, name) in zip(sources, PARTS, strict=True)
        for definition in definitions(source, name)
        if definition.name not in BETWEEN_PARTS
    ]
    classes = (
        'R = TypeVar("R")\n'
        'P = ParamSpec("P")\n\n'
        "class QueueCalls:\n"
        '    """Every call goes to the part of the queue that it belongs to."""\n\n'
        + textwrap.indent("\n".join([*attributes, "", *methods]), "    ")
    )
    opening = (
        "# ruff: noqa: ASYNC109 - a timeout means the same here as in the calls that block.\n"
        '"""The calls of a TaskQueue, made by `make faces` from its parts: do not edit."""'
    )
    return module_text(opening, classes, PATH, sources)


def _method(part: str, definition: Definition) -> str:
    overloads = [
        overload(header, returns, is_async=definition.is_async)
        for header, returns in definition.overloads
    ]
    # The parts behind trust each other; what comes from outside is checked here, once.
    values = definition.call if definition.name in UNCHECKED else definition.checked_call
    call = f"self.{part}.{definition.name}({values})"
    call = f"await {call}" if definition.is_async else call
    body = call if definition.returns == "None" else f"return {call}"
    if definition.name in UNMATCHED:
        body = (
            f"call: Any = self.{part}.{definition.name}\n"
            f"answer: {definition.returns} = call({values})\n"
            "return answer"
        )
    made = method(
        definition,
        body,
        doc=definition.doc,
        returns=definition.returns,
    )
    return "".join((*overloads, made))
