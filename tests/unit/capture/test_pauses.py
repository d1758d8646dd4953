"""What holds a thread up where no line of the program asks for it is noted, and its samples are no
line's.
"""

from __future__ import annotations

import gc
import threading
import time
import weakref
from typing import Any

from outpace.capture import pauses
from outpace.capture.pauses import PauseRecorder, record_iterator_end
from outpace.metrics.facts.python_samples import find_pauses
from outpace.store.record import GARBAGE_COLLECTION, ITERATOR_END


class Slow:
    """An object whose end takes its time, as that of a data set's threads does."""

    def __del__(self) -> None:
        time.sleep(0.01)


class Iterator:
    """An iterator that holds such an object."""

    def __init__(self) -> None:
        self.resource = Slow()


def watched() -> PauseRecorder:
    found = PauseRecorder(threading.get_ident())
    found.start()
    return found


def kinds(found: PauseRecorder) -> list[str]:
    return [what for _, _, what in found.stop()]


def test_a_collection_is_noted_with_what_others_do_in_it() -> None:
    found = watched()
    slow = lambda phase, info: time.sleep(0.002)  # noqa: E731
    gc.callbacks.insert(1, slow)
    try:
        before = time.monotonic_ns()
        gc.collect()
        after = time.monotonic_ns()
    finally:
        gc.callbacks.remove(slow)
    ((began, took, what),) = found.stop()
    assert what == GARBAGE_COLLECTION and before <= began and began + took <= after and took >= 4_000_000
    gc.collect()
    assert found.stop() == () and not pauses._active_recorders


def test_the_end_of_an_iterator_is_noted_from_where_it_begins_to_go() -> None:
    found = watched()
    iterator = Iterator()
    record_iterator_end(iterator)
    time.sleep(0.01)  # no part of its end
    del iterator
    ((_, took, what),) = found.stop()
    assert what == ITERATOR_END and 10_000_000 <= took < 19_000_000
    assert not pauses._iterator_references


def test_what_outlives_the_capture_or_ends_on_another_thread_is_not_noted() -> None:
    found, late = watched(), Iterator()
    record_iterator_end(late)
    held = [Iterator()]
    record_iterator_end(held[0])
    thread = threading.Thread(target=held.clear)
    thread.start()
    thread.join()
    assert kinds(found) == []
    gone = weakref.ref(late)
    del late
    assert gone() is None


def test_moments_within_a_pause_are_no_lines() -> None:
    import numpy as np

    record: dict[str, Any] = {"pauses": [[50, 10, GARBAGE_COLLECTION], [5, 10, ITERATOR_END]]}
    at = np.array([4, 5, 14, 15, 49, 50, 59, 60])
    assert find_pauses(record, at) == ["", ITERATOR_END, ITERATOR_END, "", "", GARBAGE_COLLECTION, GARBAGE_COLLECTION, ""]
    assert find_pauses({}, at) == [""] * 8
