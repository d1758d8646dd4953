"""Damage that knows the form: a JSON document with some of its values changed, and a profile with
some of its fields changed.
"""

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
    """The JSON text of a document with one to six values of it changed: taken away, doubled,
    exchanged, or made into something else.
    """
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
    """A place in a document, as what holds it and its key: each level down the tree is about as
    likely as the next.
    """
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
    """A profile with one to eight fields changed, taken away, doubled, or made the same in all
    messages of one kind; some lose bytes, too.
    """
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
    """Change a field of a message somewhere below: what holds others is entered more often than
    changed itself.
    """
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


NAMES = (
    *("/device:GPU:0", "/device:GPU:1", "/device:TPU:0", "/host:CPU", "/host:metadata", "/device:CUSTOM:0", "Task Environment"),
    *("XLA Ops", "XLA Modules", "Steps", "Async XLA Ops", "Framework Ops", "python", "tf_Compute/1", "Stream #7(Compute)"),
    *("Stream #8(MemcpyH2D)", "train", "Iterator::Root", "Iterator::Root::Prefetch", "BatchV2", "TraceContext", "FunctionRun"),
    *(
        "PjitFunction(f)",
        "ExecutorState::Process",
        "TFE_Py_ExecuteCancelable",
        "a/b:MatMul",
        "MemcpyH2D",
        "step_num",
        "_r",
        "hlo_op",
    ),
    *(
        "correlation_id",
        "hlo_module",
        "program_id",
        "group_id",
        "tf_op",
        "batch_size",
        "bytes_allocated",
        "kernel_details",
        "id",
    ),
)


def program(seed: int, original: bytes, other: bytes) -> bytes:
    """A profile that may be a program's and is none that was captured: one to four changes to what
    many of its messages say alike.

    Names, ids, times and nesting change for a line, for what bears a name, or for all; whole lines
    and planes double, move, or come from `other`, a profile of something else. One in four also has
    a field or bytes changed as `profile` does.
    """
    chance = random.Random(seed)
    space = XSpace.FromString(original)
    for _ in range(chance.choice((1, 1, 2, 2, 3, 4))):
        chance.choice(_CHANGES)(chance, space)
    if chance.random() < 0.1:
        space.planes.extend(XSpace.FromString(other).planes)
    data = bytes(space.SerializeToString())
    return profile(seed, data) if chance.random() < 0.25 else data


def _planes(space: Any) -> list[Any]:
    return [plane for plane in space.planes if plane.lines] or list(space.planes)


def _lines(chance: random.Random, space: Any) -> list[tuple[Any, Any]]:
    """Some lines with their planes: one, those of a plane, or all."""
    every = [(plane, line) for plane in space.planes for line in plane.lines]
    if not every or chance.random() < 0.3:
        return every
    plane, line = chance.choice(every)
    return [(plane, line)] if chance.random() < 0.6 else [(plane, each) for each in plane.lines]


def _events(chance: random.Random, space: Any) -> list[Any]:
    """Events of some lines: all, those of one name, those that carry one stat, or some
    at random.
    """
    lines = _lines(chance, space)
    every = [event for _, line in lines for event in line.events]
    kind = chance.randrange(4)
    if not every or kind == 0:
        return every
    one = chance.choice(every)
    if kind == 1:
        return [event for event in every if event.metadata_id == one.metadata_id]
    if kind == 2 and one.stats:
        stat = chance.choice(one.stats).metadata_id
        return [event for event in every if any(each.metadata_id == stat for each in event.stats)]
    return [event for event in every if chance.random() < 0.3]


def _last(chance: random.Random, space: Any) -> None:
    """How long events last."""
    kind, factor = chance.randrange(6), chance.choice((0.0, 0.001, 3.0, 1000.0))
    for event in _events(chance, space):
        odd = chance.choice((0, 1, -1, 10**12, 2**62, -(10**9)))
        event.duration_ps = (0, 1, odd, int(event.duration_ps * factor) % 2**63, -event.duration_ps, event.offset_ps % 10**9)[
            kind
        ]


