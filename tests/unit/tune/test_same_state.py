"""The state of a program, without a framework: all that its names lead to, by path."""

from __future__ import annotations

import collections
import enum
import functools
import itertools
import multiprocessing
import random
import sys
import threading
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any, cast

import numpy as np
import pytest

from outpace.tune.same import state
from outpace.tune.same.state import Reader, State


def ours(file: str) -> bool:
    return file == __file__


def read(**names: Any) -> State:
    return Reader(ours).read(None, names)


def values(**names: Any) -> dict[str, Any]:
    """Numbers as Python's and texts, by path, of these names alone."""
    found = read(**names)
    mine = {path: found.find(path) for path in found.values if path.startswith(tuple(names))}
    return {path: each.tolist() if isinstance(each, np.ndarray) else each for path, each in mine.items()}


class Color(enum.Enum):
    RED = 1


def test_numbers_and_texts() -> None:
    assert values(a=1, b=2.5, c=True, d="x", e=b"y", f=None, g=range(3), h=Color.RED, i=np.arange(3), j=1 + 2j, k=1 << 70) == {
        "a": 1, "b": 2.5, "c": True, "d": "x", "e": "b'y'", "f": "None", "g": "range(0, 3)", "h": "<Color.RED: 1>", "i": [0, 1, 2], "j": 1 + 2j,
        "k": "1180591620717411303424",
    }  # fmt: skip


def test_containers() -> None:
    held: Any = {"x": [1, (2, 3)], 7: 4, ("a", 1): 5}
    assert values(a=held, b=collections.deque([6]), c=collections.OrderedDict(x=7)) == {
        "a['x'][0]": 1, "a['x'][1][0]": 2, "a['x'][1][1]": 3, "a[7]": 4, "a[('a', 1)]": 5, "b[0]": 6, "c['x']": 7,
    }  # fmt: skip
    assert values(a={3, 1, 2}) == values(a={2, 3, 1})
    assert values(a={3, 1}) != values(a={3, 2})


def test_names_that_a_text_was_run_with_hold_no_builtins() -> None:
    names = {"scale": 2.0}
    eval("scale", names)
    assert "__builtins__" in names and values(names=names) == {"names['scale']": 2.0}


def test_objects_as_keys_are_counted() -> None:
    assert values(a={object(): 1, object(): 2}) == {"a[#0]": 1, "a[#1]": 2}


def test_the_order_of_keys_of_one_form_is_no_difference() -> None:
    assert values(a={"x": 1, "y": 2}) == values(a={"y": 2, "x": 1})


class Plain:
    shared = [1]  # noqa: RUF012

    def __init__(self) -> None:
        self.rate, self.inner = 0.5, {"x": 1}

    def method(self) -> float:
        return self.rate


class Slotted:
    __slots__ = ("rate", "unset")

    def __init__(self) -> None:
        self.rate = 0.25


class Below(Slotted):
    def __init__(self) -> None:
        super().__init__()
        self.more = 3


class Counted(dict[str, int]):
    def __init__(self) -> None:
        super().__init__(x=1)
        self.calls = 2


def test_objects_by_their_attributes() -> None:
    assert values(a=Plain()) == {"a.rate": 0.5, "a.inner['x']": 1}
    assert values(a=Slotted()) == {"a.rate": 0.25}
    assert values(a=Below()) == {"a.more": 3, "a.rate": 0.25}
    assert values(a=Counted()) == {"a['x']": 1, "a.calls": 2}


def test_classes_of_the_users_by_what_they_hold() -> None:
    assert values(a=Plain)["a.shared[0]"] == 1
    assert values(a=collections.Counter) == {}


def counter(start: int) -> tuple[Callable[..., int], list[int]]:
    step, seen = start, [0]

    def count(by: int = 2, *, least: int = 3) -> int:
        nonlocal step
        step += by + least
        seen.append(step)
        return step

    return count, seen


def test_closures_by_the_names_that_they_close_over() -> None:
    count, _ = counter(5)
    assert values(a=count) == {"a<seen>[0]": 0, "a<step>": 5, "a.<default 0>": 2, "a.<default least>": 3}
    count()
    assert values(a=count) == {
        "a<seen>[0]": 0, "a<seen>[1]": 10, "a<step>": 10, "a.<default 0>": 2, "a.<default least>": 3,
    }  # fmt: skip


def test_attributes_of_functions() -> None:
    count, _ = counter(5)
    cast(Any, count).calls = 9
    assert values(a=count)["a.calls"] == 9


def test_a_cell_that_is_not_filled_is_no_error() -> None:
    def outer() -> Callable[[], int]:
        def inner() -> int:
            return later

        if not ours(__file__):
            later = 1
        return inner

    found = read(a=outer())
    assert found.find("a<later>") is None and any(path.startswith("a<later>") for path in found.unread)


def test_records_and_rows() -> None:
    table = np.array([(1, 0.5), (2, 1.5)], dtype=[("at", "i4"), ("offset", "f4")])
    found = values(table=table, corpus=[("dog", 7), ("runs", None)])
    assert found["table['offset']"] == [0.5, 1.5] and found["corpus[0]"] == "('dog', 7)"


