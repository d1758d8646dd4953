"""What functions that are traced have read, and whether it has changed since."""

from __future__ import annotations

import argparse
import contextvars
import dataclasses
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from outpace.tune.same.each_line import EachLine
from outpace.tune.same.frozen import Frozen
from outpace.tune.same.reads import reads_of
from outpace.tune.same.remade import Remade

SCRIPT = """
rate, unused, cfg, level, w = 0.1, 1.0, Namespace(lr=0.1, other=1), [0.0], np.ones(2)
current = ContextVar("current", default=0)
made = {"count": 0}
class Model:
    def __init__(self): self.lr, self.seen = 0.1, 0
    @property
    def doubled(self): return self.lr * 2
    def step(self, x): return x * self.lr
    def twice(self, x): return x * self.doubled
def outer():
    scale = 1.0
    def scaled(x): return x * scale
    def grow():
        nonlocal scale
        scale += 1
    return scaled, grow
scaled, grow = outer()
model = Model()
def by_name(x): return x * rate
def by_attribute(x): return x * getattr(cfg, "lr")
def by_item(x): return x * level[0]
def by_helper(x): return lr_of(cfg) * x
def lr_of(c): return c.lr
def by_array(x): return x @ w
def by_context(x): return x + current.get()
def by_alias(x):
    c = cfg
    return x * c.lr
def shadowed(rate): return rate * (lambda unused: unused)(2)
def built(x):
    if not made["count"]: made["count"] = 1
    return x
"""


@pytest.fixture
def names(tmp_path: Path) -> dict[str, Any]:
    held: dict[str, Any] = {
        "Namespace": argparse.Namespace, "np": np, "ContextVar": contextvars.ContextVar, "__name__": "__main__",
    }  # fmt: skip
    (tmp_path / "train.py").write_text(SCRIPT, encoding="utf-8")
    exec(compile(SCRIPT, str(tmp_path / "train.py"), "exec"), held)
    return held


def changed(names: dict[str, Any], function: Callable[..., Any], between: str) -> dict[str, str]:
    """After the function was traced, and something else has run."""
    frozen = Frozen(lambda file: file.endswith("train.py"))
    with frozen.watching():
        function(np.ones(2))
    frozen.check()
    assert not frozen.changed
    exec(between, names)
    frozen.check()
    return frozen.changed


@pytest.mark.parametrize(
    ("function", "between", "read"),
    [
        ("by_name", "rate = 0.2", "rate"),
        ("by_attribute", "cfg.lr = 0.2", "cfg.lr"),
        ("by_item", "level[0] = 1.0", "level[0]"),
        ("by_helper", "cfg.lr = 0.2", "c.lr"),
        ("by_array", "w = w * 2", "w"),
        ("by_array", "w *= 2", "w"),
        ("by_context", "current.set(3)", "current.get"),
        ("by_alias", "cfg.lr = 0.2", "cfg"),
        ("scaled", "grow()", "scale"),
    ],
)
def test_what_was_read_has_changed(names: dict[str, Any], function: str, between: str, read: str) -> None:
    assert read in changed(names, names[function], between)


@pytest.mark.parametrize("method", ["step", "twice"])
def test_of_an_object_only_what_was_read(names: dict[str, Any], method: str) -> None:
    assert "self.lr" in changed(names, getattr(names["model"], method), "model.lr = 0.2")
    assert not changed(names, getattr(names["model"], method), "model.seen += 1")


@pytest.mark.parametrize("function", ["by_name", "by_attribute", "by_item", "scaled", "shadowed", "built", "by_context"])
def test_what_was_not_read_may_change(names: dict[str, Any], function: str) -> None:
    between = "unused = 2.0; cfg.other = 2; w = None; level.append(1)" + ("" if function == "by_name" else "; rate = 3.0")
    assert not changed(names, names[function], between)


WHOLE = """
@dataclasses.dataclass
class Push:
    factor: float = 1.0
    seen: int = 0
    def step(self, x): return x * dataclasses.astuple(self)[0]
    def named(self, x): return x * vars(self)["factor"]
    def other(self, x): return x * read(self)
def read(push): return push.factor
push = Push()
def by_library(x): return x * dataclasses.astuple(push)[0]
class Trainer:
    @property
    def unready(self): raise ValueError("not yet")
    def step(self, x): return x
trainer = Trainer()
def by_method(x): return trainer.step(x) if x is not None else trainer.unready.step(push)
"""


