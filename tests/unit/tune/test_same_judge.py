"""What is said of runs of two texts, by what they left behind."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from outpace.tune.same.judge import COMPUTED, LATER, ONE_STEP, SPREADS, judge, judge_equal
from outpace.tune.same.judgement import Judgement, Standing
from outpace.tune.same.passes import END
from outpace.tune.same.record import CUT_SHORT, Record
from outpace.tune.same.state import BEYOND, State

PASSES = (1, 2, 4, 8)


def state(values: Mapping[str, Any]) -> State:
    read = {path: each if isinstance(each, str) else np.asarray(each) for path, each in values.items()}
    return State(read, {}, {})


def trained(passes: int, off: float = 0.0) -> Any:
    """Weights that training changes."""
    return np.linspace(1.0, 2.0, 4) * (1 + 0.1 * passes) * (1 + off)


def record(
    off: float = 0.0, *, printed: tuple[str, ...] = (), ended: str = "", passes: int = 8, ends: bool = True, **names: Any
) -> Record:
    """A run of eight passes whose weights are off by so much in relation; names: further values at
    each mark, by name in `main`; a function of the pass, or one value.
    """
    marks = {}
    for at in (*PASSES, *([END] if ends else [])):
        more = {f"main:{name}": each(at) if callable(each) else each for name, each in names.items() if each is not ABSENT}
        marks["0", 1, at] = state({"main:w": trained(8 if at == END else at, off), **more})
    return Record(marks, {"0": passes}, printed, ended)


ABSENT = object()
DIFFERS = "chance or rounding makes it"
NUDGED = 1e-7


def judged(edited: Record, dead: frozenset[str] = frozenset(), **originals: Any) -> Judgement:
    return judge([record(**originals), record(NUDGED, **originals)], edited, dead)


def test_equal_runs_are_the_same_program() -> None:
    found = judged(record())
    assert found.same is True and found.passes == 8 and found.compared == 5 and not found.faults
    assert found.sentence == "compared to step 8, 5 values"


def test_rounding_is_the_same_program() -> None:
    assert judged(record(SPREADS * NUDGED)).same is True
    assert judged(record(ONE_STEP / 4)).same is True


@pytest.mark.parametrize("off", [4 * ONE_STEP, 1e-3, 0.5, float("nan")])
def test_more_than_rounding_is_another_program(off: float) -> None:
    found = judged(record(off))
    assert found.same is False and "main:w is off by" in found.why and found.faults
    assert found.sentence == found.why


def test_a_spread_of_the_original_widens_what_may_differ() -> None:
    """Chaos grows what one rounding does; an edit rounds too."""
    wide = [record(), record(1e-3)]
    off = record(4 * (LATER + SPREADS * NUDGED))
    assert judged(off).same is False and judge(wide, off).same is True


@pytest.mark.parametrize(("off", "same"), [(COMPUTED / 2, True), (2 * COMPUTED, False)])
def test_of_what_training_changed_a_number_of_python_may_be_narrower(off: float, same: bool) -> None:
    """Adam's `1 - 0.9 ** t` in float32, of a bias that began with 0, a momentum that passes 0."""

    def bias(off: float) -> dict[str, Any]:
        moved = {1: 1e-3, 2: 2e-3, 4: 1e-3, 8: 1e-4, END: 1e-4}
        return {"b": lambda at: np.full(3, moved[at] + (1e-3 * off if at == 8 else 0.0))}

    assert judged(record(**bias(off)), **bias(0.0)).same is same


def test_a_spread_that_hides_everything_proves_nothing() -> None:
    found = judge([record(), record(0.5)], record(0.3))
    assert found.same is None and "With one rounding more the script as it is differs as well" in found.why


def test_values_that_two_originals_do_not_agree_on_are_left_out() -> None:
    def run(time: float, off: float = 0.0) -> Record:
        return record(off, clock=time, address=f"<object at {time}>")

    found = judge([run(1.0), run(3.0, NUDGED)], run(4.0))
    assert found.same is True and found.compared == 5