def _begin(chance: random.Random, space: Any) -> None:
    """When events begin."""
    kind, far = chance.randrange(5), chance.choice((1, 10**6, 10**9, 10**12, 2**62))
    for event in _events(chance, space):
        to = (0, -event.offset_ps, event.offset_ps // 1000, chance.randrange(far), event.offset_ps // 10**9 * 10**9)[kind]
        event.ClearField("data") if chance.random() < 0.001 else setattr(event, "offset_ps", to)


def _nest(chance: random.Random, space: Any) -> None:
    """Events lie in each other, overlap, or all in the first."""
    kind = chance.randrange(3)
    for _, line in _lines(chance, space):
        if not line.events:
            continue
        first, last = line.events[0], line.events[-1]
        length = max(last.offset_ps + last.duration_ps - first.offset_ps, 0) % 2**60
        if kind == 0:
            first.duration_ps = length
        for at, event in enumerate(line.events):
            if kind == 1:
                event.offset_ps, event.duration_ps = first.offset_ps + at, max(length - 2 * at, 0)
            elif kind == 2:
                event.duration_ps = event.duration_ps * 3 % 2**60


def _clock(chance: random.Random, space: Any) -> None:
    """When lines begin."""
    by = chance.choice((1, -1, 10**3, -(10**6), 10**6, 10**9, 10**15, -(10**18)))
    for _, line in _lines(chance, space):
        line.timestamp_ns = chance.choice((0, by, (line.timestamp_ns + by) % 2**62))


def _thin(chance: random.Random, space: Any) -> None:
    """Some events are missing, are there twice, or stand in another order."""
    kind, share = chance.randrange(4), chance.choice((0.02, 0.5, 0.9, 1.0))
    for _, line in _lines(chance, space):
        events = list(line.events)
        if kind == 0:
            events = [event for event in events if chance.random() > share]
        elif kind == 1:
            events = [event for event in events for _ in range(1 + (chance.random() < share))]
        elif kind == 2:
            chance.shuffle(events)
        else:
            events = events[: chance.choice((0, 1, 2))]
        copies = [type(event).FromString(event.SerializeToString()) for event in events]
        line.ClearField("events")
        line.events.extend(copies)


def _text(chance: random.Random, text: str) -> str:
    """A text that is nearly the same, or a known one."""
    at = chance.randrange(len(text) + 1)
    return chance.choice(
        (
            *(chance.choice(TEXTS), chance.choice(NAMES), text[:at], text[at:], text.replace("::", ""), text.replace("/", "")),
            *(
                text.rpartition("::")[2],
                text.partition("::")[0] + "::",
                text.upper(),
                text + text,
                f"{text}:{text}",
                text[::-1],
            ),
        )
    )


def _rename(chance: random.Random, space: Any) -> None:
    """Events, stats, lines or planes have other names: one, or all that begin alike."""
    if not space.planes:
        return
    plane = chance.choice(_planes(space))
    kind = chance.randrange(5)
    named = {
        0: plane.event_metadata.values(),
        1: plane.event_metadata.values(),
        2: plane.stat_metadata.values(),
        3: plane.lines,
    }
    every = list(named.get(kind, space.planes))
    if not every:
        return
    one = chance.choice(every)
    head = one.name[: chance.choice((4, 8, 12, 10**6))]
    state = chance.getstate()
    for each in [each for each in every if each.name.startswith(head)] if chance.random() < 0.6 else [one]:
        chance.setstate(state)
        each.name = _text(chance, each.name)
        if kind < 2 and each.display_name:
            each.display_name = ""


def _say(chance: random.Random, space: Any) -> None:
    """What stats say: nothing, the same, another type, another's, or twice."""
    events = [event for event in _events(chance, space) if event.stats]
    if not events:
        return
    stat = chance.choice(chance.choice(events).stats).metadata_id
    kind, odd = chance.randrange(7), chance.choice(INTEGERS)
    for event in events:
        for at in [at for at, each in enumerate(event.stats) if each.metadata_id == stat][::-1]:
            if kind == 6:
                event.stats.add().CopyFrom(event.stats[at])
                event.stats[-1].str_value = chance.choice(TEXTS)
            elif kind == 5:
                del event.stats[at]
            else:
                _speak(chance, event.stats[at], kind, odd)


def _speak(chance: random.Random, stat: Any, kind: int, odd: int) -> None:
    if kind == 0:
        stat.int64_value = odd
    elif kind == 1:
        stat.str_value = chance.choice(TEXTS)
    elif kind == 2:
        stat.double_value = chance.choice(DOUBLES)
    elif kind == 3:
        stat.int64_value = chance.randrange(5)
    else:
        stat.uint64_value = (stat.uint64_value or stat.ref_value or stat.int64_value) % 2**64 ^ (odd % 2**64)


def _move(chance: random.Random, space: Any) -> None:
    """Planes and lines are missing, are there twice, or belong to another plane."""
    if not space.planes:
        return
    plane, kind = chance.choice(_planes(space)), chance.randrange(6)
    if kind == 0:
        space.planes.add().CopyFrom(plane)
        space.planes[-1].name = chance.choice((plane.name, *NAMES[:7]))
    elif kind == 1:
        space.planes.remove(plane)
    elif plane.lines:
        line = chance.choice(plane.lines)
        if kind == 2:
            plane.lines.remove(line)
        else:
            to = chance.choice(space.planes) if kind == 3 else plane
            to.lines.add().CopyFrom(line)
            to.lines[-1].id = chance.choice((line.id, line.id + 1, 0))


def _forget(chance: random.Random, space: Any) -> None:
    """Names are missing, or are each other's."""
    if not space.planes:
        return
    plane = chance.choice(_planes(space))
    names = chance.choice((plane.event_metadata, plane.stat_metadata))
    keys = sorted(names)
    for key in chance.sample(keys, min(len(keys), chance.choice((1, 3, 10)))):
        if chance.random() < 0.5:
            del names[key]
        elif key in names and keys[0] in names:
            names[key].name, names[keys[0]].name = names[keys[0]].name, names[key].name


_CHANGES = (_last, _last, _begin, _nest, _clock, _thin, _rename, _rename, _rename, _say, _say, _move, _forget)
