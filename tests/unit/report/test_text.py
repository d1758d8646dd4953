import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outpace.model import Unit
from outpace.model.text import (
    MAX_TEXT_LENGTH,
    clean,
    clean_prose,
    elide,
    format_cell,
    format_suggestion,
    repair_unicode,
    shorten,
)
from tests.unit.report.report_samples import HOSTILE_NAMES

ANY_TEXT = st.text(st.characters(), max_size=80) | st.text(st.sampled_from("\ud800\udcff\x1b\u202e\u2028ab"), max_size=20)


@given(ANY_TEXT)
def test_clean_leaves_no_character_that_could_act(name: str) -> None:
    assert not [c for c in clean(name) if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")]


def test_clean_spells_out_what_it_replaces_and_keeps_the_rest() -> None:
    assert clean("\x1b[31mred") == "\\x1b[31mred"
    assert clean("a\nb\tc\r") == "a\\nb\\tc\\r"
    assert clean("\u202egnirts") == "\\u202egnirts"
    assert clean("\udcff") == "\\udcff"
    assert clean("\U000e0041") == "\\U000e0041"
    assert clean("日本語/Größe_1:Conv2D") == "日本語/Größe_1:Conv2D"


def test_clean_bounds_the_length() -> None:
    assert len(clean("x" * 1_000_000)) == MAX_TEXT_LENGTH


def test_clean_prose_keeps_line_breaks_only() -> None:
    assert clean_prose("one\ntwo\x07") == "one\ntwo\\x07"


@given(st.text(max_size=40), st.integers(0, 60))
def test_shorten_keeps_both_ends_within_the_width(name: str, width: int) -> None:
    short = shorten(name, width)
    assert len(short) <= width
    if len(name) > width >= 3:
        assert name.startswith(short.split("…")[0]) or "…" in name
        assert short[-1] == name[-1]


def test_shorten_leaves_what_fits() -> None:
    assert shorten("scope/op", 8) == "scope/op"
    assert shorten("scope/inner/op", 9) == "scop…r/op"


def test_shorten_leaves_no_two_ellipses_side_by_side() -> None:
    assert shorten("abc…defghijk", 9) == "abc…hijk"
    assert shorten("abcdefg…ijk", 9) == "abcd…ijk"


@given(ANY_TEXT)
def test_valid_gives_unicode_and_changes_nothing_that_was_valid(name: str) -> None:
    result = repair_unicode(name)
    result.encode("utf-8")
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        assert "\ufffd" in result or len(result) < len(name)
    else:
        assert result == name


def test_valid_joins_surrogate_pairs() -> None:
    assert repair_unicode("\ud83d\ude00!") == "\U0001f600!"
    assert repair_unicode("a\ud800b") == "a\ufffdb"


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_shown_is_one_line(name: str) -> None:
    assert len(format_cell(name, Unit.TEXT).splitlines()) <= 1


def test_shown_knows_numpy_scalars_and_missing_values() -> None:
    assert format_cell(np.int64(1_500_000_000), Unit.PS) == "1.50 ms"
    assert format_cell(np.float32(0.5), Unit.FRACTION) == "50.0%"
    assert format_cell(None, Unit.COUNT) == "–"
    assert format_cell(float("nan"), Unit.BYTES) == "–"


def test_names_are_cut_where_they_agree_and_not_where_they_differ() -> None:
    names = [
        f"replica_{r}/bert_span_labeler/bert_encoder/layer_{n}/dropout/random_uniform/RandomUniform"
        for r in (4, 6)
        for n in (3, 7)
    ]
    assert elide([*names, "IDLE"], 60) == [
        "replica_4/…/layer_3/dropout/random_uniform/RandomUniform",
        "replica_4/…/layer_7/dropout/random_uniform/RandomUniform",
        "replica_6/…/layer_3/dropout/random_uniform/RandomUniform",
        "replica_6/…/layer_7/dropout/random_uniform/RandomUniform",
        "IDLE",
    ]
    assert elide(names, 40)[0] == "replica_4/…/layer_3/…/RandomUniform"


def test_a_name_that_differs_only_in_the_middle_stays_whole() -> None:
    names = ["a" * 30 + "1" + "b" * 30, "a" * 30 + "2" + "b" * 30]
    assert elide(names, 20) == names
    assert elide(names[:1], 20) == [shorten(names[0], 20)]


@given(st.lists(st.text(st.sampled_from("ab/:, …"), max_size=30), max_size=8), st.integers(1, 20))
def test_different_names_stay_different(names: list[str], width: int) -> None:
    short = elide(names, width)
    assert len(set(short)) == len(set(names))
    assert all(cut == name for cut, name in zip(short, names, strict=True) if len(name) <= width)


def test_a_word_like_a_known_one_was_perhaps_meant() -> None:
    assert format_suggestion("overvew", ["overview", "pod"]) == " Did you mean 'overview'?"
    assert format_suggestion("nothing of the kind", ["overview", "pod"]) == ""
