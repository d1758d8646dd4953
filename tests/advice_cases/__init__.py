"""For every rule of the advice: cases in which it speaks, with what it must say, and near ones in
which it stays silent.
"""

from __future__ import annotations

from collections import defaultdict

from tests.advice_cases import (
    functions,
    inference,
    input_pipeline,
    kernel_stats,
    memory_profile,
    model_time,
    op_stats,
    overview,
    pod,
    program_memory,
    python_time,
    startup_time,
    tf_data,
)
from tests.advice_cases.case import Case

TOOLS: dict[str, list[Case]] = {
    module.__name__.rpartition(".")[2]: module.CASES
    for module in (
        functions,
        inference,
        input_pipeline,
        kernel_stats,
        memory_profile,
        model_time,
        op_stats,
        overview,
        pod,
        program_memory,
        python_time,
        startup_time,
        tf_data,
    )
}
"""Cases by the tool whose rules they are about."""


def _by_rule() -> dict[str, list[Case]]:
    found: dict[str, list[Case]] = defaultdict(list)
    for cases in TOOLS.values():
        for case in cases:
            found[case.rule].append(case)
    return dict(found)


CASES: dict[str, list[Case]] = _by_rule()
