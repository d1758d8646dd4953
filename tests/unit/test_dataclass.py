"""Frozen classes without generated code behave as the standard library's."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from dataclasses import field
from typing import Any

import pytest

from outpace._dataclass import dataclass


@dataclass(frozen=True)
class Ours:
    """A class with every kind of field."""

    a: int
    b: str = "b"
    c: list[int] = field(default_factory=list)
    hidden: int = field(default=3, repr=False, compare=False)
    made: int = field(init=False, default=9)

    def __post_init__(self) -> None:
        object.__setattr__(self, "made", self.a + 1)


@dataclasses.dataclass(frozen=True)
class Standard:
    a: int
    b: str = "b"
    c: list[int] = field(default_factory=list)
    hidden: int = field(default=3, repr=False, compare=False)
    made: int = field(init=False, default=9)

    def __post_init__(self) -> None:
        object.__setattr__(self, "made", self.a + 1)


@dataclass(frozen=True, eq=False)
class ByIdentity:
    a: int


@dataclass(frozen=True)
class Child(Ours):
    d: int = 4

    def __repr__(self) -> str:
        return "own"


@pytest.mark.parametrize(
    ("args", "kwargs"), [((1,), {}), ((1, "x"), {}), ((), {"a": 1, "c": [2]}), ((1, "x", [3], 4), {}), ((1,), {"hidden": 5})]
)
def test_instances_are_those_of_the_standard_library(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    ours, standard = Ours(*args, **kwargs), Standard(*args, **kwargs)
    assert dataclasses.asdict(ours) == dataclasses.asdict(standard)
    assert repr(ours) == repr(standard).replace("Standard", "Ours")
    assert ours == Ours(*args, **kwargs)
    assert dataclasses.replace(ours, a=7) == Ours(7, ours.b, ours.c)
    assert pickle.loads(pickle.dumps(ours)) == copy.deepcopy(ours) == ours


@pytest.mark.parametrize(
    ("args", "kwargs"), [((), {}), ((1, "x", [], 2, 3), {}), ((1,), {"nope": 2}), ((1,), {"a": 2}), ((1,), {"made": 2})]
)
def test_wrong_arguments_are_type_errors(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    for kind in (Ours, Standard):
        with pytest.raises(TypeError):
            kind(*args, **kwargs)


def test_fields_cannot_be_changed() -> None:
    made = Ours(1)
    with pytest.raises(dataclasses.FrozenInstanceError, match="'a'"):
        made.a = 2  # type: ignore[misc]  # that is the test
    with pytest.raises(dataclasses.FrozenInstanceError):
        del made.a


def test_equality_and_hash() -> None:
    other: object = Standard(1)
    assert Ours(1) != other
    assert Ours(1, hidden=1) == Ours(1, hidden=2)
    assert Ours(1) != Ours(2)
    assert ByIdentity(1) != ByIdentity(1)
    assert len({ByIdentity(1), ByIdentity(1)}) == 2
    with pytest.raises(TypeError):
        hash(Ours(1))  # a list inside
    assert len({Child(1, c=()), Child(1, c=()), Child(2, c=())}) == 2  # type: ignore[arg-type]  # hashable


def test_what_a_class_defines_itself_stays() -> None:
    child = Child(1, d=5)
    assert (repr(child), child.made, child.d) == ("own", 2, 5)
