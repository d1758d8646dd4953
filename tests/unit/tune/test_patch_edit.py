"""Calls written into source: chains, statements, comments, imports, and places that are refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("libcst")

from outpace.tune.optimisations.optimisation import Patch
from outpace.tune.patch.calls import Call, Unpatchable
from tests.unit.tune.patching import Written

AUTOTUNE = {"num_parallel_calls": "tf.data.AUTOTUNE"}
CHAIN = """\
import tensorflow as tf

ds = (
    tf.data.Dataset.range(10)  # numbers
    .shuffle( 100 , seed=1)  # all of them
    # the work
    .map(load)  # slow
    .batch(4, drop_remainder = True)  # pairs
)
"""


def cached(written: Written) -> tuple[Patch, ...]:
    """What the rewrite says that caches a map and moves the shuffle behind it."""
    mapping = written.id_of("map")
    return Patch(mapping, insert=".cache()"), Patch(written.id_of("shuffle"), after=mapping)


def test_every_comment_of_a_chain_stays_beside_its_call(tmp_path: Path) -> None:
    written = Written(tmp_path, CHAIN)
    shuffle, work = CHAIN.splitlines(keepends=True)[4], "".join(CHAIN.splitlines(keepends=True)[5:7])
    assert written.patched(*cached(written)) == CHAIN.replace(shuffle + work, f"{work}    .cache()\n{shuffle}")


def test_behind_the_last_call_of_a_chain(tmp_path: Path) -> None:
    written = Written(tmp_path, CHAIN)
    after = written.patched(Patch(written.id_of("batch"), insert=".prefetch(tf.data.AUTOTUNE)"))
    assert after == CHAIN.replace("# pairs\n", "# pairs\n    .prefetch(tf.data.AUTOTUNE)\n")


def test_a_chain_on_one_line(tmp_path: Path) -> None:
    written = Written(
        tmp_path, "import tensorflow as tf\nds = tf.data.Dataset.range(9).shuffle(9).map(f).map(g).batch(2) # x\n"
    )
    mapping = written.recorder.stages[2].id
    after = written.patched(Patch(mapping, insert=".cache()"), Patch(written.id_of("shuffle"), after=mapping))
    assert after.splitlines()[1] == "ds = tf.data.Dataset.range(9).map(f).cache().shuffle(9).map(g).batch(2) # x"


STATEMENTS = """\
import tensorflow as tf

def build(n):
    dataset = tf.data.Dataset.range(n)

    # the order
    dataset = dataset.shuffle(n)  # whole
    dataset = dataset.map(load)
    batches = dataset.batch(4)
    return batches
