"""Actions on functions of the user's Python: what each one needs, and what calls are."""

from __future__ import annotations

import pytest

from outpace.metrics.actions.python_lines import (
    PYTHON_ACTIONS,
    CallKind,
    Precondition,
    classify_call,
    classify_calls,
    classify_text,
    is_batch_hook,
)
from outpace.metrics.actions.table import Action, choose_action
from outpace.metrics.facts.python_callers import hands_out_elements
from outpace.metrics.facts.workload import Framework, Workload

PROGRAMS = [Workload(framework) for framework in Framework]
ROWS = [pytest.param(row, id=row.name) for row in PYTHON_ACTIONS]


def kind_of(row: Action[CallKind, Precondition, [str, Workload]]) -> CallKind:
    """A kind of work that a row is for."""
    return min(row.kinds, key=lambda kind: kind.value) if row.kinds else CallKind.CALLING


@pytest.mark.parametrize("row", ROWS)
def test_an_action_is_chosen_where_what_it_needs_holds(row: Action[CallKind, Precondition, [str, Workload]]) -> None:
    assert choose_action(PYTHON_ACTIONS, kind_of(row), row.preconditions) is row


@pytest.mark.parametrize(
    ("row", "need"),
    [
        pytest.param(row, need, id=f"{row.name}-{need.name}")
        for row in PYTHON_ACTIONS
        for need in sorted(row.preconditions, key=lambda need: need.name)
    ],
)
def test_it_is_not_where_one_of_that_does_not_hold(
    row: Action[CallKind, Precondition, [str, Workload]], need: Precondition
) -> None:
    assert choose_action(PYTHON_ACTIONS, kind_of(row), row.preconditions - {need}) is not row


@pytest.mark.parametrize("kind", CallKind)
def test_the_step_itself_is_never_to_be_done_less_often(kind: CallKind) -> None:
    others = frozenset(Precondition) - {Precondition.CALLS_NO_STEP}
    for program in PROGRAMS:
        text = choose_action(PYTHON_ACTIONS, kind, others).render("train.py:18", program)
        assert "less often" not in text
        assert "every" not in text


@pytest.mark.parametrize("kind", CallKind)
def test_arrays_that_change_are_never_to_be_converted_once(kind: CallKind) -> None:
    assert choose_action(PYTHON_ACTIONS, kind, {Precondition.CALLS_NO_STEP, Precondition.READS_WEIGHTS}).name != "convert_once"


@pytest.mark.parametrize("row", ROWS)
def test_texts_name_the_place_and_end_as_sentences(row: Action[CallKind, Precondition, [str, Workload]]) -> None:
    for program in PROGRAMS:
        text = row.render("train.py:18", program)
        assert "train.py:18" in text
        assert text.endswith(".")
        assert text[0].isupper()


@pytest.mark.parametrize(
    ("library", "below", "kind"),
    [
        ("python", "python: load", CallKind.READING),
        ("python", "python: _pickle.loads", CallKind.READING),
        ("flax", "flax: restore_checkpoint", CallKind.READING),
        ("pandas", "pandas: read_csv", CallKind.READING),
        ("python", "python: dump", CallKind.SAVING),
        ("tensorflow", "tensorflow: save", CallKind.SAVING),
        ("python", "python: JSONEncoder.iterencode", CallKind.LOGGING),
        ("wandb", "wandb: log", CallKind.LOGGING),
        ("numpy", "numpy: log", CallKind.CALLING),
        ("tensorflow", "tensorflow: log", CallKind.EAGER),
        ("tensorflow", "tensorflow: read_variable_op", CallKind.EAGER),
        ("tensorflow", "tensorflow: read_file", CallKind.READING),
        ("tensorflow", "tensorflow: iterator_get_next", CallKind.CALLING),
        ("keras", "keras: Function.call", CallKind.CALLING),
        ("matplotlib", "matplotlib: Axes.text", CallKind.DRAWING),
        ("PIL", "PIL: ImageDraw.text", CallKind.CALLING),
        ("tensorflow", "tensorflow: convert_to_eager_tensor", CallKind.EAGER),
        ("jax", "jax: device_put", CallKind.CONVERTING),
        ("jax", "jax: device_count", CallKind.CALLING),
        ("numpy", "numpy: array_split", CallKind.CALLING),
        ("numpy", "numpy: array2string", CallKind.CALLING),
        ("jax", "jax: execute", CallKind.CALLING),
        ("", "", CallKind.COMPUTING),
        ("python", "python: sorted", CallKind.COMPUTING),
    ],
)
def test_calls_have_kinds(library: str, below: str, kind: CallKind) -> None:
    assert classify_call(library, below) is kind


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("idx = np.random.choice(self.size, n, replace=False)", CallKind.SHUFFLING),
        ("order = rng.permutation(len(x))[:64]", CallKind.SHUFFLING),
        ("choices(x)", CallKind.COMPUTING),
        ("", CallKind.COMPUTING),
    ],
)
def test_functions_in_c_are_known_by_the_lines_text(text: str, kind: CallKind) -> None:
    assert classify_text(text) is kind


@pytest.mark.parametrize(
    ("calls", "kind"),
    [
        ((), CallKind.COMPUTING),
        (("keras: error_handler", "keras: TensorFlowTrainer.predict", "tensorflow: execute"), CallKind.PREDICTING),
        (("keras: Trainer.fit", "keras: Trainer.evaluate"), CallKind.EVALUATING),
        (("sklearn: Model.predict", "numpy: dot"), CallKind.CALLING),
        (("pandas: read_csv", "python: read"), CallKind.READING),
        (("keras: Trainer.fit", "keras: EpochIterator.__init__"), CallKind.FITTING),
        (("keras: Trainer.fit", "numpy: asarray"), CallKind.CONVERTING),
        (
            ("keras: BackupAndRestore.on_train_batch_end", "keras: BackupAndRestore._save_model", "h5py: make_new_dset"),
            CallKind.SAVING,
        ),
        (("jax: log_softmax", "jax: device_put"), CallKind.CONVERTING),
    ],
)
def test_a_lines_calls_have_a_kind(calls: tuple[str, ...], kind: CallKind) -> None:
    assert classify_calls(calls) is kind


@pytest.mark.parametrize(
    ("function", "is_one"),
    [
        ("Log.on_train_batch_end", True),
        ("on_batch_begin", True),
        ("Log.on_epoch_end", False),
        ("augment_batch_images", False),
        ("load_batch_end", False),
    ],
)
def test_hooks_of_batches_are_known(function: str, is_one: bool) -> None:
    assert is_batch_hook(function) is is_one


@pytest.mark.parametrize(
    ("function", "is_one"),
    [
        ("Faces.__getitem__", True),
        ("__next__", True),
        ("numpy_collate", True),
        ("Loader.__iter__", True),
        ("collected", False),
        ("train", False),
    ],
)
def test_methods_of_data_sets_are_known(function: str, is_one: bool) -> None:
    assert hands_out_elements(function) is is_one


def test_a_table_that_does_not_end_with_an_action_for_all_says_so() -> None:
    with pytest.raises(ValueError, match="no action fits"):
        choose_action(PYTHON_ACTIONS[:1], CallKind.READING, set())