@pytest.mark.parametrize(
    ("original", "edited", "why"),
    [
        ("train", "eval", "main:x train is eval"),
        (lambda at: at, lambda at: at + 1, "main:x is off by 1"),
        (np.zeros(4), np.zeros(5), "main:x has another shape or type"),
        (np.zeros(4), "text", "main:x has another shape or type"),
        (np.array([1, 2]), np.array([1, 3]), ""),
        (False, True, ""),
        (np.array([np.nan, 2.0]), np.array([2.0, np.nan]), ""),
        (np.int64(5), np.int32(5), ""),
        (np.ones(3, np.float32), np.ones(3, np.float16), ""),
    ],
)
def test_other_values_are_another_program(original: Any, edited: Any, why: str) -> None:
    found = judged(record(x=edited), x=original)
    assert found.same is False and why in found.why


@pytest.mark.parametrize(
    ("original", "edited"),
    [
        (np.array([1, 2]), np.array([1, 2])),
        (np.array([np.nan, 1.0]), np.array([np.nan, 1.0])),
        (np.float64(0.5), np.float32(0.5)),  # one number of a loss may be read later
    ],
)
def test_equal_values_are_the_same_program(original: Any, edited: Any) -> None:
    assert judged(record(x=edited), x=original).same is True


@pytest.mark.parametrize(
    ("size", "others", "by", "same"),
    [(2000, 2, 7, True), (2000, 3, 7, False), (900, 1, 7, False), (2000, 40, 1, True), (2000, 41, 1, False), (40, 1, 1, False)],
)
def test_of_many_whole_numbers_a_few_may_have_turned_over(size: int, others: int, by: int, same: bool) -> None:
    pixels = np.arange(size, dtype=np.uint8)
    edited = pixels.copy()
    edited[:others] += by
    assert judged(record(pixels=edited), pixels=pixels).same is same


def test_a_name_that_is_missing_is_not_proven_unless_nobody_reads_it() -> None:
    found = judged(record(loss=ABSENT), loss=1.0)
    assert found.same is None and "main:loss is not there" in found.why and found.faults == ("main:loss",)
    assert judged(record(loss=ABSENT), frozenset({"loss"}), loss=1.0).same is True
    assert judged(record(loss=ABSENT), frozenset({"los"}), loss=1.0).same is None
    assert judged(record(loss=ABSENT), frozenset({"loss"}), loss="text").same is True


def test_names_of_the_script_itself_may_be_left_out_too() -> None:
    def run(off: float = 0.0, missing: bool = False) -> Record:
        more = {} if missing else {"__main__.grads['a:b'][0]": np.ones(3)}
        marks = {("0", 1, at): state({"__main__.w": trained(at, off), **more}) for at in PASSES}
        return Record(marks, {"0": 8}, (), "")

    originals = [run(), run(NUDGED)]
    assert judge(originals, run(missing=True)).same is None
    assert judge(originals, run(missing=True), frozenset({"__main__.grads"})).same is True
    assert judge(originals, run(missing=True), frozenset({"grads"})).same is None, "that is a name of a function"


def test_a_value_inside_of_what_tells_nothing_is_not_proven() -> None:
    edited = record(held=ABSENT)
    marks = {key: State(each.values, {}, {"main:held": "Opaque"}) for key, each in edited.marks.items()}
    found = judged(Record(marks, edited.passes, (), ""), held=[1.0])
    assert found.same is None and "main:held is inside of a Opaque" in found.why


def test_a_value_under_another_path_is_found() -> None:
    edited = record()
    marks = {
        key: State({"main:kept.w": each.values["main:w"]}, {"main:w": "main:kept.w"}, {}) for key, each in edited.marks.items()
    }
    assert judged(Record(marks, edited.passes, (), "")).same is True