def test_methods_and_partials() -> None:
    held = Plain()
    assert values(a=held.method) == {"a.rate": 0.5, "a.inner['x']": 1}
    partial: Any = functools.partial(counter(1)[0], 4, least=[5])
    assert {"a.args[0]": 4, "a.keywords['least'][0]": 5, "a.func<step>": 1}.items() <= values(a=partial).items()


def test_what_decorators_wrap_is_seen_through() -> None:
    count, _ = counter(5)

    @functools.wraps(count)
    def wrapper() -> int:
        return count()

    assert read(a=wrapper).find("a<step>").item() == 5
    assert values(a=functools.lru_cache(count))["a<step>"] == 5
    compiled = types.SimpleNamespace(python_function=count)
    assert values(a=compiled)["a<step>"] == 5


def test_what_the_standard_library_counts_for_a_program() -> None:
    tickets, flag = threading.BoundedSemaphore(3), threading.Event()
    tickets.acquire()
    flag.set()
    shared = multiprocessing.Value("q", 7)
    assert values(t=tickets)["t._value"] == 2
    assert values(f=flag)["f._flag"] is True
    assert values(s=shared)["s._obj"] == repr((7).to_bytes(8, sys.byteorder))


def test_arrays_of_objects() -> None:
    array = np.empty((1, 2), dtype=object)
    array[0, 0], array[0, 1] = [1], {"x": 2}
    assert values(a=array) == {"a[0][0]": 1, "a[1]['x']": 2}


def test_generators_by_where_they_stand() -> None:
    def items() -> Iterator[int]:
        kept = 10
        for number in range(3):
            kept += number
            yield kept

    one, two = items(), items()
    assert values(a=one) == values(a=two)
    next(one)
    assert values(a=one) != values(a=two)
    next(two)
    assert values(a=one) == values(a=two) and values(a=one)["a.<kept>"] == 10
    list(one)
    assert values(a=one) == {"a.<ended>": True}


@pytest.mark.parametrize(
    "made",
    [
        lambda: iter([1, 2, 3]),
        lambda: iter((1, 2, 3)),
        lambda: iter(range(3)),
        lambda: itertools.count(5),
        lambda: itertools.cycle([1, 2]),
        lambda: enumerate([1, 2, 3]),
        lambda: zip([1, 2], [3, 4], strict=False),
        lambda: map(abs, [1, 2]),
        lambda: reversed([1, 2, 3]),
        lambda: itertools.islice([1, 2, 3], 2),
        lambda: itertools.chain([1], [2]),
        lambda: random.Random(3),
        lambda: np.random.default_rng(3),
        lambda: np.random.RandomState(3),
    ],
)
def test_iterators_and_chance_by_how_far_they_are(made: Callable[[], Any]) -> None:
    def step(of: Any) -> None:
        of.random() if hasattr(of, "random") else next(of)

    one, two = made(), made()
    assert values(a=one) == values(a=two) != {}
    step(one)
    assert values(a=one) != values(a=two)
    step(two)
    assert values(a=one) == values(a=two), "to look moves nothing"


def test_a_container_is_read_once_and_found_by_every_path() -> None:
    shared = [1, {"x": 2}]
    found = read(a=shared, b={"again": shared})
    assert found.find("b['again'][1]['x']").item() == 2 and found.find("a[1]['x']").item() == 2
    assert "b['again'][0]" not in found.values and found.aliases["b['again']"] == "a"


def test_circles_end() -> None:
    circle: list[Any] = [1]
    circle.append(circle)
    held = Plain()
    cast(Any, held).me = held
    found = read(a=circle, b=held)
    assert found.find("a[1][1][1][0]").item() == 1 and found.find("b.me.me.rate").item() == 0.5
    assert found.find("a[1][1][2]") is None


def test_weak_references_are_followed() -> None:
    held = Plain()
    assert values(a=weakref.ref(held))["a.rate"] == 0.5


class Raising:
    def __init__(self) -> None:
        self.kept = 1

    @property
    def value(self) -> int:
        raise RuntimeError("not now")

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


class Unreadable:
    @property
    def __dict__(self) -> Any:  # type: ignore[override]
        raise RuntimeError("not now")


class Evil(dict[str, int]):
    def items(self) -> Any:
        raise RuntimeError("not now")


def test_what_raises_when_it_is_looked_at_is_noted_and_the_rest_is_read() -> None:
    assert values(a=Raising()) == {"a.kept": 1}
    found = read(a=Unreadable(), b=Evil(x=1), c=7)
    assert found.find("c").item() == 7
    assert "RuntimeError" in found.unread["a"] and "RuntimeError" in found.unread["b"]


def test_what_tells_nothing_of_what_it_holds_is_noted() -> None:
    import array

    assert isinstance(read(a=(each for each in [1])).find("a.<line>"), np.ndarray)
    assert read(a=array.array("d", [1.0])).unread.get("a") == "array" or values(a=array.array("d", [1.0]))
    assert values(a=threading.Lock()) == {} and "a" not in read(a=threading.Lock()).unread, "locks mean nothing"


