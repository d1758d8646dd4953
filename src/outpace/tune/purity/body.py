"""The body of one function, statement by statement: what it stores outside, what it reads from there, and what it calls."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from outpace.tune.purity import sources, text, values
from outpace.tune.purity.site import Site
from outpace.tune.purity.values import INNER, Held, Known, Scope, borrowed, element, joined, own_names

_LASTS = "is assigned, and lives on after the call"


class Body:
    """The body of one function under reading; `bound` is what is known of its parameters."""

    def __init__(self, site: Site, node: text.Function, bound: dict[str, Known]) -> None:
        self._site, self._node = site, node
        self._scope = Scope(site.target, own_names(node), known=dict(bound))
        self._result: Known = None
        self._whole = ""  # the whole dotted name under reading: what a module is asked for

    def read(self) -> Known:
        """What is known of the result. Raises Doubt."""
        for name, known in list(self._scope.known.items()):
            if isinstance(known, Held):
                self._site.judge(known.value, name, self._node)
        for _ in range(2):  # a name may be assigned behind its use, in a loop
            self._block(self._node)
        return self._result

    def _block(self, node: text.Function) -> None:
        if isinstance(node, ast.Lambda):
            self._returned(self._value(node.body))
            return
        for statement in node.body:
            self._statement(statement)

    def _returned(self, found: Known) -> None:
        if self._scope.parent is None:
            self._result = joined(self._result, found)

    def _statement(self, node: ast.AST) -> None:
        handler = getattr(self, f"_do_{type(node).__name__}", None)
        if handler is not None:
            handler(node)
            return
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self._value(child)
            else:
                self._statement(child)

    def _do_Return(self, node: ast.Return) -> None:
        self._returned(self._value(node.value) if node.value is not None else None)

    def _do_Assign(self, node: ast.Assign) -> None:
        found = self._value(node.value)
        for target in node.targets:
            self._store(target, found)

    def _do_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._store(node.target, self._value(node.value))

    def _do_AugAssign(self, node: ast.AugAssign) -> None:
        self._value(node.value)
        if isinstance(node.target, ast.Name):
            holder = self._scope.holder(node.target.id)
            if holder is not None and borrowed(holder.known.get(node.target.id)):
                raise self._site.doubt(node, f"{node.target.id} comes from outside and is changed in place")
        self._store(node.target, None)

    def _do_For(self, node: ast.For) -> None:
        self._store(node.target, element(self._value(node.iter)))
        for statement in [*node.body, *node.orelse]:
            self._statement(statement)

    def _do_withitem(self, node: ast.withitem) -> None:
        found = self._value(node.context_expr)
        if node.optional_vars is not None:
            self._store(node.optional_vars, found)

    def _do_Delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            self._store(target, None)

    def _do_Global(self, node: ast.Global | ast.Nonlocal) -> None:
        for name in node.names:
            own = (
                isinstance(node, ast.Nonlocal)
                and self._scope.parent is not None
                and self._scope.parent.holder(name) is not None
            )
            stored = [
                n for n in ast.walk(self._node) if isinstance(n, ast.Name) and n.id == name and not isinstance(n.ctx, ast.Load)
            ]
            if stored and not own:
                raise self._site.doubt(stored[0], f"{name} {_LASTS}")
            self._scope.declared.add(name)

    _do_Nonlocal = _do_Global

    def _do_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            whole = self._site.module(alias.name, node)
            name = alias.name.split(".")[0]
            self._store_name(alias.asname or name, whole if alias.asname else self._site.module(name, node), node)

    def _do_ImportFrom(self, node: ast.ImportFrom) -> None:
        if node.level or node.module is None:
            raise self._site.doubt(node, "a relative import inside the function is not followed")
        module = self._site.module(node.module, node)
        for alias in node.names:
            self._store_name(alias.asname or alias.name, self._site.member(module.value, alias.name, node), node)

    def _do_FunctionDef(self, node: ast.FunctionDef) -> None:
        for default in [*node.args.defaults, *(d for d in node.args.kw_defaults if d is not None), *node.decorator_list]:
            self._value(default)
        self._nested(node)

    def _do_AsyncFunctionDef(self, node: ast.AST) -> None:
        raise self._site.doubt(node, "an asynchronous function is defined, whose order of work is not known")

    def _do_ClassDef(self, node: ast.ClassDef) -> None:
        raise self._site.doubt(node, f"class {node.name} is made anew at every call, which is not read")

    def _nested(self, node: Any) -> None:
        """The body of a function or comprehension inside, with names of its own."""
        outer, self._scope = self._scope, Scope(self._site.target, own_names(node), self._scope)
        try:
            if isinstance(node, (ast.FunctionDef, ast.Lambda)):
                self._block(node)
            else:
                self._comprehension(node)
        finally:
            self._scope = outer

    def _comprehension(self, node: Any) -> None:
        for generator in node.generators:
            self._store(generator.target, element(self._value(generator.iter)))
            for condition in generator.ifs:
                self._value(condition)
        for part in ("elt", "key", "value"):
            if hasattr(node, part):
                self._value(getattr(node, part))

    def _store(self, target: ast.expr, found: Known) -> None:
        if isinstance(target, ast.Name):
            self._store_name(target.id, found, target)
        elif isinstance(target, (ast.Tuple, ast.List)):
            for part in target.elts:
                self._store(part, element(found))
        elif isinstance(target, ast.Starred):
            self._store(target.value, found)
        elif isinstance(target, (ast.Attribute, ast.Subscript)):
            held = self._base(target.value)
            if held is INNER:
                raise self._site.doubt(
                    target, f"{ast.unparse(target)} is assigned, and may be part of a value that lives on after the call"
                )
            if borrowed(held) or (isinstance(held, Held) and values.plain_callable(held.value)):
                raise self._site.doubt(target, f"{ast.unparse(target)} {_LASTS}")
            if isinstance(target, ast.Subscript):
                self._value(target.slice)

    def _store_name(self, name: str, found: Known, node: ast.AST) -> None:
        holder = self._scope.holder(name)
        if holder is None:
            raise self._site.doubt(node, f"{name} {_LASTS}")
        holder.known[name] = joined(holder.known.get(name), found)

    def _value(self, node: ast.expr) -> Known:
        """What an expression gives. Where it is a user's object, any of its methods may be called by what gets it."""
        found = self._base(node)
        if isinstance(found, Held) and not values.plain_callable(found.value) and values.users_object(found.value):
            self._site.reader.whole_class(type(found.value), found.value, self._site.at(node), self._site.depth)
        return found

    def _base(self, node: ast.expr) -> Known:
        """What an expression gives that is only looked into or called."""
        if not isinstance(node, (ast.Name, ast.Attribute)):
            self._whole = ""
        handler: Callable[[ast.expr], Known] | None = getattr(self, f"_of_{type(node).__name__}", None)
        if handler is not None:
            return handler(node)
        found = [self._value(child) for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
        return INNER if any(map(borrowed, found)) and not isinstance(node, (ast.Compare, ast.BinOp, ast.UnaryOp)) else None

    def _of_Name(self, node: ast.Name) -> Known:
        holder = self._scope.holder(node.id)
        if holder is not None:
            return holder.known.get(node.id)
        return self._site.outside(node.id, self._whole or node.id, self._scope.outside(node.id), node)

    def _of_Attribute(self, node: ast.Attribute) -> Known:
        before, self._whole = self._whole, self._whole or ast.unparse(node)
        held = self._base(node.value)
        self._whole = before
        return self._site.member(held.value, node.attr, node) if isinstance(held, Held) else held

    def _of_Subscript(self, node: ast.Subscript) -> Known:
        self._value(node.slice)
        return element(self._value(node.value))

    def _of_NamedExpr(self, node: ast.NamedExpr) -> Known:
        found = self._value(node.value)
        self._store(node.target, found)
        return found

    def _of_nested(self, node: ast.expr) -> Known:
        self._nested(node)
        return None

    _of_Lambda = _of_ListComp = _of_SetComp = _of_DictComp = _of_GeneratorExp = _of_nested

    def _of_Yield(self, node: ast.Yield | ast.YieldFrom) -> Known:
        if self._scope.parent is None and self._site.depth == 0 and not self._site.reader.generates:
            raise self._site.doubt(node, "it is a generator")
        return self._value(node.value) if node.value is not None else None

    _of_YieldFrom = _of_Yield

    def _of_Call(self, node: ast.Call) -> Known:
        target = self._base(node.func)
        arguments = [self._value(argument) for argument in node.args]
        keywords = {keyword.arg or "": self._value(keyword.value) for keyword in node.keywords}
        shared = any(map(borrowed, [*arguments, *keywords.values()]))
        if isinstance(target, Held):
            if target.value is open:
                self._opened(node)
            self._clock_or_unset(node, target.value)
            return self._site.reader.call(target.value, arguments, keywords, self._site.at(node), self._site.depth + 1)
        if isinstance(node.func, ast.Attribute):
            self._method(node, node.func)
        elif isinstance(node.func, ast.Name) and shared:
            raise self._site.doubt(node, f"{node.func.id} gets a value from outside that it might change")
        return INNER if target is INNER or shared else None

    def _clock_or_unset(self, node: ast.Call, target: Any) -> None:
        """A library's function may answer with the time, or with whatever lies in memory."""
        given = [argument.value for argument in node.args if isinstance(argument, ast.Constant)]
        if any(isinstance(value, str) and value in sources.CLOCK for value in given):
            raise self._site.doubt(node, f"{ast.unparse(node)} reads the clock")
        if getattr(target, "__name__", "") in sources.UNSET and sources.library(values.module_of(target)):
            raise self._site.doubt(node, f"{ast.unparse(node.func)} answers with whatever lies in memory")

    def _method(self, node: ast.Call, func: ast.Attribute) -> None:
        """A method of an object that is not known, by its name: it may change its object, draw, or change files."""
        called = ast.unparse(func)
        receiver = self._base(func.value)
        if borrowed(receiver) and func.attr in sources.MUTATORS:
            raise self._site.doubt(node, f"{called} changes what lives on after the call")
        if sources.CHANCE.search(func.attr):
            raise self._site.doubt(node, f"{called} may draw random numbers or read the clock")
        if func.attr in sources.WRITERS:
            raise self._site.doubt(node, f"{called} changes files")

    def _opened(self, node: ast.Call) -> None:
        given = [*node.args[1:2], *(keyword.value for keyword in node.keywords if keyword.arg == "mode")]
        mode = given[0].value if given and isinstance(given[0], ast.Constant) else "?" if given else "r"
        if set(str(mode)) - set("rbtU"):
            raise self._site.doubt(node, "a file is opened to be written")