def test_where_nothing_changes_nothing_is_proven() -> None:
    marks = {("0", 1, at): state({"main:w": np.ones(3), "main:n": 5}) for at in PASSES}
    still = Record(marks, {"0": 8}, (), "")
    found = judge([still] * 2, still)
    assert found.same is None and "Nothing that training changes" in found.why


def test_no_pass_is_no_proof() -> None:
    nothing = Record({}, {}, (), "")
    found = judge([nothing] * 2, nothing)
    assert found.same is None and "No pass of its loop could be compared" in found.why
    assert judged(Record({}, {"0": 8}, (), "cut")).same is None


# Ten batches are read after 1, 2, 4 and 8, and five steps per call end after 5 and 10; or no batch
# is read at all where a group of steps is longer than an epoch.
ENDS = ("epoch", 1, END, 10), ("fit", 1, END, 10)
FITS = {
    "calls that end elsewhere": ([*(("batch", 1, at, at) for at in PASSES), *ENDS], ENDS, None, 8),
    "short epochs": ((("epoch", 1, END, 5), ("epoch", 2, END, 10), ENDS[1]),) * 2 + (10, 10),
}


@pytest.mark.parametrize("name", FITS)
@pytest.mark.parametrize("off", [0.0, 0.01])
def test_a_fit_is_compared_at_the_ends_of_its_epochs(off: float, name: str) -> None:
    original, edited, made, passes = FITS[name]

    def run(off: float, marks: Any) -> Record:
        states = {(key, entry, at): state({"model.w": trained(steps, off)}) for key, entry, at, steps in marks}
        return Record(states, {}, (), "") if made is None else Record(states, {}, (), "", made=made)

    found = judge([run(0.0, original), run(NUDGED, original)], run(off, edited))
    assert (found.same, found.passes) == (not off, passes), found


@pytest.mark.parametrize("begin", [True, False])
def test_what_training_changed_is_told_from_where_it_began(begin: bool) -> None:
    """The first state is that after 16 steps; two runs differ by more than a step changes."""

    def run(off: float) -> Record:
        marks = {("batch", 1, at): state({"model.w": trained(at) + off}) for at in (16, 17)}
        return Record(marks, {}, (), "", made=17, begin=state({"model.w": trained(0)}) if begin else None)

    found = judge([run(0.0), run(3e-3)], run(0.0))
    assert found.same is (True if begin else None), found


def test_passes_that_are_missing() -> None:
    found = judged(record(passes=4))
    assert found.same is False and "8 passes of a loop became 4" in found.why


def test_what_follows_the_loop_is_to_be_reached() -> None:
    found = judged(record(ends=False))
    assert found.same is False and "behind the loop, time 1 is not reached" in found.why
    assert judged(record(ends=False, ended="cut")).same is None, "what does not end in the original's time is not proven"


def test_how_the_runs_end() -> None:
    found = judged(record(ended="ValueError: no"))
    assert found.same is False and found.why == "The edited script ends with ValueError: no." and not found.runs
    found = judged(record(), ended="ValueError: no")
    assert found.same is None and "The script as it is ends with ValueError: no" in found.why and not found.runs


def test_several_faults_are_counted() -> None:
    found = judged(record(0.5))
    assert found.why.endswith("and 2 more.") and len(found.faults) == 5
    assert "at step 1: " in found.faults[0] and "behind the loop, time 1: " in found.faults[-1]


def test_branches_that_did_not_run_are_named() -> None:
    found = judge([record(), record(NUDGED)], record(), missed=[7, 12])
    assert found.same is True and found.sentence == "compared to step 8, 5 values; 2 branches did not run (line 7, 12)"


LOSS = ("epoch 1", "loss 0.6931")
BAR = ("\r  12/90 ━━━━╸  3s 5ms/step - loss: 0.8", "\r  90/90 ━━━━━━━ 1s 4ms/step - loss: 0.6931", "epoch 2")
SEEN = ("seen 16000 0.123456789",)


