# SPDX-License-Identifier: Apache-2.0
"""Finds the addresses of the workers to capture: a list, a file, a Ray cluster, or the cluster that
`TF_CONFIG` describes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping

from outpace._dataclass import dataclass
from outpace.capture.remote.ray_ import CLIENT_PORT, SCHEME, find_workers
from outpace.capture.remote.wire import DEFAULT_PORT
from outpace.model.errors import NotFoundError, UsageError
from outpace.model.files import parse_json
from outpace.model.input_files import format_error

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")
_ADDRESS = re.compile(r"(?:\[([0-9A-Fa-f:.]+(?:%[A-Za-z0-9._-]+)?)\]|([A-Za-z0-9_][A-Za-z0-9._-]*))(?::([0-9]{1,5}))?")
_MAX_FILE_CHARS = 1 << 20  # maximum number of characters in a file of addresses
_TRAINING_TASKS = ("chief", "master", "worker")  # kinds of tasks in a cluster that run training steps


@dataclass(frozen=True)
class Address:
    """Address of a worker's profiler server; `host` is without brackets."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def file_stem(self) -> str:
        """Name of the worker's profile, without its suffix."""
        return _UNSAFE.sub("_", f"{self.host}_{self.port}")


@dataclass(frozen=True)
class Addresses:
    """Addresses of workers.

    addresses: distinct addresses in the order given.
    duplicates: addresses that were given more than once.
    """

    addresses: tuple[Address, ...]
    duplicates: tuple[Address, ...] = ()


def read_addresses(addresses: str | Iterable[str], port: int = DEFAULT_PORT, run: str = "") -> Addresses:
    """Return the addresses that `host:port` items, `@FILE` items and Ray clusters stand for.

    addresses: items, or text with commas between items. A file has one address per line, `#` begins
        a comment. `ray://auto` and `ray://host:port` stand for the workers of a Ray cluster. A
        `grpc://` in front is ignored.
    port: port of items without one.
    run: run of a Ray cluster whose workers are taken.

    Raises UsageError for what is no address or for none at all, NotFoundError for a file that
    cannot be read or a cluster without such workers, CaptureError for a cluster that cannot be
    reached.
    """
    items = [addresses] if isinstance(addresses, str) else list(addresses)
    texts = [text.strip() for item in items for text in item.split(",")]
    if run and not any(text.startswith(SCHEME) for text in texts):
        raise UsageError("A run is chosen among those of a Ray cluster. Give ray://auto as the address, or leave --run out.")
    parsed: list[Address] = []
    for text in texts:
        parsed += _expand_item(text, port, run) if text else []
    if not parsed:
        raise UsageError("No address is given. Give HOST:PORT of each worker's profiler server, or @FILE with one per line.")
    distinct = tuple(dict.fromkeys(parsed))
    return Addresses(distinct, tuple(address for address in distinct if parsed.count(address) > 1))


def read_cluster_addresses(environ: Mapping[str, str] | None = None, port: int = DEFAULT_PORT) -> Addresses:
    """Return the hosts of the training tasks in `TF_CONFIG`, each with the profiler's `port`.

    The ports inside `TF_CONFIG` are those of the training cluster, where no profiler listens.
    Raises UsageError when it is not set, cannot be read or names no training task.
    """
    text = (os.environ if environ is None else environ).get("TF_CONFIG", "")
    if not text:
        raise UsageError("The environment variable TF_CONFIG is not set here. Give the addresses, or @FILE with one per line.")
    try:
        cluster = parse_json(text)["cluster"]
        tasks = [str(task) for kind in _TRAINING_TASKS for task in cluster.get(kind, ())]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"TF_CONFIG cannot be read: it has no cluster of task addresses ({error!r}).") from None
    if not tasks:
        raise UsageError(f"TF_CONFIG names no training task; {', '.join(_TRAINING_TASKS)} are those that are looked for.")
    return read_addresses([str(Address(parse_address(task, port).host, port)) for task in tasks])


def parse_address(text: str, port: int = DEFAULT_PORT) -> Address:
    """Return the address that a text stands for. Raises UsageError when it is none."""
    place = text.strip().removeprefix("grpc://").rstrip("/")
    match = _ADDRESS.fullmatch(place)
    number = int(match[3] or port) if match else 0
    if match and 0 < number < 65536:
        return Address(match[1] or match[2], number)
    if re.fullmatch(r"[0-9A-Fa-f:.]*:[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*", place):
        raise UsageError(f"{text} is not clear: write an IPv6 address in brackets, like [::1]:{port}.")
    raise UsageError(f"{text} is no address. Write HOST:PORT, like 10.0.0.2:{port}; without :PORT it is {port}.")


def _expand_item(text: str, port: int, run: str) -> list[Address]:
    """Return the addresses that an item stands for."""
    if text.startswith("@"):
        return _read_file(text[1:], port)
    if not text.startswith(SCHEME):
        return [parse_address(text, port)]
    place = text.removeprefix(SCHEME)
    return [
        parse_address(item) for item in find_workers(place if place == "auto" else str(parse_address(place, CLIENT_PORT)), run)
    ]


def _read_file(path: str, port: int) -> list[Address]:
    """Return the addresses in a file."""
    try:
        with open(os.path.expanduser(path), encoding="utf-8") as file:
            text = file.read(_MAX_FILE_CHARS + 1)  # works for a pipe, too: `@<(...)`
    except (OSError, UnicodeDecodeError) as error:
        raise NotFoundError(f"The list of addresses {path} cannot be read: {format_error(error)}.") from None
    if len(text) > _MAX_FILE_CHARS:
        raise UsageError(f"{path} has more than {_MAX_FILE_CHARS:,} characters, as no list of addresses has.")
    lines = [line.partition("#")[0].strip() for line in text.splitlines()]
    return [parse_address(part, port) for line in lines for part in line.split(",") if part.strip()]
