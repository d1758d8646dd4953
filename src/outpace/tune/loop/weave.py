"""The user's loop with what lets each of its steps run with one variant or another; where the plain one does, its statements stand as they are.

```python
def _outpace_inputs(_outpace_items):
    for x, y in _outpace_items:
        (what makes the inputs)
        yield ((x, y), (names that only the rest reads))
for _outpace_item in _outpace.items(data, _outpace_inputs):
    if _outpace.plain:
        x, y = _outpace_item
        (the loop's statements)
    else:
        _outpace_group, _outpace_results = ...
        for ...: (the rest)
```
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from outpace.tune.loop.statement import GIVES, SAID, meant

if TYPE_CHECKING:
    from outpace.tune.loop.body import Body
    from outpace.tune.loop.later import Later


AT_ONCE = 100  # steps whose values are read together
NAME = "_outpace"  # of the `Woven` that the loop speaks to


def woven(body: Body, loop: ast.For, later: Later) -> list[ast.stmt]:
    """What stands in the place of a loop (the same as the body's, in the tree that is compiled)."""
    held = list(loop.body)
    first, last = len(body.before), len(body.before) + len(body.steps)
    before, steps, after = held[:first], held[first:last], held[last:]
    begin, end = list[ast.stmt](), list[ast.stmt]()
    if not later.why:
        begin, end = _parsed(f"{NAME}_kept = []", loop), [_read_kept(later, loop, after)]
        after = [*after[: later.first], _kept(later, loop, after), *after[later.last + 1 :]]
    noted = _parsed(
        f"{NAME}.recording and {NAME}.note({_tuple(body.carried)}, {_tuple(body.inputs)}, {_tuple(body.fixed)})", loop
    )
    plain = [_stored(loop.target, f"{NAME}_item"), *before, *noted, *steps, *after]
    if body.unmovable:
        loop.body = plain
        loop.target = _target(f"{NAME}_item")
        loop.iter = _call(loop.iter, "None", "")
        return [*begin, loop, *end]
    other = _other(body, loop, steps, after)
    inputs = _parsed(
        f"def {NAME}_inputs({NAME}_items):\n    for {NAME}_item in {NAME}_items:\n        yield {_tuple((*body.inputs, *body.beside))}",
        loop,
    )
    maker = inputs[0]
    assert isinstance(maker, ast.FunctionDef)
    each = maker.body[0]
    assert isinstance(each, ast.For)
    each.target, each.body = copy.deepcopy(loop.target), [*copy.deepcopy(before), *each.body]
    choice = _parsed(f"if {NAME}.plain:\n    pass\nelse:\n    pass", loop)[0]
    assert isinstance(choice, ast.If)
    choice.body, choice.orelse = plain, other
    loop.target, loop.iter, loop.body = _target(f"{NAME}_item"), _call(loop.iter, f"{NAME}_inputs", body.ends), [choice]
    return [*begin, *inputs, loop, *end]


def results_in_step(
    loop: ast.For, first: int, last: int, names: Mapping[str, Any], calm: Callable[[Sequence[ast.stmt]], bool]
) -> None:
    """Let what metrics say after each step (`accuracy.result()`) be asked for in the step: names stand for it behind the step's last statement,
    and right behind that statements assign them.

    first, last: where the step's statements are. calm: whether statements leave every metric, and all that a step changes, alone; those before
    the step, and behind it up to the last that asks, have to, once the names stand in them.
    """
    asking = [at for at in range(last + 1, len(loop.body)) if _asked(loop.body[at], names)]
    between = loop.body[last + 1 : asking[-1] + 1] if asking else []
    calls = {ast.unparse(call): call for each in between for call in _asked(each, names)}
    taken = {*names, *(each.id for each in ast.walk(loop) if isinstance(each, ast.Name))}
    stands, made = dict[str, str](), list[ast.stmt]()
    for text, call in calls.items():
        assert isinstance(call.func, ast.Attribute)
        wished = f"{ast.unparse(call.func.value).replace('.', '_')}_result"
        name = next(each for each in (wished, *(f"{wished}_{at}" for at in range(2, 100))) if each not in taken)
        taken.add(name)
        try:
            value = meant(call.func, names)()
        except Exception:  # it has seen nothing yet
            return
        stands[text] = name
        made.append(ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], copy.deepcopy(call)), call))
        setattr(made[-1], SAID, f"{name} = {text}")
        setattr(made[-1], GIVES, value)
    standing = [_Standing(stands).visit(copy.deepcopy(each)) if _asked(each, names) else each for each in between]
    if not made or not calm([*loop.body[:first], *standing]):
        return
    for old, new in zip(between, standing, strict=True):
        if old is not new:
            setattr(ast.fix_missing_locations(new), SAID, ast.unparse(new))
    loop.body[last + 1 : last + 1 + len(between)] = [*map(ast.fix_missing_locations, made), *standing]


_LATER = (ast.Lambda, ast.IfExp, ast.BoolOp, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)  # or never, or often