@pytest.mark.parametrize(
    ("original", "edited", "said"),
    [
        (LOSS, LOSS, ""),
        (LOSS, ("epoch 1", "loss 0.6932"), ""),
        (LOSS, ("epoch 1", "loss 0.7931"), "it prints 'loss 0.7931' for 'loss 0.6931'"),
        (LOSS, ("epoch 2", "loss 0.6931"), "it prints 'epoch 2' for 'epoch 1'"),
        (LOSS, ("epoch 1", "accuracy 0.6931"), "it prints 'accuracy 0.6931'"),
        (LOSS, ("epoch 1",), "it prints 1 line instead of 2"),
        # Of a progress bar the last line counts, without times.
        (BAR, BAR, ""),
        (BAR, (BAR[1].replace("1s 4ms", "0s 923us"), BAR[2]), ""),
        (BAR, (*BAR[:1] * 3, *BAR[1:]), ""),
        (BAR, (BAR[0], BAR[1].replace("0.6931", "0.7931"), BAR[2]), "it prints"),
        (BAR, BAR[:1] + BAR[2:], "it prints"),
        # Whole numbers are exact, and all digits count.
        (SEEN, SEEN, ""),
        (SEEN, ("seen 16001 0.123456789",), "it prints"),
        (SEEN, ("seen 16000 0.123556789",), "it prints"),
    ],
)
def test_what_is_printed(original: tuple[str, ...], edited: tuple[str, ...], said: str) -> None:
    found = judged(record(printed=edited), printed=original)
    assert found.same is (not said) and said in found.why, found


ENDING = (("at 12", "at 19", "loss 0.6931"), ("at 21", "loss 0.6931"))
CHANCE = (("step 1: 2.0000", "step 2: 4.0000"), ("step 1: 2.0010", "step 2: 4.0000"))
COLUMNS = (("[0.4996 0.501  0.501 ]",), ("[0.49961 0.50099 0.501  ]",))


@pytest.mark.parametrize(
    ("originals", "edited", "same"),
    [
        (ENDING, ("loss 0.6931",), True),  # lines are compared from the end, too
        (ENDING, ("loss 0.7931",), False),
        (CHANCE, ("step 1: 2.0020", "step 2: 4.0040"), True),  # runs that agree in a line do not in others like it
        (CHANCE, ("step 1: 2.0020", "step 2: 4.2000"), False),
        (COLUMNS, ("[0.4996 0.501  0.501 ]",), True),  # blanks fill up columns
        (COLUMNS, ("[1.4996 1.501  1.501 ]",), False),
        (tuple(("took", f"{at}.5 s") for at in (1, 2)), ("took", "9.5 s"), True),  # two runs differ in it
    ],
)
def test_lines_are_compared_as_far_as_the_originals_agree(originals: Any, edited: tuple[str, ...], same: bool) -> None:
    runs = [record(off, printed=lines) for off, lines in zip((0.0, NUDGED), originals, strict=True)]
    assert judge(runs, record(printed=edited)).same is same


def test_arrays_under_names_that_no_other_run_has_are_not_passed_over() -> None:
    def run(off: float, name: str) -> Record:
        found = record(off)
        marks = {key: State({f"main:{name}": each.values["main:w"]}, {}, {}) for key, each in found.marks.items()}
        return replace(found, marks=marks)

    found = judge([run(0.0, "run[1]"), run(NUDGED, "run[3]")], run(0.5, "run[4]"))
    assert found.same is None and "differs as well" in found.why


def test_what_was_too_much_to_read_is_not_proven() -> None:
    edited = record()
    marks = {key: replace(each, unread={BEYOND: "more than 200,000 objects"}) for key, each in edited.marks.items()}
    found = judge([record(), record(NUDGED)], replace(edited, marks=marks))
    assert found.same is None and "more than 200,000 objects" in found.why


