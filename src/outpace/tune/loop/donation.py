"""Arguments of compiled functions that a step could give away (`donate_argnums`): the loop replaces them by what the step returns."""

from __future__ import annotations

import ast
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from outpace._dataclass import dataclass
from outpace.tune.loop.jax_calls import LIBRARYS, JaxFunction, compiled_calls

if TYPE_CHECKING:
    from outpace.tune.loop.body import Body

Form = tuple[Any, tuple[Any, ...]]


@dataclass(frozen=True, eq=False)
class Given:
    """A call whose arguments at some `places` (or with some `names`) are assigned anew by its statement. parts: where in the result each of
    them comes back; None for the whole of it."""

    function: JaxFunction
    line: int
    said: tuple[str, ...]
    places: tuple[int, ...]
    names: tuple[str, ...]
    parts: tuple[int | None, ...]

    @property
    def options(self) -> dict[str, Any]:
        """Of `jax.jit`."""
        found = {"donate_argnums": self.places, "donate_argnames": self.names}
        return {name: value for name, value in found.items() if value}


class Donation:
    """What the steps of one loop could give away. why: nothing, because of this; empty otherwise."""

    def __init__(self, body: Body) -> None:
        self.given: dict[JaxFunction, Given] = {}
        self.why = ""
        self.first_held = False  # whether something else holds what the loop began with
        self._seen: dict[JaxFunction, list[list[weakref.ref[Any]]]] = {}
        self._body = body
        self.already = False  # whether the user's own functions do
        for statement in body.steps:
            for call, function, bound in compiled_calls(statement, body.names):
                if function.gives_away:
                    self.already = True
                    continue
                found = _given(statement, call, function, bound) if bound != LIBRARYS else None
                if found is not None and function.maker == "jit" and function.options is not None:
                    if function in self.given:
                        self.why = f"the loop calls {ast.unparse(call.func)} at two lines"
                    self.given[function] = found
        if not self.given:
            self.why = (
                "its state is given away already"
                if self.already
                else "no argument of the step is replaced by what it returns, in the same statement"
            )
        alias = next(self._aliases(), None)
        if alias is not None and not self.why:
            self.why = alias

    def _aliases(self) -> Iterator[str]:
        """Statements of the loop, outside of the calls, that give what is replaced another name, or keep it."""
        names = {name for each in self.given.values() for name in each.said}
        for node in ast.walk(self._body.loop):
            value = getattr(node, "value", None)
            if (
                isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr))
                and value is not None
                and ast.unparse(value) in names
            ):
                yield f"line {node.lineno} gives {ast.unparse(value)} another name, by which the old value may be read"

    def look(self) -> None:
        """See whether anything holds what the calls so far were given, but those of the last one."""
        for function, given in self.given.items():
            first = function.calls.first.get(function, {})
            self.first_held |= any(ref() is not None for at in (*given.places, *given.names) for ref in first.get(at, ()))
        for function, calls in self._seen.items():
            held = [leaf for leaves in calls[1:-1] for ref in leaves if (leaf := ref()) is not None]
            if held and not self.why:
                said = ", ".join(self.given[function].said)
                self.why = f"the program still holds old values of {said} one step later, and may read them"
        self._seen = {}

    def call(self, function: JaxFunction, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function of the step, note what it was given, and see whether that comes back in the same form."""
        found = self.given.get(function)
        if found is None or self.why:
            return function.made(*args, **kwargs)
        self._seen.setdefault(function, []).append([weakref.ref(leaf) for leaf in self._leaves(found, args, kwargs)])
        jax = found.function.calls.jax
        given = [args[at] for at in found.places] + [kwargs[name] for name in found.names]
        forms = [_form(jax, each) for each in given]
        del given
        result = found.function.made(*args, **kwargs)
        for said, form, part in zip(found.said, forms, found.parts, strict=True):
            back = result if part is None else result[part]
            if _form(jax, back) != form and not self.why:
                self.why = f"{said} comes back from the step in another form than it was given in"
        return result

    def _leaves(self, found: Given, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        given = [args[at] for at in found.places] + [kwargs[name] for name in found.names]
        return [leaf for leaf in found.function.calls.jax.tree.leaves(given) if hasattr(leaf, "is_deleted")]


def _given(statement: ast.stmt, call: ast.Call, function: JaxFunction, bound: int) -> Given | None:
    """The arguments of a call that its statement assigns anew; None for none."""
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1 or statement.value is not call:
        return None
    target = statement.targets[0]
    parts: dict[str, int | None] = {ast.unparse(target): None}
    if isinstance(target, (ast.Tuple, ast.List)):
        parts = {ast.unparse(each): at for at, each in enumerate(target.elts)}
    found = [(ast.unparse(arg), at + bound) for at, arg in enumerate(call.args) if not isinstance(arg, ast.Starred)]
    if len(found) < len(call.args):
        return None
    placed = [(said, at) for said, at in found if said in parts]
    named = [
        (ast.unparse(word.value), word.arg)
        for word in call.keywords
        if word.arg is not None and ast.unparse(word.value) in parts
    ]
    if not placed and not named:
        return None
    said = (*(each for each, _ in placed), *(each for each, _ in named))
    return Given(
        function,
        call.lineno,
        said,
        tuple(at for _, at in placed),
        tuple(name for _, name in named),
        tuple(parts[each] for each in said),
    )


def _form(jax: Any, tree: Any) -> Form:
    leaves, form = jax.tree.flatten(tree)
    return form, tuple((getattr(leaf, "shape", None), str(getattr(leaf, "dtype", ""))) for leaf in leaves)
