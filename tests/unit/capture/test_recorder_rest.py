"""A recorder that rests: a loop that is run again builds its data set once more, which is no second
data set of the program.
"""

from __future__ import annotations

import types

from outpace.capture.pipeline import PipelineRecorder


def test_what_is_built_again_is_not_recorded() -> None:
    class Dataset:
        """Stands for TensorFlow's."""

        @staticmethod
        def range(*args: int) -> Dataset:
            return Dataset()

    recorder = PipelineRecorder(False)
    recorder.install(types.SimpleNamespace(data=types.SimpleNamespace(Dataset=Dataset)))
    first = Dataset.range(3)
    assert recorder.stage_of(first) is not None and len(recorder.stages) == 1
    recorder.stop()
    again = Dataset.range(3)
    assert recorder.stage_of(again) is None and len(recorder.stages) == 1