@pytest.mark.parametrize(("chaos", "parts"), [(1, None), (4, 2), (9, 8), (99, 0)])
def test_where_a_rounding_changes_as_much_as_training_does_nothing_is_said_of_what_follows(
    chaos: int, parts: int | None
) -> None:
    def other(key: tuple[str, int, int], read: State) -> State:
        later = (key[2] if key[2] != END else 9) >= chaos
        moved = {path: value * 1.5 if path == "main:w" and later else value for path, value in read.values.items()}
        return State(moved, {}, {})

    nudged = record(NUDGED)
    nudged = replace(nudged, marks={key: other(key, read) for key, read in nudged.marks.items()})
    found = judge([record(), nudged], record())
    if parts is None:
        assert found.same is None
        return
    assert (found.same, found.parts, found.whole) == (True, parts, not parts)
    assert (f"behind step {parts} one rounding" in found.sentence) == bool(parts)


@pytest.mark.parametrize(("one", "edited", "ago", "same"), [
    ("<date>%Y-%m-%dT10:05:06.691458</date>", "<date>%Y-%m-%dT10:06:01.217304</date>", 0, True),
    ("saved %a %b %e 10:05:06 %Y", "saved %a %b %e 10:06:01 %Y", 0, True),
    ("at %Y-%m-%d 10:05: 5 of 7", "at %Y-%m-%d 10:06: 6 of 7", 0, False),
    ("row of %Y-%m-%d 10:00", "row of %Y-%m-%d 11:00", 9, False),  # days: it is data
])  # fmt: skip
def test_runs_that_begin_together_share_the_time_of_day_and_others_need_not(
    one: str, edited: str, ago: int, same: bool
) -> None:
    day = time.localtime(time.time() - 86_400 * ago)
    plain, other = time.strftime(one, day), time.strftime(edited, day)
    original = record(printed=(plain,))
    assert judge([original, record(NUDGED, printed=(plain,))], record(printed=(other,))).same is same


def test_a_training_that_was_cut_says_which_passes_were_compared() -> None:
    whole = judged(record())
    cut = replace(whole, whole=False)
    assert whole.same is True and "was not compared" not in whole.sentence
    assert cut.sentence.endswith("; the script goes on for longer, and what only shows in others was not compared")
    shown = replace(cut, shown="steps 1-8, 99-100 of 100")
    assert shown.sentence.endswith("; these were steps 1-8, 99-100 of 100, and what only shows in others was not compared")


@pytest.mark.parametrize(
    ("whole", "parts", "standing"),
    [
        (True, 0, Standing.PROVEN),
        (False, 0, Standing.COMPARED),
        (True, 300, Standing.COMPARED),
        (False, 300, Standing.COMPARED),
    ],
)
def test_only_what_was_compared_as_a_whole_is_proven(whole: bool, parts: int, standing: Standing) -> None:
    assert replace(judged(record()), whole=whole, parts=parts, made=8, length=100).standing is standing


@pytest.mark.parametrize(
    ("edited", "equal"),
    [
        ({}, True),
        ({"off": NUDGED}, False),
        ({"off": 0.1}, False),
        ({"printed": ("loss 0.31",)}, False),
        ({"ended": "ValueError: no"}, False),
    ],
)
def test_equal_to_the_bit_needs_no_other_runs(edited: dict[str, Any], equal: bool) -> None:
    found = judge_equal(record(printed=("loss 0.3",)), record(**({"printed": ("loss 0.3",)} | edited)))
    assert (found is not None and found.same is True) is equal


def test_what_was_allowed_and_what_was_sampled_is_said() -> None:
    sampled = record()
    marks = {key: replace(each, sampled=frozenset({"main:w"})) for key, each in sampled.marks.items()}
    found = judge([replace(sampled, marks=marks), record(NUDGED)], sampled)
    assert found.sampled == 1 and "of 1 large array a sample and sums" in found.sentence


def test_an_end_that_is_not_told_proves_nothing() -> None:
    found = judge([record(), record(NUDGED, ends=False)], record())
    assert found.same is None and found.why == "Its end could not be compared."


