# SPDX-License-Identifier: Apache-2.0
"""What a script calls of JAX: compiled functions and gradients, through one listener. Nothing of
`jax` is imported here: the script does.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import inspect
import threading
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import CodeType, FunctionType, ModuleType
from typing import Any

from outpace.pyscope.nodes import iter_calls
from outpace.tune.loop.statement import meant

COMPILED, GRADIENT = "compiled", "gradient"
_MAKERS = {"jit": COMPILED, "pmap": COMPILED, "grad": GRADIENT, "value_and_grad": GRADIENT}

SEVERAL_STEPS = "several_steps"  # what a patch calls the function that makes them
DONATE = ("donate_argnums", "donate_argnames")
UNTAPED_FACTOR = 10  # times as many calls, where no gradient was seen

Listener = Callable[["JaxFunction", tuple[Any, ...], dict[str, Any]], Any]


class JaxFunction:
    """A function that `jax.jit`, `jax.grad` or the like has made, with everything that it can do.
    python: what it was made of, by which maker and with which options; None where not all of these
    were given by name.
    """

    def __init__(self, calls: JaxCalls, maker: str, made: Any, python: Any, options: dict[str, Any] | None = None) -> None:
        self.calls, self.maker, self.made, self.python, self.options = calls, maker, made, python, options
        self.kind = _MAKERS[maker]
        # Its names alone: the attributes of one that was made of another (`jit(grad(f))`) are not
        # that one's.
        functools.update_wrapper(self, python if hasattr(python, "__name__") else made, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call it; the listener is told where that is a step's."""
        return self.calls.called(self, args, kwargs)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.made, name)

    @property
    def gives_away(self) -> bool:
        """Whether its caller's arguments are gone afterwards."""
        return any(self.options.get(name) for name in DONATE) if self.options is not None else False

    @property
    def code(self) -> CodeType | None:
        """Of the Python function."""
        python = self.python
        while isinstance(python, (functools.partial, JaxFunction)):
            python = python.func if isinstance(python, functools.partial) else python.python
        code = getattr(python, "__code__", None)
        return code if isinstance(code, CodeType) else None


