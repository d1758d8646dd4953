"""What a step is given, in the frames that run it."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any

from outpace.tune.loop.step import Outline, Step

TEXT = """state = 0
for x, y in [(1, 2)]:
    before()
    loss = x * y
    here()
    state = state + loss
    after()
"""


def step(x: Any, y: Any = 2, *rest: Any, scale: float = 1.0) -> FrameType:
    weights = x, y, rest, scale
    assert weights
    return sys._getframe()


class Model:
    def step(self, x: Any) -> FrameType:
        return sys._getframe()


def test_a_function_is_given_its_arguments_by_place() -> None:
    frame = step(1)
    assert Step("step", step, None).given(frame) == ("x", "y")  # type: ignore[arg-type]  # a plain function
    assert Step("step", Model.step, Model).given(frame) is None  # type: ignore[arg-type]


def test_a_method_is_given_its_object_too() -> None:
    made = Step("step", Model.step, Model)  # type: ignore[arg-type]
    assert made.given(Model().step(1)) == ("self", "x") and made.given(sys._getframe()) is None


def test_statements_are_given_names_while_they_run(tmp_path: Path) -> None:
    file = str(tmp_path / "train.py")
    outline = Outline(file, 4, 6, 3, (), 2, "train_step", ("x", "y", "state"), ("state",), "", step)  # type: ignore[arg-type]
    made, said = Step("train_step", outline.function, None, outline), dict[str, Any]()

    def asked(name: str) -> None:
        said[name] = made.given(sys._getframe(2))

    calls = {name: (lambda name=name: asked(name)) for name in ("before", "here", "after")}
    exec(compile(TEXT, file, "exec"), dict(calls))
    assert said == {"before": None, "here": ("x", "y", "state"), "after": None}
    exec(compile(TEXT, str(tmp_path / "other.py"), "exec"), dict(calls))
    assert said["here"] is None, "the same lines of another file are others"
