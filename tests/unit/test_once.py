"""What is computed once is, whatever threads ask for it, on every Python."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable

import pytest

from outpace._caching import ResultCache, memoize, once


class Holder:
    def __init__(self) -> None:
        self.cache = ResultCache()
        self.computed = 0

    def _work(self) -> int:
        time.sleep(0.01)  # lets the others in
        self.computed += 1
        return self.computed

    @once
    def value(self) -> int:
        return self._work()


@memoize
def of_holder(holder: Holder) -> int:
    return holder._work()


def asked_by_threads(ask: Callable[[], int]) -> set[int]:
    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.append(ask())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    return set(found)


@pytest.mark.parametrize("ask", [lambda holder: holder.value, of_holder], ids=["property", "function"])
def test_threads_that_ask_at_once_get_one_result(ask: Callable[[Holder], int]) -> None:
    holder = Holder()
    assert asked_by_threads(lambda: ask(holder)) == {1}
    assert holder.computed == 1
    assert ask(Holder()) == 1


def test_what_raises_is_not_kept() -> None:
    class Fails:
        tries = 0

        @once
        def value(self) -> int:
            self.tries += 1
            if self.tries == 1:
                raise ValueError
            return self.tries

    fails = Fails()
    with pytest.raises(ValueError):
        _ = fails.value
    assert fails.value == 2


def test_a_result_is_not_forgotten_while_somebody_takes_it() -> None:
    """Another thread lets go of it after it was found, and before it is taken."""
    results = ResultCache()

    class Found(dict[Hashable, object]):
        def __contains__(self, key: object) -> bool:
            there = super().__contains__(key)
            forgetting.start()
            forgetting.join(0.2)  # it waits, as it should, until the result is taken
            return there

    forgetting = threading.Thread(target=results.discard, args=("key",))
    results.set("key", 7)
    results._results = Found(results._results)
    assert results.get("key", lambda: 8) == 7
    forgetting.join()
    assert not results._results
