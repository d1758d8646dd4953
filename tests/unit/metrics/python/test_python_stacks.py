"""All calls on the samples' stacks, as a tree."""

import pytest

from outpace.metrics.views.python_stacks import _names, python_stacks
from outpace.testing import training_run
from outpace.timeline import Run
from outpace.trace import read_trace
from tests.unit.metrics.python.test_python_time import BARE, FIT, FRAMES, NOTE, OURS, SORT, run_of, times_of


def test_samples_add_up_along_their_stacks() -> None:
    _, free, busy = times_of(run_of([(1.0, FIT)]))
    tree = python_stacks(run_of([(free, NOTE), (free, SORT), (free, SORT), (busy, FIT), (busy, OURS), (busy, BARE)]))
    rows = {row["name"]: row for row in tree.records()}
    assert {name: (row["occurrences"], round(row["fraction"], 3)) for name, row in rows.items()} == {
        "train.py:50 <module>": (5, 0.833),
        "keras: fit": (5, 0.833),
        "train.py:31 Noter.on_batch_end": (1, 0.167),
        "train.py:32 Noter.on_batch_end": (2, 0.333),
        "numpy: sort": (2, 0.333),
        "outpace: the capture itself": (1, 0.167),
        "python: run": (1, 0.167),
    }
    assert sum(row["self_ps"] for row in tree.records()) == pytest.approx(10_000_000_000), "the step"
    assert rows["numpy: sort"]["parent"] == rows["train.py:32 Noter.on_batch_end"]["id"]


def test_a_stack_begins_where_the_program_does() -> None:
    frames = [*FRAMES, ("/lib/runpy.py", "run_path", 1, "python")]
    start, program, fit, wrapper, note = (len(FRAMES), 1), (0, 50), (1, 11), (4, 8), (2, 31)
    assert _names([start, wrapper, program, fit, wrapper, fit, note], frames) == (
        "train.py:50 <module>",
        "keras: fit",
        "train.py:31 Noter.on_batch_end",
    )
    assert _names([start, wrapper, program, wrapper], frames) == ("train.py:50 <module>", "outpace: the capture itself")
    assert _names([start], frames) == ("python: run_path",)


def test_samples_beside_the_steps_are_no_part_of_it() -> None:
    assert len(python_stacks(run_of([(-3.0, FIT)]))) == 0


def test_a_profile_without_samples_has_no_tree() -> None:
    assert len(python_stacks(Run.from_traces([read_trace(training_run().to_bytes(), "vm")]))) == 0