def _asked(statement: ast.stmt, names: Mapping[str, Any]) -> list[ast.Call]:
    """What a statement that runs in every step asks metrics of Keras for, once."""
    ours = isinstance(statement, ast.If) and ast.unparse(statement.test).startswith(NAME)
    if not ours and not isinstance(statement, (ast.Expr, ast.Assign, ast.AugAssign)):
        return []
    apart = {id(node) for each in ast.walk(statement) if isinstance(each, _LATER) for node in ast.walk(each)}
    calls = (each for each in ast.walk(statement) if isinstance(each, ast.Call) and id(each) not in apart)
    return [each for each in calls if not each.args and not each.keywords and _of_metric(each.func, names)]


def _of_metric(func: ast.expr, names: Mapping[str, Any]) -> bool:
    """Whether a function is `metric.result`."""
    metric = meant(func.value, names) if isinstance(func, ast.Attribute) and func.attr == "result" else None
    return hasattr(metric, "update_state") and type(metric).__module__.partition(".")[0] == "keras"


class _Standing(ast.NodeTransformer):
    """Names in the place of calls."""

    def __init__(self, stands: Mapping[str, str]) -> None:
        self._stands = stands

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """The name, or the call as it is."""
        name = self._stands.get(ast.unparse(node))
        return ast.copy_location(ast.Name(name, ast.Load()), node) if name is not None else self.generic_visit(node)


def _kept(later: Later, loop: ast.For, after: Sequence[ast.stmt]) -> ast.stmt:
    """The statements that need values, or what they need is kept, for many steps."""
    choice = _parsed(
        f"if {NAME}.keeping():\n"
        f"    {NAME}_kept.append({_tuple(later.names)})\n"
        f"    if len({NAME}_kept) == {AT_ONCE}:\n"
        f"        {NAME}_kept.clear()\n"
        f"else:\n"
        f"    pass",
        loop,
    )[0]
    assert isinstance(choice, ast.If)
    full = choice.body[1]
    assert isinstance(full, ast.If)
    full.body.insert(0, _read_kept(later, loop, after))
    choice.orelse = copy.deepcopy(list(after[later.first : later.last + 1]))
    return choice


def _read_kept(later: Later, loop: ast.For, after: Sequence[ast.stmt]) -> ast.stmt:
    """The statements, for all that is kept."""
    reads = _parsed(f"for {_tuple(later.names)} in {NAME}_kept:\n    pass", loop)[0]
    assert isinstance(reads, ast.For)
    reads.body = copy.deepcopy(list(after[later.first : later.last + 1]))
    return reads


def _other(body: Body, loop: ast.For, steps: Sequence[ast.stmt], after: Sequence[ast.stmt]) -> list[ast.stmt]:
    """The steps of a group of inputs: in one call, or one after the other; then the rest of the loop for each of them."""
    inputs, carried, results = (*body.inputs, *body.beside), _tuple(body.carried), _tuple(body.results)
    found = _parsed(
        f"{NAME}_group, {NAME}_stack = {NAME}_item\n"
        f"if {NAME}_stack is None:\n"
        f"    {NAME}_results = []\n"
        f"    for {_tuple(inputs)} in {NAME}_group:\n"
        f"        {NAME}_results.append({results})\n"
        f"else:\n"
        f"    {_tuple(body.carried)}, {NAME}_results = {NAME}.several({carried}, {NAME}_stack, {_tuple(body.fixed)}, len({NAME}_group))\n"
        f"for {_tuple(inputs)}, {results} in zip({NAME}_group, {NAME}_results):\n"
        f"    pass",
        loop,
    )
    singly, rest = found[1], found[2]
    assert isinstance(singly, ast.If) and isinstance(rest, ast.For)
    one = singly.body[1]
    assert isinstance(one, ast.For)
    one.body = [*copy.deepcopy(list(steps)), *one.body]
    rest.body = [*copy.deepcopy(list(after)), *rest.body]
    if body.breaks:  # a `break` of the rest leaves the group's loop alone
        rest.orelse = _parsed("continue", loop)
        found += _parsed("break", loop)
    return found


def _parsed(text: str, at: ast.stmt) -> list[ast.stmt]:
    """Statements, which Python says to stand where another one does."""
    made = ast.parse(text).body
    for each in (node for statement in made for node in ast.walk(statement)):
        if hasattr(each, "lineno"):
            ast.copy_location(each, at)
    return made


def _tuple(names: Sequence[str]) -> str:
    """`(x, y)`, to be read or assigned to."""
    return f"({', '.join(names)},)" if names else "()"


def _target(name: str) -> ast.Name:
    return ast.Name(name, ast.Store())


def _stored(target: ast.expr, name: str) -> ast.stmt:
    return ast.Assign([copy.deepcopy(target)], ast.Name(name, ast.Load()))


def _call(value: ast.expr, inputs: str, ends: str) -> ast.expr:
    call = ast.parse(f"{NAME}.items(None, {inputs}{f', lambda item, n: {ends}' if ends else ''})", mode="eval").body
    assert isinstance(call, ast.Call)
    call.args[0] = value
    return call


SEVERAL, AHEAD, LATER, DONATED, COMPILED = "several", "ahead", "later", "donated", "compiled"
