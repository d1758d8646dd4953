"""Ops against their own best, on profiles whose every time is known: what input threads take, and
what nobody took.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from outpace.metrics.facts.cpu_saturation import cpu_saturation
from outpace.metrics.savings.best_case import MIN_CONTENTION, best_case_ops, best_case_runs, format_contention
from outpace.testing import SpaceBuilder
from outpace.timeline import Run
from outpace.trace import read_trace

MS = 1_000_000_000
STEP = 10 * MS
Beside = Sequence[tuple[int, int]]  # ms of the op in each step, and ms that an input thread works meanwhile


def run_of(steps: Beside, second: int = 0, pool: int = 0) -> Run:
    """Steps of 10 ms with one op each. `second`: ms that another op of the model runs beside it;
    `pool`: threads that divide it.
    """
    space = SpaceBuilder()
    plane = space.plane("/host:CPU")
    main = plane.line("python")
    for number in range(len(steps)):
        main.event("train", number * STEP, STEP, step_num=number, _r=1)
        main.event("FunctionRun", number * STEP, STEP, _pt=2, _p=number + 1, id=number)
    for thread, (op, own) in enumerate((("a:MatMul", 0), ("b:MatMul", second))):
        line = plane.line(f"tf_Compute/{thread}")
        for number, (length, _) in enumerate(steps):
            if length and (own or not thread):
                spent = (own or length) * MS
                line.event("ExecutorState::Process", number * STEP, spent, id=number, iter_num=0, _ct=2, _c=number + 1)
                line.event(op, number * STEP, spent)
    data = plane.line("tf_data_private_threadpool/1")
    for number, (_, beside) in enumerate(steps):
        if beside:
            data.event("ThreadpoolListener::StartRegion", number * STEP, 0)
            data.event("ThreadpoolListener::StopRegion", number * STEP + beside * MS, 0)
    for thread in range(pool):
        line = plane.line(f"tf_numa_-1_Eigen/{thread}")
        for number, (length, _) in enumerate(steps):
            line.event("ThreadpoolListener::StartRegion", number * STEP, 0)
            line.event("ThreadpoolListener::StopRegion", number * STEP + length * MS, 0)
    return Run.from_traces([read_trace(space.to_bytes(), "vm")])


def share(run: Run, *, gone: float = 1.0, least: bool = False) -> float:
    return best_case_runs(run)["vm"].lost_share(gone, at_least=least)


HALF_DISTURBED = [(2, 0)] * 5 + [(4, 4)] * 5  # 2 ms alone, 4 ms beside input: it takes 1 ms per step of 10


def test_an_op_loses_what_it_takes_beyond_its_best_while_input_works() -> None:
    run = run_of(HALF_DISTURBED)
    (row,) = best_case_ops(run).records()
    assert (row["runs"], row["best_ps"], row["median_ps"]) == (10, 2 * MS, 3 * MS)
    assert row["lost_ps"] == row["taken_ps"] == 1 * MS
    assert row["beside"] == pytest.approx(20 / 30) and row["at_best"] == 0.0
    assert share(run) == share(run, least=True) == pytest.approx(0.1)
    assert format_contention(run, "vm") == "the model's ops take 3.00 ms per step, 2.00 ms at their best"


def test_no_more_than_input_worked_meanwhile() -> None:
    run = run_of([(2, 0)] * 5 + [(6, 1)] * 5)
    (row,) = best_case_ops(run).records()
    assert row["lost_ps"] == 2 * MS and row["taken_ps"] == MS // 2
    assert share(run, gone=0.5) == pytest.approx(0.025)


def test_what_varies_by_itself_is_nobodys_fault() -> None:
    run = run_of([(2, 0)] * 5 + [(6, 0)] * 5)
    assert share(run) == 0.0 and format_contention(run, "vm") == ""


def test_where_all_runs_have_company_the_best_may_be_slow_itself() -> None:
    run = run_of([(4, 3)] * 10)
    assert share(run, least=True) == 0.0 and share(run) == pytest.approx(0.3)
    assert format_contention(run, "vm") == ""


def test_two_ops_of_the_model_that_share_the_cores_lose_nothing() -> None:
    run = run_of([(2, 0)] * 5 + [(4, 0)] * 5, second=4)
    assert share(run) == 0.0


def test_time_that_two_ops_share_is_the_steps_once() -> None:
    alone = share(run_of(HALF_DISTURBED))
    assert 0 < share(run_of(HALF_DISTURBED, second=9)) < alone


def test_one_lucky_run_is_no_best_and_five_runs_are_needed() -> None:
    (row,) = best_case_ops(run_of([(1, 0), *[(2, 0)] * 9])).records()
    assert row["best_ps"] == 2 * MS
    (row,) = best_case_ops(run_of([(1, 0)] * 3 + [(2, 0)] * 27)).records()
    assert row["best_ps"] == 1 * MS  # a tenth of them
    assert len(best_case_ops(run_of([(2, 0)] * 4))) == 0 and len(best_case_ops(run_of([(2, 0)] * 5))) == 1


@pytest.mark.parametrize(("beside", "said"), [(2 * MIN_CONTENTION, True), (0.8 * MIN_CONTENTION, False)])
def test_little_is_not_worth_a_word(beside: float, said: bool) -> None:
    run = run_of([(2, 0)] * 90 + [(4, 4)] * round(100 * beside / 0.2 * 100 / 90))
    assert bool(format_contention(run, "vm")) is said


def test_threads_that_divide_ops_say_how_many_cores_there_are_and_are_busy() -> None:
    run = run_of([(4, 0)] * 10, pool=2)
    assert run.core_count(run.hosts[0]) == 2
    (row,) = cpu_saturation(run).records()
    assert row["busy_cores"] == pytest.approx(3 * 0.4, abs=0.02)  # the op's own thread waits or works: a profile does not tell
    single = run_of([(4, 0)] * 10, pool=1)
    assert single.core_count(single.hosts[0]) is None  # one thread does not tell


def test_tasks_of_input_threads_count_as_work_of_theirs() -> None:
    (row,) = cpu_saturation(run_of(HALF_DISTURBED, pool=2)).records()
    assert row["input_ps"] == 2 * MS
