"""What makes an op odd inside a model's step."""

from __future__ import annotations

import pytest

from outpace.metrics.views.misplaced_ops import PYTHON, RANDOM, misplaced_op_kind


@pytest.mark.parametrize(
    ("name", "op_type", "kind"),
    [
        ("jit(step)/jit(main)/pure_callback", "custom-call", PYTHON),
        ("jit(step)/io_callback", "custom-call", PYTHON),
        ("jit(step)/callbacks/dot_general", "dot", None),
        ("jit(step)/triangular_solve", "custom-call", None),
        ("jit(step)/jit(_uniform)/threefry2x32", "fusion", RANDOM),
        ("model/PyFunc", "EagerPyFunc", PYTHON),
    ],
)
def test_an_op_is_odd_by_its_type_or_of_compiled_programs_by_its_name(name: str, op_type: str, kind: str | None) -> None:
    assert misplaced_op_kind("", name, op_type) == kind
