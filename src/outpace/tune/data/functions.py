"""What a pipeline's traced function does, and new functions made of parts of its graph.

A function is a `StructuredFunctionWrapper` that TensorFlow traced: `function.graph` holds its operations, `function.captured_inputs`
what it took from outside. New ones are made by importing parts of that graph, so no Python of the user's runs again.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from outpace.capture import stateful
from outpace.tune.data import tables
from outpace.tune.data.python_calls import PYTHON_OPS, PythonCall, python_calls

# Declared stateful, yet the same answer for the same argument: files are taken not to change while a training runs, a failed assertion
# fails wherever it stands, and a table's state is named where the table comes from (captured, or made inside).
REPEATABLE = frozenset({
    "ReadFile", "Assert", "CheckNumerics", "CheckNumericsV2", "Placeholder", "Arg", "_Arg", "_Retval", "LookupTableFindV2", "LookupTableSizeV2",
})  # fmt: skip
_TENSORFLOW = "/tensorflow/python/"
_CALLS = re.compile(r"^(Stateless|Stateful)?(If|While|Case|PartitionedCall|Map)$")
_RANDOM = re.compile(
    r"Random|Multinomial|Rng|StatefulUniform|StatefulStandardNormal|StatefulTruncatedNormal|Gamma$|SampleDistorted"
)
_WRITES = re.compile(r"^(Assign|Resource(Scatter|Sparse|Apply|Count)|LookupTable(Insert|Import|Remove)|.*Enqueue)")


@dataclass(frozen=True)
class FunctionFacts:
    """Of one traced function: where it stands (`file`, `line`; None when there is no source), its stateful operations as
    `capture/stateful.py` names them, whether it draws random numbers, runs Python, writes to variables or tables, and reads captured ones
    that may change (a table that is filled once does not). `random_seeded`: every random op of it has a seed of its own or the global
    one. `calls`: the Python functions that it runs."""

    name: str
    file: str | None
    line: int | None
    operations: int
    stateful: tuple[str, ...]
    random: bool
    random_seeded: bool
    python: bool
    writes: tuple[str, ...]
    captures_resources: bool
    calls: tuple[PythonCall, ...] = field(default=(), compare=False)

    @property
    def repeatable(self) -> bool:
        """The same argument gives the same result, in every epoch and in any order of calls. Of Python functions this is what their code
        says, not what they were seen to do (see evidence.py)."""
        return not self.changing

    @property
    def stateful_causes(self) -> tuple[str, ...]:
        """What TensorFlow takes for state; reading files is not named (they are taken not to change)."""
        return tuple(kind for kind in self.stateful if kind not in REPEATABLE)

    @property
    def changing(self) -> tuple[str, ...]:
        """Those of the stateful causes that make it more than a function of its argument."""
        harmless = set(PYTHON_OPS) if self.python and not self.python_doubts else set()
        if not self.captures_resources:
            harmless.add(stateful.CAPTURED)
        return tuple(kind for kind in self.stateful_causes if kind not in harmless)

    @property
    def python_doubts(self) -> tuple[str, ...]:
        """What speaks against its Python functions being functions of their arguments, one sentence part each."""
        return tuple(call.doubt for call in self.calls if call.doubt is not None)

    @property
    def place(self) -> str:
        """`file:line`, or the name alone."""
        return f"{self.file}:{self.line}" if self.file else self.name


def facts(wrapper: Any) -> FunctionFacts:
    """Facts of a traced function; what private API does not answer is taken for stateful."""
    nodes = list(node_types(wrapper))
    kinds = {kind for kind, _ in nodes}
    random = [seeds for kind, seeds in nodes if _RANDOM.search(kind) and not kind.startswith("Stateless")]
    outside = [t for t in wrapper.function.captured_inputs if getattr(t.dtype, "name", "") in ("resource", "variant")]
    python_function = _user_function(wrapper)
    file, line = _source(python_function)
    causes = set(stateful.operations(wrapper))
    if kinds & PYTHON_OPS:  # PyFuncStateless is declared pure, which nobody checked
        causes |= kinds & PYTHON_OPS
    if outside:
        causes.add(stateful.CAPTURED)
    return FunctionFacts(
        name=getattr(python_function, "__name__", "function"),
        file=file,
        line=line,
        operations=len(nodes),
        stateful=tuple(sorted(causes)),
        random=bool(random),
        random_seeded=bool(random) and all(any(seeds) for seeds in random),
        python=bool(kinds & PYTHON_OPS),
        writes=tuple(sorted(kind for kind in kinds if _WRITES.match(kind))),
        captures_resources=len(tables.constant(wrapper)) < len(outside),
        calls=python_calls(nodes_of(wrapper)) if kinds & PYTHON_OPS else (),
    )


def node_types(wrapper: Any) -> Iterator[tuple[str, tuple[int, int]]]:
    """(operation type, its seeds) of the function and of every function that it calls."""
    yield from ((node.op, seeds_of(node)) for node in nodes_of(wrapper))


def nodes_of(wrapper: Any) -> Iterator[Any]:
    """The nodes (NodeDef) of the function and of every function that it calls."""
    definition = wrapper.function.graph.as_graph_def()
    yield from definition.node
    for function in definition.library.function:
        yield from function.node_def


def seeds_of(node: Any) -> tuple[int, int]:
    """The seed attributes of a node, (0, 0) when it has none or they are not set."""
    return (int(node.attr["seed"].i) if "seed" in node.attr else 0, int(node.attr["seed2"].i) if "seed2" in node.attr else 0)


def _user_function(wrapper: Any) -> Any:
    """The user's own function, behind the closures that TensorFlow puts around it."""
    from tensorflow.python.util import tf_decorator

    function = tf_decorator.unwrap(getattr(wrapper, "_func", None))[1]
    code = getattr(getattr(function, "__code__", None), "co_filename", "")
    if _TENSORFLOW in code:
        for cell in getattr(function, "__closure__", None) or ():
            inner = getattr(cell, "cell_contents", None)
            if inspect.isfunction(inner):
                return inner
    return function


