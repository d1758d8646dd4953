"""XProf itself on what Outpace captures: it finds every step. Needs OUTPACE_XPROF_PYTHON, an
interpreter with xprof 2.24.2.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.integration.programs import KERAS, run_program
from tests.verify.test_reference_live import XPROF, ask

pytestmark = [
    pytest.mark.verify,
    pytest.mark.skipif(not XPROF, reason="OUTPACE_XPROF_PYTHON names no interpreter that has xprof"),
]

FIT = (
    KERAS
    + """
import tensorflow as tf
data = tf.data.Dataset.from_tensor_slices((x, y)).batch(8)
if sys.argv[1] == "callback":
    model().fit(data, verbose=0, callbacks=[outpace.ProfilerCallback("logs", (5, 16))])
elif sys.argv[1] == "stock":
    class Quiet(keras.callbacks.TensorBoard):  # its scalars need the package tensorboard, its profiles do not
        def on_train_batch_end(self, batch, logs=None):
            super().on_train_batch_end(batch)
        def on_epoch_end(self, epoch, logs=None):
            pass
    model().fit(data, verbose=0, callbacks=[Quiet("logs", profile_batch=(5, 16))])
else:
    trained, batches = model(), iter(data)
    trained.train_on_batch(*next(batches))
    tf.profiler.experimental.start("logs")
    for n in range(5, 17):
        with tf.profiler.experimental.Trace("train", step_num=n, _r=1):
            trained.train_on_batch(*next(batches))
    tf.profiler.experimental.stop()
"""
)


def steps_in_xprof(how: str, folder: Path) -> int:
    """How many steps XProf finds in a capture made in this way."""
    ended = run_program(FIT, folder, how)
    assert ended.code == 0, ended.err[-3000:]
    run = next(folder.glob("logs/**/*.xplane.pb")).parent
    copy = folder / "copy" / "plugins" / "profile" / run.name
    shutil.copytree(run, copy)
    return len(ask(copy, folder))


def test_the_callback_s_profile_has_the_steps_that_a_hand_marked_loop_has(tmp_path: Path) -> None:
    found = {}
    for how in ("callback", "hand", "stock"):
        (tmp_path / how).mkdir()
        found[how] = steps_in_xprof(how, tmp_path / how)
    assert found == {"callback": 12, "hand": 12, "stock": 0}, "the stock callback marks no steps, or else Keras has mended it"