def test_what_changes_little_is_not_excused_by_its_size() -> None:
    """A hundred thousandth of the value, but a tenth of what training has made of it."""
    originals: Any = {"v": lambda at: np.full(4, 1000.0) + 1e-3 * (at if at != END else 8)}
    assert judged(record(v=lambda at: np.full(4, 1000.0) + 1.1e-3 * (at if at != END else 8)), **originals).same is False


def test_noise_is_named() -> None:
    def run(seed: int) -> Record:
        return record(0.0 if seed < 2 else NUDGED, noise=lambda at: np.random.default_rng(100 * seed + at).normal(size=4))

    originals = [run(1), run(2)]
    marks = {key: State({**each.values, "main:v": each.values["main:w"]}, {}, {}) for key, each in originals[0].marks.items()}
    originals = [
        replace(each, marks={key: State({**marks[key].values, **each.marks[key].values}, {}, {}) for key in marks})
        for each in originals
    ]
    assert judge(originals, originals[0]).omissions == (f"main:noise ({DIFFERS})",)


def omissions(edited: Record, *originals: Record) -> set[str]:
    """What was not compared, of texts that are the same as far as is known."""
    found = judge(originals or [record(), record(NUDGED)], edited)
    assert found.same is True and found.standing is (Standing.COMPARED if found.omissions else Standing.PROVEN)
    assert all(each in found.sentence for each in found.omissions[:3])
    return {each.rpartition(" (")[0] for each in found.omissions}


def alike(change: Any) -> tuple[set[str], set[str]]:
    """What is not compared where all runs are changed, and where the edited one is alone."""
    runs = [change(record(*of)) for of in ((), (NUDGED,))]
    return omissions(change(record()), *runs), omissions(change(record()))


def with_unread(found: Record, at: int = END, **kinds: str) -> Record:
    marks = {key: replace(each, unread=kinds if key[2] == at else {}) for key, each in found.marks.items()}
    return replace(found, marks=marks)


def test_what_tells_nothing_of_itself_is_not_compared_if_it_came_up_in_training() -> None:
    seen = [with_unread(record(*of), queue="Queue") for of in ((), (NUDGED,))]
    assert omissions(record(), *seen) == {"queue"}
    before = [replace(each, begin=State({}, {}, {"queue": "Queue"})) for each in seen]
    assert omissions(record(), *before) == set()


def test_what_goes_on_behind_the_end_is_not_compared() -> None:
    assert alike(lambda run: replace(run, lasting=("a thread",))) == ({"a thread"}, {"a thread"})


def test_a_file_that_not_every_run_writes_is_not_compared() -> None:
    runs = [replace(record(*of), files={f"{at}.csv": ("0.5",)}) for at, of in enumerate(((), (NUDGED,)))]
    assert omissions(replace(record(), files={"3.csv": ("1.0",)}), *runs) == {"0.csv", "1.csv", "3.csv"}


@pytest.mark.parametrize(
    ("lines", "edited", "what"),
    [
        (("at 0x1a", "at 0x3c"), "at 0x4d", "the line 'at 0x1a'"),
        (("0.31", "0.52"), "0.9", "a number in '#'"),
        (("4 of 9", "7 of 9"), "1 of 9", "a number in '# of #'"),
        (("mean 0.8", "mean 0.8"), "mean 0.7", "a number in 'mean #'"),
    ],
)
def test_lines_that_tell_nothing_are_not_compared(lines: tuple[str, ...], edited: str, what: str) -> None:
    runs = [record(off, printed=(line,)) for off, line in zip((0.0, NUDGED), lines, strict=True)]
    assert omissions(record(printed=(edited,)), *runs) == {what}


def test_lines_of_which_the_runs_have_several_numbers_are_not_compared() -> None:
    runs = [record(*of, printed=("on",) * count) for count, of in ((2, ()), (3, (NUDGED,)))]
    assert omissions(record(printed=("on",) * 9), *runs) == {"how many lines it prints"}