def test_empty_things_are_known() -> None:
    found = read(a=[], b={}, c=object(), d=collections.deque())
    assert not [path for path in found.unread if path in "abcd"]


def test_large_arrays_are_sampled_with_their_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "MOST_BYTES", 1 << 16)
    one, two = np.zeros(100_000), np.zeros(100_000)
    two[12_347] = 1.0
    found = [read(a=each) for each in (one, two)]
    assert found[0].sampled == {"a"} and found[0].find("a").size == state.SAMPLE + 3
    assert not np.array_equal(found[0].find("a"), found[1].find("a"))


def test_a_reading_is_a_copy() -> None:
    array = np.zeros(3)
    found = read(a=array)
    array += 1
    assert found.find("a").tolist() == [0, 0, 0]


def test_names_of_frames_and_of_the_users_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    def inner() -> State:
        local = [1]
        assert local
        return Reader(ours).read(sys._getframe())

    def outer() -> State:
        around = 2
        assert around
        return inner()

    module = types.ModuleType("of_the_users")
    module.__file__ = __file__
    module.setting = 3  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "of_the_users", module)
    found = outer()
    paths = {path.rpartition(">.")[2]: path for path in found.values}
    assert found.values[paths["inner:local[0]"]].item() == 1 and found.values[paths["outer:around"]].item() == 2
    assert found.values["of_the_users.setting"].item() == 3
    assert any(path.startswith("random[") for path in found.values)


def test_chance_is_part_of_the_state() -> None:
    random.seed(1)
    np.random.seed(1)
    before = read()
    random.random()
    np.random.random()
    after = read()
    moved = {path.partition("[")[0] for path in before.values if not np.array_equal(before.values[path], after.values[path])}
    assert {"random", "numpy.random"} <= moved


def test_a_framework_is_not_asked_for() -> None:
    import subprocess

    code = "import sys, outpace.tune.same.state; print([name for name in ('jax', 'tensorflow', 'torch', 'keras') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"


class Variable:
    """As those of frameworks: an array by protocol."""

    def __init__(self, value: float) -> None:
        self.value = np.full(2, value)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.value


@pytest.fixture
def of_a_framework(monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables are a framework's."""
    monkeypatch.setattr(Variable, "__module__", "keras.src.backend")


def test_values_of_frameworks_are_arrays(of_a_framework: None) -> None:
    assert values(a=Variable(2.0), b=[Variable(3.0)]) == {"a": [2.0, 2.0], "b[0]": [3.0, 3.0]}


def test_an_array_of_the_users_own_may_hold_more_than_its_numbers() -> None:
    held = Variable(2.0)
    held.seen = 7  # type: ignore[attr-defined]
    assert values(a=held) == {"a": [2.0, 2.0], "a.value": [2.0, 2.0], "a.seen": 7}


def test_what_is_in_a_tuple_of_the_users_own() -> None:
    class Row(tuple):  # type: ignore[type-arg]
        pass

    row = Row((1.0, [2.0]))
    row.weight = 3.0  # type: ignore[attr-defined]
    assert values(a=row) == {"a[0]": 1.0, "a[1][0]": 2.0, "a.weight": 3.0}


def test_a_long_list_of_numbers_is_one_array() -> None:
    found = read(a=[0.5] * 60_000, b=["x", 1.0] * 30_000)
    assert found.find("a").shape == (60_000,)
    assert found.unread["b"] == "list of more than 50,000 items"


class Model:
    """As Keras': its attributes are its own matter, its variables are the state."""

    def __init__(self) -> None:
        self.variables = [Variable(1.0)]
        self.optimizer = Optimizer()
        self.noise = random.random()


class Optimizer:
    def __init__(self) -> None:
        self.variables = [np.int64(3)]


def test_models_of_a_library_by_their_variables(monkeypatch: pytest.MonkeyPatch, of_a_framework: None) -> None:
    for kind in (Model, Optimizer):
        monkeypatch.setattr(kind, "__module__", "keras.src.models")
    assert values(a=Model()) == {"a.variables[0]": [1.0, 1.0], "a.optimizer.variables[0]": 3}


def test_models_of_the_users_by_both(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Model, "__module__", "keras.src.models")
    monkeypatch.setattr(Optimizer, "__module__", "keras.src.models")

    class Own(Model):
        def __init__(self) -> None:
            super().__init__()
            self.epoch = 5

    found = read(a=Own())
    assert found.find("a.variables[0]").tolist() == [1.0, 1.0] and found.find("a.epoch").item() == 5


def test_what_a_librarys_class_sets_is_the_librarys(monkeypatch: pytest.MonkeyPatch) -> None:
    class Base:
        def compile(self) -> None:
            self.eagerly = True

    class Model(Base):
        eagerly: bool

        def __init__(self) -> None:
            self.pull = 0.5
            self.compile()

    monkeypatch.setattr(Base, "__module__", "keras.src.trainer")
    assert values(m=Model()) == {"m.pull": 0.5}
