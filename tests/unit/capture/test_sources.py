"""Which lines ops and layers come from, on graphs that look like TensorFlow's."""

from __future__ import annotations

import os
import sysconfig
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from outpace.capture import sources
from outpace.capture.sources import SourceRecorder
from outpace.store.record import OpSources

TENSORFLOW = os.path.join(sysconfig.get_path("purelib"), "tensorflow/python/ops/math_ops.py")
KERAS = os.path.join(sysconfig.get_path("purelib"), "keras/src/layers/layer.py")
METRICS = os.path.join(sysconfig.get_path("purelib"), "keras/src/metrics/metric.py")
USER = "/w/train.py"


@dataclass(eq=False)
class Op:
    name: str
    type: str
    stack: list[tuple[str, int]]
    inputs: list[Any] = field(default_factory=list)

    @property
    def traceback(self) -> list[SimpleNamespace]:
        return [SimpleNamespace(filename=file, lineno=line, name="f") for file, line in self.stack]


@dataclass(eq=False)
class Graph:
    ops: list[Op]
    _functions: dict[str, Any] = field(default_factory=dict)

    def get_operations(self) -> list[Op]:
        return self.ops


def after(op: Op) -> SimpleNamespace:
    return SimpleNamespace(op=op)


def noted(graph: Any) -> OpSources:
    recorder = SourceRecorder()
    recorder.add_graph(SimpleNamespace(name=b"__inference_step_1", graph=graph))
    return recorder.build_sources()[0]


def user(line: int) -> list[tuple[str, int]]:
    return [(USER, 1), (USER, line), (TENSORFLOW, 5)]


def test_an_op_comes_from_the_innermost_line_of_the_user() -> None:
    found = noted(Graph([Op("x", "Placeholder", user(2)), Op("matmul", "MatMul", user(3)), Op("Relu", "Relu", user(3))]))
    assert found.lines == ((USER, 3, ""),)
    assert found.by_function == {"__inference_step_1": {"matmul": 0, "Relu": 0}}


def test_a_gradient_without_a_scope_belongs_to_the_op_whose_output_it_takes() -> None:
    relu, other = Op("Relu", "Relu", user(3)), Op("mul", "Mul", user(4))
    grad = Op("gradient_tape/ReluGrad", "ReluGrad", user(9), [after(other), after(relu)])
    scoped = Op("gradient_tape/matmul/MatMul", "MatMul", user(9))
    alone = Op("gradient_tape/Tile", "Tile", user(9))
    found = noted(Graph([relu, other, grad, scoped, alone]))
    (ops,) = found.by_function.values()
    lines = {name: found.lines[line][1] for name, line in ops.items()}
    assert lines == {"Relu": 3, "mul": 4, "gradient_tape/ReluGrad": 3, "gradient_tape/Tile": 9}


def test_the_bodies_of_loops_count_for_the_function_around_them() -> None:
    body = Graph([Op("while/Tanh", "Tanh", user(7))])
    outer = Graph([Op("while", "While", user(6))], {"body": SimpleNamespace(graph=body), "again": SimpleNamespace(graph=body)})
    recorder = SourceRecorder()
    for name, graph in (("body_2", body), ("__inference_step_1", outer)):
        recorder.add_graph(SimpleNamespace(name=name, graph=graph))
    assert list(recorder.build_sources()[0].by_function) == ["__inference_step_1"]
    assert set(recorder.build_sources()[0].by_function["__inference_step_1"]) == {"while", "while/Tanh"}


def test_a_line_that_only_calls_a_layer_or_fit_says_nothing() -> None:
    assert noted(Graph([Op("net/dense/MatMul", "MatMul", [(USER, 8), (KERAS, 900), (TENSORFLOW, 5)])])).lines == ()


def test_much_is_bounded_and_damage_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "_MAX_OPS", 5)
    graph = Graph([Op(f"op_{i}", "Mul", user(i)) for i in range(20)])
    assert len(noted(graph).by_function["__inference_step_1"]) == 5
    assert noted(SimpleGraph()) == OpSources()


class SimpleGraph:
    """Nothing like a graph."""


def test_callbacks_of_keras_are_noted_where_the_script_makes_them() -> None:
    class Callback:
        def __init__(self, path: str = "") -> None:
            self.path = path

    saver = type("Saver", (Callback,), {"__module__": "keras.src.callbacks.saver"})
    mine = type("Mine", (Callback,), {})
    recorder = SourceRecorder()
    recorder.install_callbacks(Callback)
    assert saver("w").path == "w" and mine("x").path == "x", "made as before"
    saver("again")
    (noted,) = recorder.callbacks.items()
    assert noted[0] == "Saver"
    assert noted[1][0] == __file__ and 'saver("w")' in noted[1][2]


def test_ops_of_a_metric_of_keras_belong_to_the_line_that_made_it() -> None:
    names: dict[str, Any] = {}
    exec(compile("def update_state(self):\n    pass\n    pass\n", METRICS, "exec"), names)
    metric = type("Metric", (), {"update_state": names["update_state"], "__module__": "keras.src.metrics"})
    recorder = SourceRecorder()
    sources._hook_new(metric, recorder._add_metric)
    metric()
    trainer = KERAS.replace("layers/layer.py", "backend/tensorflow/trainer.py")
    updates = [(USER, 50), (trainer, 5), (METRICS, 3), (TENSORFLOW, 5)]
    another = [(USER, 50), (trainer, 5), (METRICS, 9), (TENSORFLOW, 5)]
    graph = Graph([Op("Sum", "Sum", updates), Op("Mul", "Mul", another)])
    recorder.add_graph(SimpleNamespace(name=b"f", graph=graph))
    found = recorder.build_sources()[0]
    assert found.by_function == {"f": {"Sum": 0}}
    assert found.lines[0][0] == __file__ and found.lines[0][2] == "metric()"


def test_layers_are_noted_by_name_where_programs_name_ops_after_them() -> None:
    class Layer:
        name = "noise_1"

        def call(self) -> None:
            pass

    noise = type("Layer", (Layer,), {"__module__": "keras.src.layers"})
    recorder = SourceRecorder()
    recorder.install_layers(SimpleNamespace(layers=SimpleNamespace(Layer=noise)))  # type: ignore[arg-type]
    kept = noise()
    layers = recorder.build_sources()[1]
    assert set(layers) == {kept.name}
    assert (layers["noise_1"].kind, layers["noise_1"].text) == ("layer", "kept = noise()")