def test_a_line_of_the_scripts_own_is_no_progress_bar() -> None:
    lines = ("0.31 at 12 it/s", "0.52 at 12 it/s")
    drawn = frozenset({*lines, "0.93 at 12 it/s"})
    runs = [replace(record(*of, printed=lines), own=frozenset(lines)) for of in ((), (NUDGED,))]
    edited = ("0.93 at 12 it/s", lines[1])
    found = judge(runs, replace(record(printed=edited), own=frozenset(edited)))
    assert found.same is False and "'0.93 at 12 it/s' for '0.31 at 12 it/s'" in found.why
    bars = [replace(each, own=frozenset(), drawn=drawn) for each in (*runs, record(printed=edited))]
    assert judge(bars[:2], bars[2]).same is True


def test_a_single_number_that_runs_differ_in_is_not_compared() -> None:
    runs = [record(took=1.01), record(NUDGED, took=1.05)]
    assert omissions(record(took=0.3), *runs) == {"main:took"}


def test_a_training_that_ends_by_chance_is_not_proven() -> None:
    assert omissions(record(passes=5), record(passes=8), record(NUDGED, passes=7)) == {"how many passes a loop makes"}


def test_small_numbers_beside_a_large_one_are_not_told_by_its_size() -> None:
    """Slopes beside an intercept of 200,000, of which float32 knows a hundredth."""

    def fit(slope: float, off: float = 0.0) -> dict[str, Any]:
        return {"v": lambda at: np.array([2e5 * (1 + off), *[slope] * 7]) * (at if at != END else 8) / 8}

    runs = [record(**fit(0.36)), record(NUDGED, **fit(0.36, NUDGED))]
    assert omissions(record(**fit(0.36)), *runs) == set()
    assert omissions(record(**fit(0.50)), *runs) == {"main:v"}


def test_whole_numbers_that_turned_over_are_told() -> None:
    pixels = np.arange(2000)
    turned = pixels.copy()
    turned[7] += 9
    runs = [record(*of, x=pixels) for of in ((), (NUDGED,))]
    assert omissions(record(x=turned), *runs) == {"main:x"}


def test_what_agrees_early_and_not_later_is_not_told() -> None:
    def run(seed: int) -> dict[str, Any]:
        def chaos(at: int) -> Any:
            return np.full(4, 1.0 + at) if at in (1, 2) else np.random.default_rng(seed + at).normal(size=4)

        return {"v": chaos, "x": trained, "y": trained, "z": trained}

    def trained(at: int) -> Any:
        return np.linspace(1.0, 2.0, 4) * (1 + 0.1 * (8 if at == END else at))

    runs = [record(**run(1)), record(NUDGED, **run(200))]
    assert omissions(record(**run(300)), *runs) == {"main:v"}


def test_blanks_are_compared_where_no_number_fills_them() -> None:
    def found(edited: str, line: str = "loss  *     |") -> Judgement:
        return judge([record(*of, printed=(line,)) for of in ((), (NUDGED,))], record(printed=(edited,)))

    assert found("loss  *     |").same is True and found("loss *      |").same is False
    assert found("epoch  10", "epoch  10").same is True


def test_what_libraries_leave_on_stderr_is_no_fault() -> None:
    runs = [replace(record(*of), errors=("step 0", "step 20")) for of in ((), (NUDGED,))]
    assert omissions(replace(record(), errors=("step 0", "step 20")), *runs) == set()
    assert omissions(replace(record(), errors=("step 0", "step 0")), *runs) == {"what it leaves on stderr"}
    assert omissions(replace(record(), errors=("step 0",) * 9), *runs) == {"what it leaves on stderr"}


