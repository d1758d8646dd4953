"""What is computed once is, whatever threads ask for it, on every Python."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from outpace._once import Derived, derived, once


class Holder:
    def __init__(self) -> None:
        self.derived = Derived()
        self.computed = 0

    def _work(self) -> int:
        time.sleep(0.01)  # lets the others in
        self.computed += 1
        return self.computed

    @once
    def value(self) -> int:
        return self._work()


@derived
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


def test_what_is_forgotten_while_others_ask_is_made_again() -> None:
    """Another thread lets go of a result again and again: whoever asks has it nevertheless."""
    results, done, failed = Derived(), threading.Event(), list[Exception]()

    def forget() -> None:
        while not done.is_set():
            results.forget("key")

    def ask() -> None:
        try:
            assert all(results.get("key", lambda: 7) == 7 for _ in range(20_000))
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    forgetting = threading.Thread(target=forget)
    for thread in (forgetting, *threads):
        thread.start()
    for thread in threads:
        thread.join()
    done.set()
    forgetting.join()
    assert failed == []
