"""How data sets are followed: through statements, functions, branches, loops and objects."""

from __future__ import annotations

import pytest

from outpace.lint.dataset_analysis import DatasetAnalysis
from outpace.lint.functions import FunctionResolver
from outpace.lint.source import SourceFile
from tests.unit.lint.test_lint_pipeline import found, rules, warnings


def pipelines(text: str) -> list[str]:
    """Each pipeline that nothing continues, as its operations from the source on."""
    source = SourceFile("import tensorflow as tf\nD = tf.data.Dataset\n" + text)
    ends = DatasetAnalysis(source, FunctionResolver(source)).final_stages
    return sorted(" ".join(stage.op for stage in reversed(list(end.iter_chain()))) for end in ends)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = D.range(9)\na = a.map(f)\nb = a.batch(2)", ["range map batch"]),
        ("a = D.range(9).map(f)\nb = a.batch(2)\nc = a.take(1)", ["range map batch", "range map take"]),
        ("a, b = D.range(1), D.range(2).map(f)\nb = b.batch(3)", ["range", "range map batch"]),
        ("def make(n):\n    ds = D.range(n)\n    return ds.map(f)\nx = make(3).batch(2)", ["range map batch"]),
        ("def add(ds, n):\n    return ds.batch(n)\nx = add(D.range(9), n=2)\ny = add(D.range(9).map(f), 3)",
         ["range batch", "range map batch"]),
        ("def two():\n    return D.range(1), D.range(2).map(f)\na, b = two()\nb = b.batch(2)", ["range", "range map batch"]),
        ("a = D.range(9)\nfor g in functions:\n    a = a.map(g)\na = a.batch(2)", ["range map batch"]),
        ("a = D.range(9)\nif big:\n    a = a.map(f)\na = a.batch(2)", ["range batch", "range map batch"]),
        ("a = D.range(9)\nif big:\n    a = a.map(f)\nif not big:\n    a = a.cache()\na = a.batch(2)",
         ["range cache batch", "range map batch"]),
        ("def make(train):\n    a = D.range(9)\n    if train:\n        return a.map(f)\n    return a.cache()\nmake(True)", ["range map"]),
        ("def make(train=True):\n    a = D.range(9)\n    if train:\n        a = a.map(f)\n    return a\nmake()", ["range map"]),
        ("def make(mode):\n    a = D.range(9)\n    if mode == 'train':\n        a = a.map(f)\n    return a\nmake('test')", ["range"]),
        ("a = D.range(9)\na = a.map(f) if big else a\na = a.batch(2)", ["range batch", "range map batch"]),
        ("class Data:\n    def __init__(self):\n        self.ds = D.range(9)\n    def batches(self):\n        return self.ds.batch(2)\n"
         "x = Data().batches().map(f)", ["range batch map"]),
        ("if __name__ == '__main__':\n    D.range(9).batch(2)", ["range batch"]),
        ("def main():\n    D.range(9).batch(2)", ["range batch"]),  # called from elsewhere
        ("a = D.zip((D.range(1).map(f), D.range(2))).batch(2)", ["zip map range batch".replace("zip map range", "range map zip")]),
        ("def add(ds):\n    return ds.map(f)\na = D.range(9).apply(add).batch(2)", ["range map batch"]),
        ("with open(x) as file:\n    a = D.range(9)\ntry:\n    a = a.map(f)\nexcept ValueError:\n    pass\na = a.batch(2)",
         ["range map batch"]),
        ("def again(ds):\n    return again(ds.map(f))\nagain(D.range(9))", ["range map"]),
        ("def use(ds):\n    ds = ds.map(f)\n    return ds.batch(2).prefetch(1)", ["unknown map batch prefetch"]),
        ("def use(ds: tf.data.Dataset):\n    return ds.map(f)", ["unknown map"]),
        ("def use(ds):\n    return ds.map(f)", []),  # may be anything
    ],
)  # fmt: skip
def test_chains(text: str, expected: list[str]) -> None:
    assert pipelines(text) == expected


def test_branches_that_exclude_each_other_are_no_pipeline() -> None:
    body = """
    def make(training):
        ds = paths
        if training:
            ds = ds.map(augment, 2)
        if not training:
            ds = ds.cache()
        return ds
    """
    assert not rules(body)


def test_two_independent_tests_make_a_note() -> None:
    body = """
    def make(training, keep):
        ds = paths
        if training:
            ds = ds.map(augment, 2)
        if keep:
            ds = ds.cache()
        return ds
    """
    assert [item[1:] for item in found(body)] == [("DS105", "note")]
    assert warnings(body + "\n    make(True, True)") == {"DS105"}
    assert not warnings(body + "\n    make(False, True)")


def test_a_pipeline_of_several_statements_and_functions_is_one() -> None:
    body = """
    def load(files):
        return tf.data.Dataset.from_tensor_slices(files).map(decode, 2)
    def batches(ds, size=32):
        ds = ds.batch(size)
        return ds.prefetch(tf.data.AUTOTUNE)
    train = load(files)
    train = train.shuffle(100)
    model.fit(batches(train))
    """
    assert found(body) == [(8, "DS108", "warning")]


def test_very_many_branches_are_followed_in_bounded_time() -> None:
    text = "import tensorflow as tf\nds = tf.data.Dataset.range(9)\n"
    text += "".join(f"if a{i}:\n    ds = ds.map(f{i})\nelse:\n    ds = ds.filter(g{i})\n" for i in range(60))
    source = SourceFile(text)
    assert len(DatasetAnalysis(source, FunctionResolver(source)).stages) < 60 * 2 * 16 + 2
