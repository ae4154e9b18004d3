"""Public methods as their source defines them: headers, overloads and docstrings."""

from __future__ import annotations

import ast
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
SOURCE: Final = ROOT / "src"
TEXTS: Final = frozenset({"str", "str | None"})
"""The annotations of parameters that are texts, which callers may give as a subclass of str."""


@dataclass(frozen=True)
class Definition:
    """One public name of a class."""

    name: str
    header: str
    """From `def` up to what it answers: `def cancel(self, job: JobRef, reason: str = "")`."""
    returns: str
    call: str
    """What hands its parameters on: `job, reason`."""
    plain_call: str
    """The same, with texts of the built-in type: `job, plain_text(reason)`."""
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
                call=_call(node.args, plain=False),
                plain_call=_call(node.args, plain=True),
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


def _call(args: ast.arguments, *, plain: bool) -> str:
    value = _plain if plain else _as_given
    parts = [value(arg) for arg in (*args.posonlyargs, *args.args)[1:]]
    parts += [f"*{args.vararg.arg}"] if args.vararg else []
    parts += [f"{arg.arg}={value(arg)}" for arg in args.kwonlyargs]
    parts += [f"**{args.kwarg.arg}"] if args.kwarg else []
    return ", ".join(parts)


def _as_given(arg: ast.arg) -> str:
    return arg.arg


def _plain(arg: ast.arg) -> str:
    is_text = arg.annotation is not None and ast.unparse(arg.annotation) in TEXTS
    return f"plain_text({arg.arg})" if is_text else arg.arg


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
