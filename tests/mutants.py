"""Damage that knows the form: a JSON document with some of its values changed, and a profile with some of its fields changed."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

from tests.xspace_proto import XSpace

ODD: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 3, 2**31, 2**53 + 1, 2**63, -(2**63), 2**64, 10**400, 0.5, -0.0, 1e-320, 1e308, -1e308),
    *(
        float("nan"),
        float("inf"),
        float("-inf"),
        "",
        " ",
        "0",
        "=1+1",
        "\x1b[31m",
        "\u202e",
        "\ud800",
        "\0",
        "x" * 5000,
        "/",
        "a" * 300 + "/" * 300,
    ),
    *([], {}, [[]], [None], {"": None}),
)


def document(seed: int, original: Any) -> str:
    """The JSON text of a document with one to six values of it changed: taken away, doubled, exchanged, or made into something else."""
    chance = random.Random(seed)
    changed = [copy.deepcopy(original)]
    for _ in range(chance.choice((1, 1, 1, 2, 3, 6))):
        _change(chance, changed)
    text = json.dumps(changed[0])
    return text[: chance.randrange(len(text))] if chance.random() < 0.02 else text


def _change(chance: random.Random, root: list[Any]) -> None:
    holder, key = _somewhere(chance, root)
    kind = chance.randrange(6)
    if kind == 0 and holder is not root:
        del holder[key]
    elif kind == 1 and isinstance(holder, list) and holder is not root:
        holder.insert(chance.randrange(len(holder) + 1), copy.deepcopy(holder[key]))
    elif kind == 2:
        others = [_somewhere(chance, root) for _ in range(20)]
        other, at = next((place for place in others if type(place[0][place[1]]) is type(holder[key])), others[0])
        holder[key] = copy.deepcopy(other[at])
    elif kind == 3 and isinstance(holder[key], (int, float)) and not isinstance(holder[key], bool):
        holder[key] = chance.choice((-holder[key], holder[key] * 1000, holder[key] + 1, 0, float(holder[key] % 2**60), 2**62))
    else:
        alike = [odd for odd in ODD if isinstance(odd, type(holder[key])) and odd != holder[key]]
        holder[key] = copy.deepcopy(chance.choice(alike if alike and chance.random() < 0.75 else ODD))


def _somewhere(chance: random.Random, root: list[Any]) -> tuple[Any, Any]:
    """A place in a document, as what holds it and its key: each level down the tree is about as likely as the next."""
    holder: Any = root
    key: Any = 0
    while isinstance(holder[key], (list, dict)) and holder[key] and (holder is root or chance.random() < 0.8):
        holder = holder[key]
        key = chance.choice(list(holder)) if isinstance(holder, dict) else chance.randrange(len(holder))
    return holder, key


INTEGERS = (0, 1, -1, 2, 7, 1000, 2**31 - 1, 2**31, 2**32, 10**12, 2**53, 2**62, 2**63 - 1, -(2**63), -(2**31), -1000)
DOUBLES = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-320, 1e308, -1e308, float("nan"), float("inf"), float("-inf"))
TEXTS = (
    "",
    " ",
    "x" * 5000,
    "=1+1",
    "\x1b[31m",
    "\u202e",
    "\0",
    "Iterator::",
    "Iterator::Root::Map",
    "train",
    "#a=1,b=2#",
    "::",
    "é",
    "/",
    "XLA Ops",
    "Steps",
)


def profile(seed: int, original: bytes) -> bytes:
    """A profile with one to eight fields changed, taken away, doubled, or made the same in all messages of one kind; some lose bytes, too."""
    chance = random.Random(seed)
    space = XSpace.FromString(original)
    for _ in range(chance.choice((1, 1, 2, 3, 8))):
        _change_field(chance, space)
    data = bytearray(space.SerializeToString())
    if chance.random() < 0.2 and data:
        for _ in range(chance.choice((1, 3, 20))):
            data[chance.randrange(len(data))] = chance.randrange(256)
    return bytes(data[: chance.randrange(len(data))] if chance.random() < 0.1 and data else data)


def _change_field(chance: random.Random, message: Any) -> None:
    """Change a field of a message somewhere below: what holds others is entered more often than changed itself."""
    while True:
        fields = message.DESCRIPTOR.fields
        field = chance.choice(fields)
        value = getattr(message, field.name)
        if field.message_type is None:
            break
        if not value or chance.random() < 0.15:
            break
        by_key = field.message_type.GetOptions().map_entry
        message = value[chance.choice(list(value))] if by_key else chance.choice(value)
    if field.message_type is None:
        _change_scalar(chance, message, field)
    elif field.message_type.GetOptions().map_entry:
        _change_map(chance, value)
    elif value:
        _change_list(chance, message, field, value)


def _change_scalar(chance: random.Random, message: Any, field: Any) -> None:
    odd: Any = {field.CPPTYPE_STRING: TEXTS, field.CPPTYPE_DOUBLE: DOUBLES}.get(field.cpp_type, INTEGERS)
    value = chance.choice(odd)
    if field.type == field.TYPE_BYTES:
        value = value.encode()
    if field.cpp_type == field.CPPTYPE_UINT64:
        value %= 2**64
    if isinstance(getattr(message, field.name), type(value)):
        setattr(message, field.name, value)
    else:  # a list of scalars
        getattr(message, field.name).append(value)


def _change_map(chance: random.Random, value: Any) -> None:
    keys = list(value)
    if len(keys) > 1 and chance.random() < 0.5:
        first, second = chance.sample(keys, 2)
        value[first].CopyFrom(value[second])
    elif keys:
        del value[chance.choice(keys)]


def _change_list(chance: random.Random, message: Any, field: Any, value: Any) -> None:
    at = chance.randrange(len(value))
    kind = chance.randrange(5)
    if kind == 0:
        del value[at]
    elif kind == 1:
        value.add().CopyFrom(value[at])
    elif kind == 2:
        value[at].CopyFrom(chance.choice(value))
    elif kind == 3:
        message.ClearField(field.name)
    else:  # one field of all of them becomes the same
        scalars = [each for each in value[at].DESCRIPTOR.fields if each.message_type is None]
        same, state = chance.choice(scalars), chance.getstate()
        for item in value:
            chance.setstate(state)
            _change_scalar(chance, item, same)