@pytest.mark.parametrize("function", ["by_library", "push.step", "push.named", "push.other"])
def test_what_python_s_own_library_is_given_is_read_as_a_whole(
    function: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = ModuleType("train")
    script.__file__ = str(tmp_path / "train.py")
    monkeypatch.setitem(sys.modules, "train", script)
    held = vars(script) | {"dataclasses": dataclasses, "__name__": "train"}
    (tmp_path / "train.py").write_text(WHOLE, encoding="utf-8")
    exec(compile(WHOLE, script.__file__, "exec"), held)
    root, _, method = function.partition(".")
    called = getattr(held[root], method) if method else held[root]
    assert changed(held, called, "push.factor = 2.0")
    assert bool(changed(held, called, "push.seen += 1")) is (method != "other")


def test_a_property_that_a_text_calls_is_not_asked(tmp_path: Path) -> None:
    held: dict[str, Any] = {"dataclasses": dataclasses, "__name__": "__main__"}
    (tmp_path / "train.py").write_text(WHOLE.replace("@dataclasses.dataclass\n", ""), encoding="utf-8")
    exec(compile(WHOLE.replace("@dataclasses.dataclass\n", ""), str(tmp_path / "train.py"), "exec"), held)
    assert not changed(held, held["by_method"], "pass")


def test_a_trace_after_the_change_has_the_new_value(names: dict[str, Any]) -> None:
    frozen = Frozen(lambda file: file.endswith("train.py"))
    for names["rate"] in (0.1, 0.2):
        with frozen.watching():
            names["by_name"](1.0)
        frozen.check()
    assert not frozen.changed


def watched(names: dict[str, Any], source: str, known: set[tuple[str, str]] | None = None) -> int:
    """The line at which what a function keeps has changed; 0 for none, -1 for the end."""
    found: list[int] = []
    frozen = Frozen(lambda file: file.endswith(("train.py", "later.py")))
    frozen.known = known or set()
    with frozen.watching():
        names["by_array"](np.ones(2))
        names["by_name"](1.0)

    def tell() -> None:
        user = sys._getframe(4)
        found.append(user.f_lineno if user.f_code.co_filename == "later.py" else -1)

    class Told(Remade):
        def __setattr__(self, name: str, value: Any) -> None:
            super().__setattr__(name, value)
            if name == "changes" and value and not found:
                tell()

    lines = EachLine(frozen, Told({}, frozen.paused), lambda file: file.endswith("later.py"), lambda: None)
    names["begin"] = lambda: lines.begin(sys._getframe(1))
    before = sys.gettrace()
    try:
        exec(compile(source, "later.py", "exec"), names)
        if not found:
            lines.look()
            found.append(0)
    finally:
        sys.settrace(before)
    return found[0]


def test_a_change_is_seen_at_the_next_line_even_if_it_does_not_last(names: dict[str, Any]) -> None:
    assert watched(names, "begin()\nfor at in range(9):\n  rate = 0.2 if at == 7 else 0.1\n  unused = rate\n  rate = 0.1") == 4
    assert watched(names, "begin()\nfor at in range(9):\n  unused = at\n  rate = 0.1") == 0


def test_a_change_inside_of_a_function_is_seen(names: dict[str, Any]) -> None:
    source = "def once():\n  global rate\n  rate = 3\n  unused = 1\n  rate = 0.1\nbegin()\nonce()"
    assert watched(names, source) == 4
    assert watched(names, source, {("rate", "by_name")}) == 0


def test_of_a_large_array_a_look_sees_some_numbers(names: dict[str, Any]) -> None:
    names["w"] = np.ones((2, 5000))
    assert watched(names, "begin()\nw[:, :2500] = 0.0\nunused = 0") == 3
    names["w"] = np.ones((2, 5000))
    assert watched(names, "begin()\nw[0, 3] = 0.0\nunused = 0") == -1


def test_a_file_that_is_read_in_a_trace_cannot_be_compared(tmp_path: Path) -> None:
    (tmp_path / "rate.txt").write_text("0.1", encoding="utf-8")
    frozen = Frozen(lambda file: file == __file__)
    frozen.on_files()
    (tmp_path / "rate.txt").read_text(encoding="utf-8")
    assert not frozen.opaque
    with frozen.watching():
        (tmp_path / "rate.txt").read_text(encoding="utf-8")
    assert frozen.opaque == {"what it reads in rate.txt": "file"}


def test_chains_of_a_text(names: dict[str, Any]) -> None:
    assert {str(read) for read in reads_of(names["by_helper"].__code__)} == {"lr_of", "cfg", "x"}
    assert {str(read) for read in reads_of(names["Model"].twice.__code__)} == {"x", "self.doubled"}
