# SPDX-License-Identifier: Apache-2.0
"""What a pipeline's traced function does: its stateful operations, what it captured, the Python
functions and tables that it reads.

A function is a `StructuredFunctionWrapper` that TensorFlow traced: `function.graph` holds its
operations, `function.captured_inputs` what it took from outside. A graph knows a Python function
(py_function, numpy_function) by a token, and TensorFlow's registry the function by its token, for
as long as the function lives. The registry is private: where it does not answer, the function has
no name.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from outpace.capture import stateful
from outpace.frameworks import tensorflow

# Declared stateful, yet the same answer for the same argument: files are taken not to change while
# a training runs, a failed assertion fails wherever it stands, and a table's state is named where
# the table comes from (captured, or made inside).
REPEATABLE = frozenset({
    "ReadFile", "Assert", "CheckNumerics", "CheckNumericsV2", "Placeholder", "Arg", "_Arg", "_Retval", "LookupTableFindV2", "LookupTableSizeV2",
})  # fmt: skip
_CALLS = re.compile(r"^(Stateless|Stateful)?(If|While|Case|PartitionedCall|Map)$")
RANDOM = re.compile(
    r"Random|Multinomial|Rng|StatefulUniform|StatefulStandardNormal|StatefulTruncatedNormal|Gamma$|SampleDistorted"
)
_WRITES = re.compile(r"^(Assign|Resource(Scatter|Sparse|Apply|Count)|LookupTable(Insert|Import|Remove)|.*Enqueue)")


@dataclass(frozen=True)
class FunctionFacts:
    """Of one traced function: where it stands (`file`, `line`; None when there is no source), its
    stateful operations as `capture/stateful.py` names them, whether it draws random numbers, runs
    Python, writes to variables or tables, and reads captured ones that may change (a table that is
    filled once does not). `calls`: the Python functions that it runs.
    """

    name: str
    file: str | None
    line: int | None
    operations: int
    stateful: tuple[str, ...]
    random: bool
    python: bool
    writes: tuple[str, ...]
    captures_resources: bool
    calls: tuple[PythonCall, ...] = field(default=(), compare=False)

    @property
    def repeatable(self) -> bool:
        """The same argument gives the same result, in every epoch and in any order of calls; but
        for Python functions, of which nothing is known before they have run (see evidence.py).
        """
        return not self.changing

    @property
    def stateful_causes(self) -> tuple[str, ...]:
        """What TensorFlow takes for state; reading files is not named (they are taken not to
        change).
        """
        return tuple(kind for kind in self.stateful if kind not in REPEATABLE)

    @property
    def changing(self) -> tuple[str, ...]:
        """Those of the stateful causes that make it more than a function of its argument."""
        harmless = set(PYTHON_OPS)
        if not self.captures_resources:
            harmless.add(stateful.CAPTURED_VARIABLE)
        return tuple(kind for kind in self.stateful_causes if kind not in harmless)

    @property
    def place(self) -> str:
        """`file:line`, or the name alone."""
        return f"{self.file}:{self.line}" if self.file else self.name


def facts(wrapper: Any) -> FunctionFacts:
    """Facts of a traced function; what private API does not answer is taken for stateful."""
    nodes = [node.op for node in nodes_of(wrapper)]
    kinds = set(nodes)
    outside = [t for t in wrapper.function.captured_inputs if getattr(t.dtype, "name", "") in ("resource", "variant")]
    python_function = user_function(wrapper)
    file, line = _source(python_function)
    causes = set(stateful.stateful_ops(wrapper))
    if kinds & PYTHON_OPS:  # PyFuncStateless is declared pure, which nobody checked
        causes |= kinds & PYTHON_OPS
    if outside:
        causes.add(stateful.CAPTURED_VARIABLE)
    return FunctionFacts(
        name=getattr(python_function, "__name__", "function"),
        file=file,
        line=line,
        operations=len(nodes),
        stateful=tuple(sorted(causes)),
        random=any(RANDOM.search(kind) and not kind.startswith("Stateless") for kind in kinds),
        python=bool(kinds & PYTHON_OPS),
        writes=tuple(sorted(kind for kind in kinds if _WRITES.match(kind))),
        captures_resources=len(constant_tables(wrapper)) < len(outside),
        calls=python_calls(nodes_of(wrapper)) if kinds & PYTHON_OPS else (),
    )


def nodes_of(wrapper: Any) -> Iterator[Any]:
    """The nodes (NodeDef) of the function and of every function that it calls."""
    definition = wrapper.function.graph.as_graph_def()
    yield from definition.node
    for function in definition.library.function:
        yield from function.node_def


def user_function(wrapper: Any) -> Any:
    """The user's own function, behind the closures that TensorFlow puts around it."""
    function = tensorflow.UNWRAP.value(tensorflow.WRAPPED_FUNCTION.of(wrapper))[1]
    code = getattr(getattr(function, "__code__", None), "co_filename", "")
    if tensorflow.FOLDER in code:
        for cell in getattr(function, "__closure__", None) or ():
            inner = getattr(cell, "cell_contents", None)
            if inspect.isfunction(inner):
                return inner
    return function


def _source(function: Any) -> tuple[str | None, int | None]:
    """File and line of a function of the user's or a library's; of TensorFlow's own, none: nobody
    can change it there.
    """
    code = getattr(function, "__code__", None)
    if code is None or tensorflow.FOLDER in code.co_filename:
        return None, None
    return code.co_filename, code.co_firstlineno


