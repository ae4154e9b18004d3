"""Public methods as their source defines them: headers, overloads and docstrings."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
SOURCE: Final = ROOT / "src"
CHECKS: Final = {
    "str": "text",
    "str | None": "text_or_none",
    "int": "whole",
    "int | None": "whole_or_none",
    "bool": "flag",
    "bool | None": "flag_or_none",
    "datetime | None": "moment_or_none",
    "str | os.PathLike[str]": "path",
    "str | Sequence[str]": "texts",
    "str | Iterable[str]": "texts",
    "str | Sequence[str] | None": "texts_or_none",
    "Sequence[Any]": "several",
    "Sequence[TaskLike] | None": "several_or_none",
    "Iterable[JobRef]": "several",
    "Iterable[NewJob]": "several",
    "Collection[HeavyField]": "several",
    "Mapping[str, Any] | None": "mapping_or_none",
    "Mapping[str, str] | None": "mapping_or_none",
    "OnLost | None": "function_or_none",
    "Callable[[CleanUp], None] | None": "function_or_none",
}
"""By the annotation of a parameter: the check in `leasehold.core.model.checked` that it gets."""
CLASSES: Final = frozenset({"Job", "Workflow", "JobFilter", "Breaker"})
"""Parameters that are objects of these classes are checked to be some."""
_LISTED: Final = re.compile(r"Iterable\[(Lease)\]")


@dataclass(frozen=True)
class Definition:
    """One public name of a class."""

    name: str
    header: str
    """From `def` up to what it answers: `def cancel(self, job: JobRef, reason: str = "")`."""
    returns: str
    call: str
    """What hands its parameters on: `job, reason`."""
    checked_call: str
    """The same, each checked by its annotation: `job, checked.text("reason", reason)`."""
    doc: str | None
    is_async: bool = False
    is_property: bool = False
    has_connection: bool = False
    overloads: tuple[tuple[str, str], ...] = ()
    """Headers and what they answer."""
    alias_of: str | None = None


@dataclass
class Module:
    """A file of ours: what it defines and what it imports."""

    dotted: str
    source: str
    tree: ast.Module
    imports: dict[str, tuple[str, bool]] = field(default_factory=dict)
    """By name: the statement that imports it, and whether only type checkers need it."""


def module(path: str) -> Module:
    """A module by its path below `src`."""
    source = (SOURCE / path).read_text()
    dotted = path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
    found = Module(dotted, source, ast.parse(source))
    _read_imports(found, found.tree.body, typing_only=False)
    return found


def definitions(
    owner: Module, class_name: str, *, names: Collection[str] | None = None
) -> list[Definition]:
    """The public methods and properties of a class, or those named, in their order."""
    [cls] = [
        node
        for node in owner.tree.body
        if isinstance(node, ast.ClassDef) and node.name == class_name
    ]
    found: list[Definition] = []
    overloads: list[tuple[str, str]] = []
    for node in cls.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name):
            found.append(_alias(node, found))
            continue
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if node.name not in names if names is not None else node.name.startswith("_"):
            continue
        header, returns = _header(owner.source, node)
        marks = {ast.unparse(mark) for mark in node.decorator_list}
        if "overload" in marks:
            overloads.append((header, returns))
            continue
        parameters = [arg.arg for arg in (*node.args.args, *node.args.kwonlyargs)]
        found.append(
            Definition(
                name=node.name,
                header=header,
                returns=returns,
                call=_call(node.args, check=False),
                checked_call=_call(node.args, check=True),
                doc=ast.get_docstring(node, clean=False),
                is_async=isinstance(node, ast.AsyncFunctionDef),
                is_property=bool(marks & {"property", "cached_property"}),
                has_connection="connection" in parameters,
                overloads=tuple(overloads),
            )
        )
        overloads = []
    return found


def _alias(node: ast.Assign, found: list[Definition]) -> Definition:
    """Another word for a method: `retry = replay`."""
    assert isinstance(node.value, ast.Name)
    meant = node.value.id
    [original] = [each for each in found if each.name == meant]
    return replace(original, name=ast.unparse(node.targets[0]), alias_of=meant)


def _header(source: str, node: ast.FunctionDef | ast.AsyncFunctionDef) -> tuple[str, str]:
    """The text itself and not the tree's, so that comments for type checkers stay in it."""
    lines = source.splitlines(keepends=True)
    first = node.body[0]
    text = "".join(lines[node.lineno - 1 : first.lineno - 1])
    text += lines[first.lineno - 1][: first.col_offset]
    assert node.returns is not None, f"{node.name} does not say what it answers"
    before, arrow, after = text.rpartition(" -> ")
    assert arrow, f"{node.name}: no arrow in {text!r}"
    returns = after.partition(":\n")[0].rstrip().removesuffix(":")
    return before.strip().removeprefix("async "), returns.strip()


def _call(args: ast.arguments, *, check: bool) -> str:
    value = _checked if check else _as_given
    parts = [value(arg) for arg in (*args.posonlyargs, *args.args)[1:]]
    parts += [f"*{args.vararg.arg}"] if args.vararg else []
    parts += [f"{arg.arg}={value(arg)}" for arg in args.kwonlyargs]
    parts += [f"**{args.kwarg.arg}"] if args.kwarg else []
    return ", ".join(parts)


def _as_given(arg: ast.arg) -> str:
    return arg.arg


def _checked(arg: ast.arg) -> str:
    name = arg.arg
    annotation = "" if arg.annotation is None else ast.unparse(arg.annotation)
    if annotation in CHECKS:
        return f'checked.{CHECKS[annotation]}("{name}", {name})'
    kind = annotation.removesuffix(" | None")
    if kind in CLASSES:
        check = "instance" if kind == annotation else "instance_or_none"
        return f'checked.{check}("{name}", {name}, {kind})'
    listed = _LISTED.fullmatch(annotation)
    return f'checked.each("{name}", {name}, {listed[1]})' if listed else name


def _read_imports(owner: Module, body: list[ast.stmt], *, typing_only: bool) -> None:
    for node in body:
        if isinstance(node, ast.ImportFrom) and node.module != "__future__":
            for alias in node.names:
                statement = f"from {node.module} import {alias.name}"
                owner.imports[alias.name] = (statement, typing_only)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                owner.imports[alias.name] = (f"import {alias.name}", typing_only)
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            _read_imports(owner, node.body, typing_only=True)
        elif isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            owner.imports[node.name] = (f"from {owner.dotted} import {node.name}", False)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                if isinstance(target, ast.Name):
                    statement = f"from {owner.dotted} import {target.id}"
                    owner.imports[target.id] = (statement, False)
