"""The names that a module's source defines, found without importing it.

An import would run the application's code in a process that only wanted to submit a job.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.machinery import PathFinder, SourceFileLoader
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import ast

SOURCE_BYTES_MAX: Final = 2_000_000
"""A larger file was not written by hand, and takes long to parse."""
HIDES_NAMES: Final = frozenset({"globals", "locals", "vars", "exec"})
"""Functions by which a module may define names that its source does not show."""


class SourceNames:
    """The names in the source of one module."""

    def __init__(self, defined: frozenset[str], texts: frozenset[str]) -> None:
        self.defined = defined
        """Functions, classes, variables and imports at the top level of the module."""
        self._texts = texts
        """Its string literals: a task may have any name that `@queue.task` gives it."""

    def may_have(self, name: str, path: str) -> bool:
        """Whether the module may have a task with this name; `path` is the part after the colon."""
        return path.partition(".")[0] in self.defined or name in self._texts


def source_names(module: str, folders: Sequence[str]) -> SourceNames | None:
    """The names in the module that would be found in these folders.

    None if there is no such module, or its source does not show all of its names.

    >>> import sys
    >>> names = source_names("json.decoder", sys.path)
    >>> "JSONDecoder" in names.defined, "JSONEncoder" in names.defined
    (True, False)
    """
    found = _found(module, folders)
    if found is None:
        return None
    import ast

    file, submodules = found

    try:
        if file.stat().st_size > SOURCE_BYTES_MAX:
            return None
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return None
    if any(_hides_names(node) for node in ast.walk(tree)):
        return None
    defined = frozenset(_defined(tree)) | submodules
    if "__getattr__" in defined:
        return None
    texts = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant))
    return SourceNames(defined, frozenset(text for text in texts if isinstance(text, str)))


def _found(module: str, folders: Sequence[str]) -> tuple[Path, frozenset[str]] | None:
    """The source file of a module, and the modules in it if it is a package.

    Its parent packages are located, not imported.
    """
    path: Sequence[str] = folders
    origin = None
    parts = module.split(".")
    for depth, part in enumerate(parts, 1):
        try:
            spec = PathFinder.find_spec(".".join(parts[:depth]), list(path)) if part else None
        except (ImportError, ValueError):
            return None
        if spec is None:
            return None
        origin = spec.origin if isinstance(spec.loader, SourceFileLoader) else None
        path = spec.submodule_search_locations or ()
    if origin is None:
        return None
    return Path(origin), frozenset(each.name for each in iter_modules(path))


def _hides_names(node: ast.AST) -> bool:
    import ast

    match node:
        case ast.ImportFrom(names=[ast.alias(name="*"), *_]):
            return True
        case ast.Call(func=ast.Name(id=name)):
            return name in HIDES_NAMES
        case ast.Attribute(attr="modules" | "__dict__") | ast.Global():
            return True
    return False


def _defined(tree: ast.Module) -> Iterator[str]:
    """Names that statements at the top level bind, in branches and loops as well."""
    import ast

    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        node = waiting.pop()
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name
                continue  # Names inside do not belong to the module.
            case ast.Lambda():
                continue
            case ast.Name(ctx=ast.Store(), id=name):
                yield name
            case ast.alias(name=name, asname=alias):
                yield alias or name.partition(".")[0]
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
                yield name
            case ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
                yield name
        waiting.extend(ast.iter_child_nodes(node))
