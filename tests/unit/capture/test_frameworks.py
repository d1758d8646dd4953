"""Which framework trains here, told from the modules that the script has imported."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from outpace.capture.frameworks import framework_in_use, keras_backend, keras_framework, uses_cuda_graphs

TENSORFLOW = SimpleNamespace(profiler=SimpleNamespace(experimental=SimpleNamespace()))
JAX = SimpleNamespace(profiler=SimpleNamespace(start_trace=print))


def keras(backend: str) -> SimpleNamespace:
    return SimpleNamespace(backend=SimpleNamespace(backend=lambda: backend))


@pytest.fixture
def imported(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in ("tensorflow", "jax", "keras", "jax._src.xla_bridge"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return monkeypatch


@pytest.mark.parametrize(
    ("modules", "framework"),
    [
        ({}, None),
        ({"tensorflow": TENSORFLOW}, "tensorflow"),
        ({"jax": JAX}, "jax"),
        ({"tensorflow": TENSORFLOW, "jax": JAX}, "tensorflow"),
        ({"tensorflow": TENSORFLOW, "jax": JAX, "jax._src.xla_bridge": SimpleNamespace(_backends={})}, "tensorflow"),
        ({"tensorflow": TENSORFLOW, "jax": JAX, "jax._src.xla_bridge": SimpleNamespace(_backends={"cpu": 1})}, "jax"),
        ({"tensorflow": TENSORFLOW, "jax": JAX, "keras": keras("jax")}, "jax"),
        ({"tensorflow": TENSORFLOW, "jax": JAX, "keras": keras("tensorflow")}, "tensorflow"),
        (
            {"tensorflow": SimpleNamespace(profiler=SimpleNamespace()), "jax": JAX},
            "jax",
        ),  # another thread is still importing it
        ({"jax": SimpleNamespace()}, None),
    ],
)
def test_the_framework_that_trains(imported: pytest.MonkeyPatch, modules: dict[str, object], framework: str | None) -> None:
    for name, module in modules.items():
        imported.setitem(sys.modules, name, module)
    assert framework_in_use() == framework


@pytest.mark.parametrize(("backend", "framework"), [("jax", "jax"), ("tensorflow", "tensorflow"), ("torch", "tensorflow")])
def test_the_framework_below_keras(imported: pytest.MonkeyPatch, backend: str, framework: str) -> None:
    imported.setitem(sys.modules, "keras", keras(backend))
    assert (keras_backend(), keras_framework()) == (backend, framework)


def test_a_keras_without_backends_runs_on_tensorflow(imported: pytest.MonkeyPatch) -> None:
    assert keras_backend() == "tensorflow"
    imported.setitem(sys.modules, "keras", SimpleNamespace(backend=SimpleNamespace()))
    assert keras_framework() == "tensorflow"


@pytest.mark.parametrize(
    ("backends", "flags", "launches"),
    [
        ({"cuda": object()}, "", True),
        ({"cuda": object()}, "--xla_gpu_enable_command_buffer=FUSION --xla_x=1", True),
        ({"cuda": object()}, "--xla_x=1 --xla_gpu_enable_command_buffer=", False),
        ({"cuda": object()}, "--xla_gpu_enable_command_buffer='' --xla_x=1", False),
        ({"cpu": object()}, "", False),
        ({}, "", False),
    ],
)
def test_whether_cuda_graphs_are_launched(
    backends: dict[str, object], flags: str, launches: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jax._src.xla_bridge", SimpleNamespace(_backends=backends))
    monkeypatch.setenv("XLA_FLAGS", flags)
    assert uses_cuda_graphs() is launches