def _source(function: Any) -> tuple[str | None, int | None]:
    """File and line of a function of the user's or a library's; of TensorFlow's own, none: nobody can change it there."""
    code = getattr(function, "__code__", None)
    if code is None or _TENSORFLOW in code.co_filename:
        return None, None
    return code.co_filename, code.co_firstlineno


def impure_type(kind: str) -> bool:
    """Whether an operation is more than a function of its inputs."""
    if kind in PYTHON_OPS:
        return True
    if kind in REPEATABLE:
        return False
    from tensorflow.python.framework import op_def_registry

    definition = op_def_registry.get(kind)
    return definition is None or bool(definition.is_stateful)


def impure(operation: Any, library: dict[str, Any], clean: frozenset[str] = frozenset()) -> bool:
    """Whether an operation of a graph is impure; of a call, branch or loop: whether something inside it is, at any depth. `clean`: tokens
    of the Python functions that are taken for functions of their arguments."""
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


def imported(
    wrapper: Any, definition: Any, feeds: Sequence[tuple[str, Any]], fetches: Sequence[Any], same_shapes: bool = True
) -> list[Any]:
    """Inside a function under construction: the tensors `fetches` of a (pruned) graph, with `feeds` for some of its tensors.

    What the original function captured is captured again. `same_shapes`: the results have the static shapes of the original's.
    """
    from tensorflow.python.framework import importer, ops

    graph = ops.get_default_graph()
    function = wrapper.function
    captures = function.graph.inputs[len(function.graph.inputs) - len(function.captured_inputs) :]
    present = {node.name for node in definition.node} | {_op(name) for node in definition.node for name in node.input}
    feed = {
        inner.name: outer for inner, outer in zip(captures, function.captured_inputs, strict=True) if _op(inner.name) in present
    }
    feed = {name: graph.capture(tensor) for name, tensor in feed.items()}
    given = dict(feeds)
    feed.update({name: tensor for name, tensor in given.items() if _op(name) in present})
    wanted = [tensor for tensor in fetches if tensor.name not in given]
    names = [tensor.name for tensor in wanted]
    made = iter(importer.import_graph_def(definition, input_map=feed, return_elements=names, name="") if wanted else [])
    results = []
    for tensor in fetches:
        result = given[tensor.name] if tensor.name in given else next(made)
        if tensor.name not in given and same_shapes:
            result.set_shape(tensor.shape)
        results.append(result)
    return results