def impure_type(kind: str) -> bool:
    """Whether an operation is more than a function of its inputs."""
    if kind in PYTHON_OPS:
        return True
    if kind in REPEATABLE:
        return False
    definition = tensorflow.OP_DEFINITION.value(kind)
    return definition is None or bool(definition.is_stateful)


def impure(operation: Any, library: dict[str, Any], clean: frozenset[str] = frozenset()) -> bool:
    """Whether an operation of a graph is impure; of a call, branch or loop: whether something
    inside it is, at any depth. `clean`: tokens of the Python functions that are taken for functions
    of their arguments.
    """
    return _impure_node(operation.node_def, library, clean, frozenset())


def _impure_node(node: Any, library: dict[str, Any], clean: frozenset[str], seen: frozenset[str]) -> bool:
    if not _CALLS.match(node.op):
        return not calls_clean(node, clean) and impure_type(node.op)
    for name in called(node):
        if name not in library:
            return True
        if name not in seen and any(_impure_node(inner, library, clean, seen | {name}) for inner in library[name].node_def):
            return True
    return False


def calls_clean(node: Any, clean: frozenset[str]) -> bool:
    """Whether a node calls one of the Python functions with these tokens."""
    return node.op in PYTHON_OPS and node.attr["token"].s.decode() in clean


def called(node: Any) -> list[str]:
    """Names of the functions that a node calls."""
    names = [value.func.name for value in node.attr.values() if value.HasField("func")]
    return names + [function.name for value in node.attr.values() if value.HasField("list") for function in value.list.func]


PYTHON_OPS = frozenset({"PyFunc", "EagerPyFunc", "PyFuncStateless"})


@dataclass(frozen=True)
class PythonCall:
    """One Python function that a graph calls: its `token` there, its `name`, and the function
    itself (None: not known).
    """

    token: str
    name: str
    function: Any


def python_calls(nodes: Iterable[Any]) -> tuple[PythonCall, ...]:
    """The Python functions behind the nodes of a graph and its library, each once."""
    all_nodes = list(nodes)
    tokens = dict.fromkeys(node.attr["token"].s.decode() for node in all_nodes if node.op in PYTHON_OPS)
    generators = any(node.op == "GeneratorDataset" for node in all_nodes)
    return tuple(_call(token, generators) for token in tokens)


def _call(token: str, generator: bool) -> PythonCall:
    function = _registered(token)
    named = (generator_of(function) if generator else None) or function
    name = token if named is None else str(getattr(named, "__name__", None) or type(named).__name__)
    return PythonCall(token, name, function)


def generator_of(function: Any) -> Any:
    """The user's generator function behind one of the three functions that `from_generator` makes;
    None where it is not found.
    """
    cells = (cell.cell_contents for cell in getattr(function, "__closure__", None) or ())
    for holder in (getattr(function, "__self__", None), *cells):
        if type(holder).__name__ == tensorflow.GENERATOR_CLASS.name:
            return tensorflow.GENERATOR.of(holder)
    return None


def _registered(token: str) -> Any:
    """The user's function behind a token; None where the registry does not know it."""
    found = tensorflow.PYTHON_FUNCTIONS.value.get(token) if tensorflow.PYTHON_FUNCTIONS.value is not None else None
    return _unwrapped(tensorflow.WRAPPED_FUNCTION.of(found, found))


def _unwrapped(function: Any) -> Any:
    """Behind the closures that TensorFlow puts around a function (no conversion by AutoGraph;
    composite tensors).
    """
    for _ in range(4):
        code = getattr(function, "__code__", None)
        if code is None or tensorflow.FOLDER not in code.co_filename:
            return function
        cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
        inner = next((cells[name] for name in ("func", "original_func", "f") if name in cells), None)
        if inner is None:
            return function
        function = inner.cell_contents
    return function


def constant_tables(wrapper: Any) -> frozenset[int]:
    """Which lookup tables that a function reads cannot change, those that are filled once
    (StaticHashTable): ids of the captured tensors of a function that are handles of tables which
    accept no more entries.

    TensorFlow has no question for that, but an insertion of no entries at all has an answer: it
    changes no table, and a table that is filled once refuses it as not implemented.
    """
    types = _types(wrapper)
    handles = [tensor for tensor in wrapper.function.captured_inputs if getattr(tensor.dtype, "name", "") == "resource"]
    return frozenset(id(handle) for handle in handles if types and any(_refuses(handle, *pair) for pair in types))


def _types(wrapper: Any) -> set[tuple[Any, Any]]:
    """The (key, value) types of the function's look-ups, in it and in functions that it calls."""
    return {(node.attr["Tin"].type, node.attr["Tout"].type) for node in nodes_of(wrapper) if node.op == "LookupTableFindV2"}


def _refuses(handle: Any, keys: Any, entries: Any) -> bool:
    import tensorflow as tf

    try:
        tensorflow.INSERT_INTO_TABLE.value(handle, _none(tf, keys), _none(tf, entries))
    except tf.errors.UnimplementedError:
        return True
    except Exception:  # a variable, or a table of other types or shapes
        return False
    return False


def _none(tf: Any, kind: Any) -> Any:
    return tf.constant([], tf.as_dtype(kind))