def test_of_a_long_text_each_number_counts() -> None:
    stamps = np.linspace(1.7e9, 1.8e9, 600)
    edited = stamps.copy()
    edited[599] = 0.0
    runs = [with_values(record(*of), **{"log.gz<numbers>": stamps}) for of in ((), (NUDGED,))]
    assert judge(runs, with_values(record(), **{"log.gz<numbers>": edited})).same is False
    edited[599] = stamps[599] * (1 + 1e-6)
    assert omissions(with_values(record(), **{"log.gz<numbers>": edited}), *runs) == set()


def with_values(found: Record, **values: Any) -> Record:
    """With further values at the end."""
    marks = {key: State({**each.values, **values}, {}, {}) if key[2] == END else each for key, each in found.marks.items()}
    return replace(found, marks=marks)


def test_an_end_for_which_there_was_no_time_twice_is_not_compared() -> None:
    nudged = replace(record(NUDGED, ends=False), ended=CUT_SHORT)
    assert omissions(record(), record(), nudged) == {"its end"}
    assert judge([record(), nudged], record(ends=False)).same is not True
    assert judge([record(), nudged], record(0.1)).same is False


def test_passes_of_runs_that_had_no_more_time_are_not_compared() -> None:
    cut = replace(record(passes=5, ends=False), ended=CUT_SHORT)
    found = judge([cut, cut], replace(record(passes=8), ended=CUT_SHORT))
    assert found.same is True and not found.faults
    assert judge([record(), record(NUDGED)], record(passes=7)).same is False


def test_lines_of_a_run_that_had_no_more_time_are_not_compared_from_the_end() -> None:
    """They are those of other passes."""
    lines, edited = ("0.5", "0.4", "0.3", "0.200000"), ("0.5", "0.4", "0.3", "0.210000")
    nudged = replace(record(NUDGED, printed=("0.5", "0.4", "0.200001"), ends=False), ended=CUT_SHORT)
    assert omissions(record(printed=edited), record(printed=lines), nudged) >= {"its end", "how many lines it prints"}


def test_a_number_that_runs_did_not_agree_on_tells_nothing_in_later_lines() -> None:
    """They agree in the third line by chance."""
    originals = [
        record(*of, printed=lines) for of, lines in (((), ("0.50", "0.40", "0.30")), ((NUDGED,), ("0.50", "0.43", "0.30")))
    ]
    assert omissions(record(printed=("0.50", "0.41", "0.33")), *originals) == {"a number in '#'"}
    assert judge(originals, record(printed=("0.58", "0.41", "0.33"))).same is False


def test_what_stand_ins_hide_of_the_edited_text_alone_is_not_compared() -> None:
    one, hides = record(), replace(record(), hidden=frozenset({"a step without data"}))
    assert omissions(hides, one, record(NUDGED)) == {"a step without data"}
    assert omissions(hides, hides, record(NUDGED)) == set()
    equal = judge_equal(one, hides)
    assert equal is not None and equal.standing is Standing.COMPARED


def test_programs_that_it_starts_are_given_the_same() -> None:
    runs = [replace(record(*of), started=("notify loss 0.5",)) for of in ((), (NUDGED,))]
    found = judge(runs, replace(record(), started=("notify loss 0.7",)))
    assert found.same is False and "gives to programs that it starts" in found.why
    assert judge(runs, replace(record(), started=("notify loss 0.500001",))).same is True
    assert judge(runs, record()).same is False


@pytest.mark.parametrize(("held", "same"), [(False, True), (True, False)])
def test_numbers_of_a_list_that_grows_are_readings_of_one_quantity(held: bool, same: bool) -> None:
    """A rounding may be as large, beside what they went through, as of a number that changes."""

    def run(off: float) -> Record:
        values = {f"main:losses[{at}]": np.array(2.0 - 0.1 * at + (off if at == 7 else 0.0)) for at in range(8)}
        return replace(with_values(record(), **values), begin=state(values if held else {}))

    assert judge([run(0.0), run(0.0)], run(0.3 * COMPUTED)).same is same
    assert judge([run(0.0), run(0.0)], run(0.9 * COMPUTED)).same is False