class JaxCalls:
    """Tells the listener of the outermost calls in the script's main thread, which then
    runs them.
    """

    def __init__(self, jax: ModuleType, taken: Callable[[], object] = lambda: None) -> None:
        """`taken` is told of gradients that a listener would hear of, or of traces that
        take them.
        """
        self.jax: Any = jax
        self._taken = taken
        self.listener: Listener | None = None
        self.original: dict[str, Any] = {}  # what makes functions, by name
        self.gradients = 0  # that were taken so far, also while a function is traced
        self._main = threading.main_thread().ident
        self._depth = 0

    def install(self) -> None:
        """Replace the public makers of functions."""
        for name in _MAKERS:
            original = getattr(self.jax, name, None)
            if original is not None:
                self.original[name] = original
                setattr(self.jax, name, self._maker(original, name))

    def hand_over(self, listener: Listener) -> None:
        """Let another one listen, from inside of a call of the one before."""
        self.listener, self._depth = listener, 0

    def _maker(self, original: Any, name: str) -> Any:
        @functools.wraps(original)
        def make(*args: Any, **kwargs: Any) -> Any:
            if args and callable(args[0]):
                return JaxFunction(self, name, original(*args, **kwargs), args[0], kwargs if len(args) == 1 else None)
            if "fun" in kwargs:
                options = {option: value for option, value in kwargs.items() if option != "fun"}
                return JaxFunction(self, name, original(*args, **kwargs), kwargs["fun"], options)
            return functools.partial(make, **kwargs) if not args else original(*args, **kwargs)

        return make

    def called(self, function: JaxFunction, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A function is called."""
        listener = self.listener
        if function.kind == GRADIENT:
            self.gradients += 1
            if listener is not None:
                self._taken()
        if listener is None or self._depth or threading.get_ident() != self._main or self._traced(args, kwargs):
            return function.made(*args, **kwargs)
        if function.kind == GRADIENT:  # it runs op by op, and what it calls is no step of its own
            return listener(function, args, kwargs)
        self._depth += 1
        try:
            return listener(function, args, kwargs)
        finally:
            self._depth = max(0, self._depth - 1)  # another one may listen since

    def _traced(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether the call is part of another function's trace."""
        leaves: Iterator[Any] = iter(self.jax.tree_util.tree_leaves((args, kwargs)))
        return any(isinstance(leaf, self.jax.core.Tracer) for leaf in leaves)


class JaxSteps:
    """Finds the function whose calls are the steps: that takes gradients, or at least gives back
    what it was given, changed, again and again; or the gradients that a step without one takes.
    """

    def __init__(self, calls: JaxCalls, steps: int, found: Callable[[CodeType | None, int], object]) -> None:
        """`found`: told once, of the function's code (None: gradients that are taken eagerly) and
        of how often it was called.
        """
        self._calls, self._steps, self._found = calls, steps, found
        self._counts: dict[Any, int] = {}
        self._needed: dict[Any, int] = {}  # calls, until it is the step
        calls.listener = self._called

    def rest(self) -> None:
        """See nothing more."""
        if self._calls.listener == self._called:
            self._calls.listener = None

    def _called(self, function: JaxFunction, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        key = function.code or function
        count = self._counts[key] = self._counts.get(key, 0) + 1
        if count > self._needed.get(key, count) and (self._needed[key] == self._steps or not self._gradients_again):
            self.rest()
            self._found(None if function.kind == GRADIENT else function.code, count)
        before = self._calls.gradients
        result = function.made(*args, **kwargs)
        if function.kind == GRADIENT or self._calls.gradients > before:  # the first call is traced
            self._needed[key] = self._steps
        elif key not in self._needed and _carries(self._calls.jax, result, args):
            self._needed[key] = UNTAPED_FACTOR * self._steps
        return result

    @property
    def _gradients_again(self) -> bool:
        """Whether a function that takes gradients is called again and again: it is the step then,
        and no update of one parameter.
        """
        return any(self._counts[key] > 1 for key, needed in self._needed.items() if needed == self._steps)


def static_arguments(jax: Any, function: Any, calls: Sequence[tuple[tuple[Any, ...], dict[str, Any]]]) -> tuple[str, ...]:
    """The parameters whose values `jax.jit` of a function must know while it traces
    (`static_argnames`), from calls of it.

    Values that are no numbers must be known; whole numbers that never change are where the trace
    fails without them.
    """
    try:
        signature = inspect.signature(function)
        bound = [signature.bind(*args, **kwargs) for args, kwargs in calls]
    except (TypeError, ValueError):
        return ()
    given = {name: [each.arguments.get(name) for each in bound] for name in bound[0].arguments} if bound else {}
    spread = {name for name, each in signature.parameters.items() if each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD)}
    same = {name for name, values in given.items() if name not in spread and _constant(values)}
    never = {name for name in same if _no_array(given[name][0])}
    for names in (never, same):
        found = tuple(name for name in given if name in names)
        with contextlib.suppress(Exception):  # what the trace raises, the call would raise too
            jax.eval_shape(_fixed(function, signature, bound[0], found), *_free(bound[0], found))
            return found
    return ()


def _fixed(
    function: Any, signature: inspect.Signature, bound: inspect.BoundArguments, names: Sequence[str]
) -> Callable[..., Any]:
    """The function of its other arguments."""
    free = [name for name in bound.arguments if name not in names]

    def called(*values: Any) -> Any:
        arguments = inspect.BoundArguments(signature, dict(bound.arguments))
        arguments.arguments.update(zip(free, values, strict=True))
        return function(*arguments.args, **arguments.kwargs)

    return called


def _free(bound: inspect.BoundArguments, names: Sequence[str]) -> list[Any]:
    return [value for name, value in bound.arguments.items() if name not in names]


def _constant(values: Sequence[Any]) -> bool:
    """Whether values are one whole number, or one value that holds no array, in all calls."""
    first = values[0]
    return (isinstance(first, int) or _no_array(first)) and all(type(each) is type(first) and each == first for each in values)


def _no_array(value: Any) -> bool:
    """Whether a value is a text, a truth value, a function, or a tuple of such and of whole
    numbers.
    """
    if isinstance(value, tuple):
        return bool(value) and all(isinstance(each, int) or _no_array(each) for each in value)
    return isinstance(value, (str, bool, FunctionType, type))


def _carries(jax: Any, result: Any, args: tuple[Any, ...]) -> bool:
    """Whether a result, or a part of it, is of the form of an argument that holds
    several arrays.
    """
    parts = [result, *(result if isinstance(result, (tuple, list)) else ())]
    forms = {_form(jax, each) for each in args}
    return any(_form(jax, part) in forms for part in parts if len(jax.tree_util.tree_leaves(part)) > 1)


def _form(jax: Any, tree: Any) -> Any:
    leaves, form = jax.tree_util.tree_flatten(tree)
    return form, tuple(getattr(leaf, "shape", None) for leaf in leaves)


def compiled_functions(node: ast.AST, names: Mapping[str, Any]) -> Iterator[JaxFunction]:
    """Yield the functions made by `jax.jit` that a node calls, with a library in between, too."""
    for call in iter_calls(node):
        function: Any = meant(call.func, names)
        while isinstance(function, functools.partial):
            function = function.func
        if not isinstance(function, JaxFunction):  # what a library has put around one
            function = next((held for held in _held(function) if isinstance(held, JaxFunction)), None)
        if isinstance(function, JaxFunction) and function.kind == COMPILED:
            yield function


def _held(function: Any) -> list[Any]:
    """What an object that can be called, and is no function, has for attributes."""
    simple = isinstance(function, (types.FunctionType, types.MethodType, types.BuiltinFunctionType, type, types.ModuleType))
    return list(getattr(function, "__dict__", {}).values()) if callable(function) and not simple else []
