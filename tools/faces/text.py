"""From definitions to the text of a module: methods, imports, and the project's own format."""

from __future__ import annotations

import ast
import builtins
import inspect
import subprocess
import sys
import textwrap
from collections.abc import Sequence

from tools.faces.definitions import ROOT, Definition, Module


def method(definition: Definition, body: str, *, doc: str | None, returns: str) -> str:
    """One method of a face."""
    if definition.alias_of is not None:
        return f"{definition.name} = {definition.alias_of}\n"
    word = "async def" if definition.is_async else "def"
    header = definition.header.replace("def", word, 1)
    text = f"{header} -> {returns}:\n"
    if doc is not None:
        ending = "\n" if "\n" in inspect.cleandoc(doc) else ""
        text += textwrap.indent(f'"""{inspect.cleandoc(doc)}{ending}"""', "    ") + "\n"
    return text + textwrap.indent(body, "    ") + "\n"


def overload(header: str, returns: str, *, is_async: bool) -> str:
    """One overload of a face's method."""
    word = "async def" if is_async else "def"
    return f"@overload\n{header.replace('def', word, 1)} -> {returns}: ...\n"


def module_text(opening: str, classes: str, path: str, sources: Sequence[Module]) -> str:
    """A whole module: `opening`, the imports that its classes need, and the classes."""
    own = ast.parse(classes)
    defined = {node.name for node in own.body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    for node in own.body:
        if isinstance(node, ast.Assign):
            defined |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    used = {node.id for node in ast.walk(own) if isinstance(node, ast.Name)}
    at_run_time: list[str] = []
    for_types: list[str] = []
    for name in sorted(used - defined - set(dir(builtins)) - _local_names(own)):
        statement, typing_only = _import_of(name, sources)
        (for_types if typing_only else at_run_time).append(statement)
    lines = ["from __future__ import annotations", "", *at_run_time]
    if for_types:
        lines += ["from typing import TYPE_CHECKING", "if TYPE_CHECKING:"]
        lines += [f"    {statement}" for statement in for_types]
    return _formatted("\n".join([opening, "", *lines, "", classes]), path)


def _local_names(tree: ast.Module) -> set[str]:
    """Methods, parameters, and names that are assigned inside methods."""
    names = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    # An alias names a method; no class imports what it defines.
    names |= {
        node.value.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name)
    }
    return names | {
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }


def _import_of(name: str, sources: Sequence[Module]) -> tuple[str, bool]:
    found = [source.imports[name] for source in sources if name in source.imports]
    if not found:
        raise LookupError(f"no source of the faces imports or defines {name!r}")
    # Whoever needs it at run time decides.
    return min(found, key=lambda each: each[1])


def _formatted(text: str, path: str) -> str:
    for command in (["check", "--quiet", "--select", "I", "--fix"], ["format", "--quiet"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--stdin-filename", path, "-"],
            input=text,
            capture_output=True,
            text=True,
            cwd=ROOT,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"ruff cannot read the face it was given:\n{done.stderr}\n{text}")
        text = done.stdout
    return text
