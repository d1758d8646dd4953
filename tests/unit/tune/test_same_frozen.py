"""What functions that are traced have read."""

from __future__ import annotations

import argparse
import contextvars
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from outpace.tune.same.changes import TraceRead
from outpace.tune.same.frozen import Frozen
from outpace.tune.same.reads import reads_of

SCRIPT = """
import dataclasses, os, time
rate, cfg, level, w = 0.1, Namespace(lr=0.1, other=1), [0.0], np.ones(2)
current = ContextVar("current", default=0)
class Model:
    def __init__(self): self.lr, self.seen = 0.1, 0
    @property
    def doubled(self): return self.lr * 2
    def step(self, x): return x * self.lr
    def twice(self, x): return x * self.doubled
@dataclasses.dataclass
class Push:
    factor: float = 1.0
    def step(self, x): return x * dataclasses.astuple(self)[0]
    def named(self, x): return x * vars(self)["factor"]
    def other(self, x): return x * read(self)
def read(push): return push.factor
def outer():
    scale = 1.0
    def scaled(x): return x * scale
    return scaled
scaled, model, push = outer(), Model(), Push()
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
def by_property(x): return model.step(x) if x is not None else model.unready.step(push)
"""


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    module = ModuleType("train")
    module.__file__ = str(tmp_path / "train.py")
    monkeypatch.setitem(sys.modules, "train", module)
    held = vars(module)
    held |= {"Namespace": argparse.Namespace, "np": np, "ContextVar": contextvars.ContextVar}
    (tmp_path / "train.py").write_text(SCRIPT, encoding="utf-8")
    exec(compile(SCRIPT, module.__file__, "exec"), held)
    return held


def watched(names: dict[str, Any], called: str) -> Frozen:
    """After a function was traced."""
    frozen = Frozen(lambda file: file.endswith("train.py"))
    root, _, method = called.partition(".")
    function = getattr(names[root], method) if method else names[root]
    with frozen.watching():
        function(np.ones(2))
    return frozen


@pytest.mark.parametrize(
    ("function", "reads"),
    [
        ("by_name", {"rate"}),
        ("by_attribute", {"cfg.lr"}),
        ("by_item", {"level[0]"}),
        ("by_helper", {"c.lr"}),
        ("by_alias", {"cfg"}),
        ("by_array", {"w"}),
        ("by_context", {"current.get"}),
        ("scaled", {"scale"}),
        ("shadowed", set()),
        ("model.step", {"self.lr"}),
        ("model.twice", {"self.lr"}),
        ("push.step", set()),
        ("push.other", {"push.factor"}),
    ],
)
def test_what_was_read(names: dict[str, Any], function: str, reads: set[str]) -> None:
    assert {each.read for each in watched(names, function).traces} == reads


def test_in_how_many_traces_something_was_read(names: dict[str, Any]) -> None:
    frozen = Frozen(lambda file: file.endswith("train.py"))
    for _ in range(3):
        with frozen.watching():
            names["by_name"](1.0), names["by_name"](1.0)
    assert frozen.traces == {TraceRead("rate", "by_name", "rate"): 3}


def test_a_property_that_a_text_calls_is_not_asked(names: dict[str, Any]) -> None:
    type(names["model"]).unready = property(lambda self: 1 / 0)
    assert "self.lr" in {each.read for each in watched(names, "by_property").traces}


def test_chains_of_a_text(names: dict[str, Any]) -> None:
    assert {str(read) for read in reads_of(names["by_helper"].__code__)} == {"lr_of", "cfg", "x"}
    assert {str(read) for read in reads_of(names["Model"].twice.__code__)} == {"x", "self.doubled"}
