"""What static checks of imports do not see: modules that are imported by name, each with its
reason, and circles.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.source import FILES, SOURCE, place, tree

BY_NAME = {
    "__init__.py": "the public names load when they are used: importing outpace must cost next to nothing",
    "_lazy.py": "the same for the names of packages",
    "api.py": "the renderer that a report will need, while another core decodes",
    "capture/remote/grpc_.py": "an optional dependency",
    "capture/remote/ray_.py": "an optional dependency",
    "cli/__init__.py": "commands load when they are called",
    "notebook/magics.py": "what a cell imports, before it is captured",
    "tools/__init__.py": "tools are discovered",
    "tools/tool.py": "a tool's work loads when its page is asked for",
    "trace/formats/__init__.py": "formats are discovered",
    "trace/formats/format.py": "a format's reader loads when a file of it is opened",
    "tune/optimisations/__init__.py": "optimisations are discovered",
    "tune/starts/server.py": "what a script was seen to import",
}
FOR_TYPES_ALONE = {
    ("outpace.model.arrow", "outpace.model.table"): "a table gives itself to Arrow, which reads a table",
    (
        "outpace.timeline.command_buffers",
        "outpace.timeline.hlo.modules",
        "outpace.timeline.timeline",
    ): "a timeline offers its programs, which are read from it, and which tell what its kernels ran",
    ("outpace.trace.source", "outpace.trace.trace"): "a trace has a source, which writes lines of a trace",
    (
        "outpace.tune.loop.loop",
        "outpace.tune.program.program",
    ): "a program may be a loop, which asks how its models were compiled",
}


def name(path: Path) -> str:
    parts = ("outpace", *path.relative_to(SOURCE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name(path): path for path in FILES}


def imports(path: Path, *, types: bool) -> Iterator[str]:
    """Modules of the package that a file imports, wherever in it; with what only type checkers see,
    or without.
    """
    unseen: set[int] = set()
    for node in ast.walk(tree(path)):
        if not types and isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            unseen |= {id(inner) for statement in node.body for inner in ast.walk(statement)}
    for node in ast.walk(tree(path)):
        if id(node) in unseen:
            continue
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                yield next((m for m in (f"{node.module}.{alias.name}", node.module) if m in MODULES), "")
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in MODULES)


def circles(*, types: bool) -> set[tuple[str, ...]]:
    """Groups of modules that reach each other."""
    graph = {module: set(imports(path, types=types)) - {"", module} for module, path in MODULES.items()}
    reached: dict[str, set[str]] = {}
    for start in graph:
        seen, todo = set(), list(graph[start])
        while todo:
            top = todo.pop()
            if top not in seen:
                seen.add(top)
                todo += graph[top]
        reached[start] = seen
    return {
        tuple(sorted(other for other in reached[module] if module in reached[other]))
        for module in graph
        if module in reached[module]
    }


def test_every_import_by_name_has_a_reason() -> None:
    users = {
        place(path)
        for path in FILES
        for node in ast.walk(tree(path))
        if (isinstance(node, ast.Attribute) and node.attr == "import_module")
        or (isinstance(node, ast.Name) and node.id == "__import__")
    }
    assert users == set(BY_NAME)


def test_no_module_imports_itself_in_a_circle() -> None:
    assert circles(types=False) == set()


def test_circles_of_types_have_a_reason() -> None:
    assert circles(types=True) == set(FOR_TYPES_ALONE)
