"""Rules about what happens while a function is traced."""

from __future__ import annotations

import pytest

from tests.unit.lint.test_lint_pipeline import found

HEAD = "import tensorflow as tf\nimport numpy as np\nimport random, time\nresults = []\n"


def function(*lines: str) -> str:
    return "@tf.function\ndef f(x):\n" + "".join(f"    {line}\n" for line in lines)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (function("print(x)"), [("TF201", "warning")]),
        (function("print('here')"), [("TF201", "note")]),
        (function("print('Tracing with', x)"), []),
        (function("print('shape', x.shape)"), [("TF201", "note")]),
        (function("print(tf.shape(x))"), [("TF201", "warning")]),
        (function("tf.print(x)"), []),
        (function("def inner():", "    print(x)"), [("TF201", "warning")]),
        (function("results.append(x)"), [("TF202", "warning")]),
        (function("self.results.append(x)"), [("TF202", "warning")]),
        (function("parts = []", "for i in range(3):", "    parts.append(x)", "return tf.stack(parts)"), []),
        (function("def inner(parts):", "    parts.append(x)"), []),
        (function("parts = []", "def inner():", "    parts.append(x)"), []),
        (function("return x + np.random.rand()"), [("TF203", "warning")]),
        (function("return x + random.random()"), [("TF203", "warning")]),
        (function("start = time.time()"), [("TF203", "warning")]),
        (function("return x + np.array([1.0]) + np.sqrt(2)"), []),
        (function("np.random.seed(1)"), []),
        (function("random = tf.random.uniform([])", "return random.random()"), []),
        (function("v = tf.Variable(1.0)"), [("TF204", "warning")]),
        (function("if self.v is None:", "    self.v = tf.Variable(1.0)"), []),
        (function("with tf.init_scope():", "    v = tf.Variable(1.0)"), []),
        ("def f(x):\n    print(x)\n    results.append(np.random.rand())\n    v = tf.Variable(1.0)", []),  # not traced
        ("def g(x):\n    print(x)\n@tf.function\ndef f(x):\n    return tf.py_function(g, [x], x.dtype)", [("DS107", "note")]),
        ("def g(x):\n    return x + np.random.rand()\nds = tf.data.Dataset.range(9).map(g, 2)", [("TF203", "warning")]),
        ("def g(x):\n    print(x)\nfast = tf.function(g)", [("TF201", "warning")]),
    ],
)
def test_python_while_tracing(body: str, expected: list[tuple[str, str]]) -> None:
    assert [item[1:] for item in found(body, HEAD)] == expected


STEP = "@tf.function\ndef f(x, i=0):\n    return x + i\n"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (STEP + "for i in range(100):\n    f(x, i)", [("TF205", "warning")]),
        (STEP + "for i in range(n):\n    f(x, i=i)", [("TF205", "warning")]),
        (STEP + "for i, x in enumerate(ds):\n    f(x, i)", [("TF205", "warning")]),
        (STEP + "i = 0\nwhile True:\n    f(x, i)\n    i += 1", [("TF205", "warning")]),
        (STEP + "for e in range(n):\n    for x in ds:\n        f(x, e)", [("TF205", "warning")]),
        (
            STEP.replace("tf.function", "tf.function(reduce_retracing=True)") + "for i in range(9):\n    f(x, i)",
            [("TF205", "warning")],
        ),
        (STEP + "for i in range(3):\n    f(x, i)", [("TF205", "note")]),
        (STEP + "for x in ds:\n    f(x, 0.1)", []),  # a constant is traced once
        (STEP + "lr = 0.1\nfor x in ds:\n    f(x, lr)", []),
        (STEP + "for i in range(100):\n    f(x, tf.constant(i))", []),
        (STEP + "for i in tf.range(100):\n    f(x, i)", []),
        (STEP + "for i in range(100):\n    i = tf.constant(i)\n    f(x, i)", []),
        (STEP.replace("tf.function", "tf.function(input_signature=s)") + "for i in range(9):\n    f(x, i)", []),
        (STEP + "for i in range(100):\n    print(i)\nf(x, 1)", []),
        (STEP.replace("@tf.function\n", "") + "for i in range(100):\n    f(x, i)", []),
        ("for x in ds:\n    g = tf.function(step)\n    g(x)", [("TF206", "warning")]),
        ("for x in ds:\n    tf.function(lambda a: a + 1)(x)", [("TF206", "warning")]),
        ("for x in tf.data.Dataset.range(9):\n    @tf.function\n    def g(a): return a\n    g(x)", [("TF206", "warning")]),
        ("for model in models:\n    step = tf.function(model.step)\n    step(x)", []),
        ("for fold in range(5):\n    @tf.function\n    def g(a): return a\n    g(x)", []),
        ("for fold in range(5):\n    def g(a): return a\n    g = tf.function(g)", []),
        ("g = tf.function(step)\nfor x in ds:\n    g(x)", []),
    ],
)
def test_retracing(body: str, expected: list[tuple[str, str]]) -> None:
    assert [item[1:] for item in found(body, HEAD)] == expected