def flat_arguments(wrapper: Any) -> list[Any]:
    """The graph's own argument tensors, without the captured ones."""
    graph = wrapper.function.graph
    return list(graph.inputs[: len(graph.inputs) - len(wrapper.function.captured_inputs)])


def made(wrapper: Any, input_structure: Any, body: Callable[[list[Any]], Any]) -> Any:
    """A new traced function for elements of `input_structure`; `body` gets the element's flat tensors.

    The new one keeps the old one alive (its Python callbacks and tables), by `_func`.
    """
    from tensorflow.python.autograph.impl import api as autograph
    from tensorflow.python.data.ops import structured_function
    from tensorflow.python.data.util import structure

    def outpace_function(*elements: Any) -> Any:
        whole = elements if type(input_structure) is tuple else elements[0]
        return body(structure.to_tensor_list(input_structure, whole))

    vars(outpace_function)["_outpace_keeps"] = wrapper
    unconverted = autograph.do_not_convert(outpace_function)
    new = structured_function.StructuredFunctionWrapper(unconverted, "Dataset.map()", input_structure=input_structure)
    new._outpace_keeps = wrapper
    return new


def pinned(wrapper: Any, seed: int, every: bool = False) -> Any:
    """The same function with a fixed seed in every random op that has none (`every`: in all): what makes two runs comparable.

    Returns the function itself when it draws no unseeded random number. An op's seed comes from its name, so that parts of a
    function (see split.py) get the same ones.
    """
    own = facts(wrapper)
    if not own.random or (own.random_seeded and not every):
        return wrapper
    definition = pin_seeds(wrapper.function.graph.as_graph_def(), seed, every)
    arguments, outputs = flat_arguments(wrapper), list(wrapper.function.graph.outputs)

    def body(flat: list[Any]) -> Any:
        from tensorflow.python.data.util import structure

        feeds = [(tensor.name, value) for tensor, value in zip(arguments, flat, strict=True)]
        return structure.from_compatible_tensor_list(wrapper.output_structure, imported(wrapper, definition, feeds, outputs))

    return made(wrapper, wrapper._input_structure, body)


def pin_seeds(definition: Any, seed: int, every: bool = False) -> Any:
    """A copy of a GraphDef whose unseeded random ops (or `every` one) have a seed made of their name."""
    import zlib

    copy = type(definition)()
    copy.CopyFrom(definition)
    changed = {}
    for function in copy.library.function:
        if any(_to_pin(node, every) for node in function.node_def):
            changed[function.signature.name] = f"{function.signature.name}_outpace_{seed}"
    nodes = [*copy.node, *(node for function in copy.library.function for node in function.node_def)]
    for node in nodes:
        if _to_pin(node, every):
            node.attr["seed"].i = seed
            node.attr["seed2"].i = zlib.crc32(node.name.encode()) + 1
    _rename(copy, nodes, changed)
    return copy


def _to_pin(node: Any, every: bool) -> bool:
    return bool(_RANDOM.search(node.op)) and "seed2" in node.attr and (every or seeds_of(node) == (0, 0))


def _rename(definition: Any, nodes: list[Any], names: dict[str, str]) -> None:
    """A changed library function needs a name of its own, and so does every function that calls it."""
    callers = True
    while callers:
        callers = False
        for function in definition.library.function:
            name = function.signature.name
            if name not in names and any(n in names for node in function.node_def for n in called(node)):
                names[name] = f"{name}_outpace"
                callers = True
    for function in definition.library.function:
        function.signature.name = names.get(function.signature.name, function.signature.name)
    for node in nodes:
        for value in node.attr.values():
            for target in [value.func] if value.HasField("func") else list(value.list.func) if value.HasField("list") else []:
                target.name = names.get(target.name, target.name)


def called(node: Any) -> list[str]:
    """Names of the functions that a node calls."""
    names = [value.func.name for value in node.attr.values() if value.HasField("func")]
    return names + [function.name for value in node.attr.values() if value.HasField("list") for function in value.list.func]


def _op(tensor_name: str) -> str:
    return tensor_name.removeprefix("^").split(":")[0]