"""


def test_statements_stay_statements_and_a_moved_one_takes_its_comments_along(tmp_path: Path) -> None:
    written = Written(tmp_path, STATEMENTS)
    order, mapped = "    # the order\n    dataset = dataset.shuffle(n)  # whole\n", "    dataset = dataset.map(load)\n"
    moved = f"{mapped}    dataset = dataset.cache()\n{order}"
    assert written.patched(*cached(written)) == STATEMENTS.replace(f"\n{order}{mapped}", moved)


def test_a_statement_that_names_something_new(tmp_path: Path) -> None:
    written = Written(tmp_path, STATEMENTS)
    after = written.patched(Patch(written.id_of("batch"), insert=".prefetch(tf.data.AUTOTUNE)"))
    assert "    batches = dataset.batch(4)\n    batches = batches.prefetch(tf.data.AUTOTUNE)\n" in after
    moved = written.patched(Patch(written.id_of("batch"), after=written.id_of("shuffle")))
    assert moved.endswith(
        "    dataset = dataset.batch(4)\n    dataset = dataset.map(load)\n    batches = dataset\n    return batches\n"
    )


def test_a_chain_that_is_returned(tmp_path: Path) -> None:
    source = "import tensorflow as tf\ndef make(n):\n    ds = tf.data.Dataset.range(n)\n    return ds.map(f).batch(2)\n"
    written = Written(tmp_path, source)
    after = written.patched(Patch(written.id_of("map"), insert=".cache()"))
    assert after.endswith("    return ds.map(f).cache().batch(2)\n")


@pytest.mark.parametrize(
    ("head", "name"),
    [
        ("import tensorflow as tf", "tf.data.AUTOTUNE"),
        ("import tensorflow", "tensorflow.data.AUTOTUNE"),
        ("import tensorflow as T", "T.data.AUTOTUNE"),
        ("import tensorflow.compat.v2 as tf", "tf.data.AUTOTUNE"),
        ("from tensorflow.compat.v2.data import AUTOTUNE", "AUTOTUNE"),
        ("from tensorflow import data", "data.AUTOTUNE"),
        ("from tensorflow import data as tfd", "tfd.AUTOTUNE"),
        ("from tensorflow.data import AUTOTUNE, Dataset", "AUTOTUNE"),
        ("import tensorflow as tf\nAUTO = tf.data.AUTOTUNE", "AUTO"),
    ],
)
def test_autotune_is_spelled_as_the_file_imports_tensorflow(tmp_path: Path, head: str, name: str) -> None:
    written = Written(tmp_path, f"{head}\nds = source.map(f)\n")
    assert written.patched(Patch(0, AUTOTUNE)).endswith(f"ds = source.map(f, num_parallel_calls={name})\n")


def test_a_file_without_tensorflow_has_no_autotune(tmp_path: Path) -> None:
    with pytest.raises(Unpatchable, match=r"no name for tf\.data\.AUTOTUNE"):
        Written(tmp_path, "ds = source.map(f)\n").patched(Patch(0, AUTOTUNE))


def test_an_argument_of_the_name_gets_the_new_value(tmp_path: Path) -> None:
    written = Written(tmp_path, "import tensorflow as tf\nds = s.map(f, num_parallel_calls = 1, name='m')\n")
    assert "s.map(f, num_parallel_calls = tf.data.AUTOTUNE, name='m')" in written.patched(Patch(0, AUTOTUNE))


def test_arguments_on_lines_of_their_own(tmp_path: Path) -> None:
    source = "import tensorflow as tf\nds = s.map(\n    f,  # decode\n    name='m',  # shown\n)\n"
    after = Written(tmp_path, source).patched(Patch(0, AUTOTUNE))
    assert after == source.replace("# shown\n", "# shown\n    num_parallel_calls=tf.data.AUTOTUNE,\n")


def test_a_comment_behind_the_last_argument_stays_beside_it(tmp_path: Path) -> None:
    source = "import tensorflow as tf\nds = s.map(\n    f,\n    name='m'  # shown\n)\n"
    after = Written(tmp_path, source).patched(Patch(0, AUTOTUNE))
    assert after == source.replace("'m'  # shown\n", "'m',  # shown\n    num_parallel_calls=tf.data.AUTOTUNE\n")


def test_options_get_an_object_with_a_free_name(tmp_path: Path) -> None:
    written = Written(tmp_path, "import tensorflow as tf\noptions = 1\n\n# all\nds = tf.data.Dataset.range(3).batch(2)\n")
    after = written.patched(Patch(written.id_of("batch"), insert=".with_options(options)", options={"deterministic": "False"}))
    assert after.endswith(
        "\noptions_2 = tf.data.Options()\noptions_2.deterministic = False\n"
        "# all\nds = tf.data.Dataset.range(3).batch(2).with_options(options_2)\n"
    )


def test_a_file_that_was_edited_since_is_refused(tmp_path: Path) -> None:
    written = Written(tmp_path, CHAIN)
    written.edit("import tensorflow as tf\n", "import tensorflow as tf\nimport os\n")
    with pytest.raises(Unpatchable, match="edited since"):
        written.patched(*cached(written))


def test_a_line_that_builds_another_data_set_too_is_edited_for_both(tmp_path: Path) -> None:
    alone = Written(tmp_path, CHAIN)
    expected = alone.patched(*cached(alone))
    written = Written(tmp_path, CHAIN)
    patches = cached(written)
    written.record_again("map")
    assert written.patched_beside_another(*patches) == expected


def test_nothing_moves_out_of_a_branch(tmp_path: Path) -> None:
    source = """\
    import tensorflow as tf

    def make(training):
        ds = tf.data.Dataset.range(10)
        if training:
            ds = ds.shuffle(10)
        ds = ds.map(load)
        return ds
    """
    written = Written(tmp_path, source)
    with pytest.raises(Unpatchable, match=r"train\.py:6 runs under other conditions"):
        written.patched(*cached(written))


def test_arguments_do_not_move_to_another_function(tmp_path: Path) -> None:
    source = """\
    import tensorflow as tf

    def read(n):
        return tf.data.Dataset.range(n).map(load)

    def batches(k):
        ds = read(10)
        return ds.batch(k)
    """
    written = Written(tmp_path, source)
    with pytest.raises(Unpatchable, match="under other conditions"):
        written.patched(Patch(written.id_of("batch"), after=written.id_of("range")))


def test_line_ends_and_what_is_not_ascii_are_kept(tmp_path: Path) -> None:
    written = Written(tmp_path, "import tensorflow as tf\r\nds = s.map(f)  # größer\r\n")
    assert written.patched(Patch(0, insert=".cache()")) == (
        "import tensorflow as tf\r\nds = s.map(f)  # größer\r\nds = ds.cache()\r\n"
    )


def test_what_comes_behind_a_call_that_cannot_be_edited_stands_before_the_next_one_or_nowhere(tmp_path: Path) -> None:
    written = Written(tmp_path, "import tensorflow as tf\n\nds = tf.data.Dataset.range(10).map(load).map(draw).batch(4)\n")
    of_library = [replace(stage, library="library") for stage in written.recorder.stages[:3]]
    written.recorder.stages[:3] = of_library
    written.row = tuple(Call(stage.id, stage) for stage in written.recorder.stages)
    assert ".map(draw).cache().batch(4)" in written.patched(Patch(2, insert=".cache()"))
    with pytest.raises(Unpatchable, match="calls library, which builds the map itself"):
        written.patched(Patch(1, insert=".cache()"))  # what draws would be kept, too
    with pytest.raises(Unpatchable, match="library calls batch itself"):
        written.recorder.stages[3] = replace(written.recorder.stages[3], library="library")
        written.patched(Patch(3, {"drop_remainder": "True"}))
