"""What tables of races and tunings say of columns: keys name rows, additive ones add up."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from outpace.model import Page, Table, Unit
from outpace.tune.climb.lines import lines_of
from outpace.tune.climb.outcome import Tried
from outpace.tune.optimisations.advice import advice_on
from outpace.tune.pages import race, tuning
from outpace.tune.searched import Searched
from outpace.tune.texts.place import Place
from tests.contract.test_keys_and_sums import doubled
from tests.unit.tune.simulated import simulate
from tests.unit.tune.test_advice import IMAGES
from tests.unit.tune.test_climb_lines import HEAD, LOAD, PRINT, STEP, TEXT, loop, samples
from tests.unit.tune.test_tune_next import CACHE, MAP, PLAN, WORKERS, climbed

TRIED = (
    Tried("threads", "Threads: 4", "slower", "10.0% slower.", "many threads", (0.9, 0.88, 0.92)),
    Tried("threads", "Threads: 1", "faster", "1.20 times.", "many threads", (1.2, 1.1, 1.3)),
)


SEVERAL = Tried("loop_several", "several steps per call", "not applicable", "it is for the same")
CALLS = Tried("loop_calls", "several steps per call", "faster", "", "", (1.2, 1.1, 1.3))


def tables(folder: Path) -> dict[str, Table]:
    """One of each kind, by its name."""
    run, again = simulate(1, 1.0, 1.3), simulate(2, 1.0, 1.3)
    (folder / "train.py").write_text(TEXT, encoding="utf-8")
    script = str(folder / "train.py")
    lines = lines_of(samples(script, (STEP, 30), (LOAD, 50), (PRINT, 5), (HEAD, 5)), loop(script))
    advice = tuning.advice_section(advice_on(IMAGES))
    assert lines is not None and advice is not None
    pages: list[Page] = [
        race.page_of(run),
        race.replay_page_of(run, again),
        *tuning.report_of(PLAN, Searched(climbed(MAP, CACHE, WORKERS, SEVERAL, CALLS), None, (), Place(), 1), None).pages,
    ]
    return {table.name: table for table in (*(each for page in pages for each in page.tables()), lines, advice.table)}


def test_keys_name_rows_and_sums_are_sums(tmp_path: Path) -> None:
    found = tables(tmp_path)
    assert {"race", "race_variants", "replay", "tried", "lines", "advice"} <= found.keys()
    for name, table in found.items():
        assert table.key and len(table) > 1 and not doubled(table), name
        for spec in table.fields:
            values = [row[spec.name] for row in table.records()]
            assert not (spec.additive and (spec.key or spec.unit in (Unit.TEXT, Unit.RATIO))), (name, spec.name)
            assert not spec.additive or math.isfinite(math.fsum(values)), (name, spec.name)
    shares = [row["share"] for row in found["lines"].records()]
    assert found["lines"].field("share").additive and math.fsum(shares) == pytest.approx(1)
    blocks = sum(row["blocks"] for row in found["race_variants"].records())
    run = simulate(1, 1.0, 1.3)
    assert found["race_variants"].field("blocks").additive and blocks == len(run.samples)
