# SPDX-License-Identifier: Apache-2.0
"""Parsed source file: its tree with parents, the lines, the comments that switch rules off, and the
meanings of its names.

Nothing of the file is imported or executed.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import decode_source

from outpace.model.errors import NotFoundError, UsageError
from outpace.model.input_files import SCRIPT, read_file
from outpace.pyscope.names import imported_names, stored_names
from outpace.pyscope.nodes import FUNCTIONS, Function, iter_scope, parameter_names

_IGNORE = re.compile(r"#\s*outpace:\s*ignore(?:\[([A-Za-z0-9_,\s]*)\])?")
_CANONICAL = (
    (re.compile(r"^tensorflow\.compat\.v2\."), "tensorflow."),
    (re.compile(r"^tensorflow\.compat\.v1\.(?=data\.|keras\.|train\.|python_io\.)"), "tensorflow."),
    (re.compile(r"^(?:tensorflow\.python|tensorflow|tf_keras\.src|tf_keras)\.keras\."), "keras."),
    (re.compile(r"^(?:tf_keras|keras_core)\."), "keras."),
    (re.compile(r"^keras\.layers\.experimental\.preprocessing\."), "keras.layers."),
)


@dataclass(frozen=True)
class IgnoreComment:
    """A comment `# outpace: ignore[...]` with the rules that it names; None for all rules."""

    rules: frozenset[str] | None

    def covers(self, rule: str) -> bool:
        """Whether the comment switches this rule off."""
        return self.rules is None or rule in self.rules


class SourceFile:
    """One parsed file. Raises UsageError where this interpreter cannot parse it."""

    def __init__(self, text: str, path: str = "<text>") -> None:
        self.path = path
        self.text = text
        self.lines = text.splitlines()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # invalid escapes in the user's strings are not ours to report
                self.tree = ast.parse(text)
        except SyntaxError as error:
            place = f"{path}:{error.lineno or 1}:{error.offset or 1}"
            raise UsageError(f"{place} cannot be parsed: {error.msg}. Make `python {path}` accept it first.") from None
        except ValueError as error:
            raise UsageError(f"{path} cannot be parsed: {error}.") from None
        self.parents: dict[ast.AST, ast.AST] = {}
        self.nodes: list[ast.AST] = []
        for node in ast.walk(self.tree):
            self.nodes.append(node)
            for child in ast.iter_child_nodes(node):
                self.parents[child] = node
        self.ignore_comments = dict(_find_ignore_comments(text))
        self._names = imported_names(self.nodes)
        self._bound: dict[ast.AST, frozenset[str]] = {}
        self._add_aliases()

    @classmethod
    def read(cls, path: str) -> SourceFile:
        """Read and parse a file in the encoding that it declares. Raises NotFoundError or
        UsageError.
        """
        try:
            return cls(decode_source(read_file(path, SCRIPT)), path)
        except FileNotFoundError:
            raise NotFoundError(f"There is no file {path}.") from None
        except (SyntaxError, UnicodeError, LookupError) as error:  # LookupError: the declared encoding does not exist
            raise UsageError(f"{path} is no readable Python text: {error}.") from None
        except OSError as error:
            raise UsageError(f"{path} cannot be read: {error.strerror}.") from None

    def iter_ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield the nodes around this one, the nearest first."""
        parent = self.parents.get(node)
        while parent is not None:
            yield parent
            parent = self.parents.get(parent)

    def enclosing_function(self, node: ast.AST) -> Function | None:
        """Return the innermost function or lambda around a node."""
        return next((above for above in self.iter_ancestors(node) if isinstance(above, FUNCTIONS)), None)

    def enclosing_class(self, node: ast.AST) -> ast.ClassDef | None:
        """Return the innermost class around a node."""
        return next((above for above in self.iter_ancestors(node) if isinstance(above, ast.ClassDef)), None)

    def qualified_name(self, node: ast.AST | None) -> str:
        """Return the full name of an expression `a.b.c` (`tensorflow.data.Dataset`, `keras.Model`);
        empty where it has none.

        TensorFlow's keras counts as `keras`, its v2 name space as `tensorflow`.
        """
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id not in self._names or self._is_bound_locally(node):
            return ""
        return canonical_name(".".join([self._names[node.id], *reversed(parts)]))

    def called_name(self, node: ast.AST | None) -> str:
        """Return the full name of a call's callee; empty for other nodes."""
        return self.qualified_name(node.func) if isinstance(node, ast.Call) else ""

    def imports(self, *packages: str) -> bool:
        """Whether the file imports one of these packages."""
        return any(name.partition(".")[0] in packages for name in self._names.values())

    def bound_names(self, scope: ast.AST) -> frozenset[str]:
        """Return the names that a function binds itself: parameters, assignments,
        loop variables.
        """
        if scope not in self._bound:
            self._bound[scope] = frozenset((*parameter_names(scope), *stored_names(iter_scope(scope))))
        return self._bound[scope]

    def _is_bound_locally(self, name: ast.Name) -> bool:
        """Whether a function around the name binds it locally."""
        return any(name.id in self.bound_names(scope) for scope in self.iter_ancestors(name) if isinstance(scope, FUNCTIONS))

    def _add_aliases(self) -> None:
        """Add names of the module that are aliases of a dotted name: `AUTOTUNE = tf.data.AUTOTUNE`,
        `layers = keras.layers`.
        """
        stored = Counter(stored_names(iter_scope(self.tree)))
        for statement in self.tree.body:
            if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
                target, name = statement.targets[0], self.qualified_name(statement.value)
                if isinstance(target, ast.Name) and name and stored[target.id] == 1:
                    self._names[target.id] = name


def canonical_name(name: str) -> str:
    """Return a full name in the canonical spelling that the rules use."""
    for pattern, replacement in _CANONICAL:
        name = pattern.sub(replacement, name)
    return name


def _find_ignore_comments(text: str) -> Iterator[tuple[int, IgnoreComment]]:
    """Yield (line number, comment) of the comments that switch rules off; a comment on a line of
    its own applies to the next line.
    """
    if "outpace:" not in text:
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        match = _IGNORE.search(token.string) if token.type == tokenize.COMMENT else None
        if match:
            rules = None if match[1] is None else frozenset(rule.strip().upper() for rule in match[1].split(","))
            alone = not token.line[: token.start[1]].strip()
            yield token.start[0] + alone, IgnoreComment(rules)
