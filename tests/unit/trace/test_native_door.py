"""The door to the native core: what Python knows of it is what its header says, and nothing of C++
comes through.
"""

from __future__ import annotations

import re
import subprocess
import sys
from ctypes import c_int32, c_int64, c_uint32, c_uint64, c_void_p
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest

from outpace import _native
from outpace.model import OutpaceError

HEADER = Path(__file__).parents[3] / "native" / "include" / "outpace.h"
NUMBERS = {"int32_t": c_int32, "int64_t": c_int64, "uint32_t": c_uint32, "uint64_t": c_uint64}


def declared() -> dict[str, tuple[str, tuple[object, ...]]]:
    """Result and argument types of every function of the header."""
    text = re.sub(r"/\*.*?\*/", "", HEADER.read_text(encoding="utf-8"), flags=re.DOTALL)
    found: dict[str, tuple[str, tuple[object, ...]]] = {}
    for result, name, arguments in re.findall(r"OX_API ([\w ]+?) (ox_\w+)\((.*?)\);", text, flags=re.DOTALL):
        types = [argument.rsplit(" ", 1)[0].strip() for argument in arguments.split(",") if argument.strip() != "void"]
        found[name] = result, tuple(c_void_p if t.endswith("*") else NUMBERS[t] for t in types)
    return found


def test_the_abi_is_the_headers() -> None:
    assert crc32(HEADER.read_bytes()) == _native.ABI, "the header has changed: change ABI, and what else it asks for"


def test_every_function_is_declared_as_the_header_says() -> None:
    header = declared()
    assert header.pop("ox_abi") == ("uint32_t", ())
    assert {name: types for name, (result, types) in header.items() if result == "void"} == dict.fromkeys(
        _native.FREE_FUNCTIONS, (c_void_p,)
    )
    assert {name: types for name, (result, types) in header.items() if result == "int32_t"} == _native.SIGNATURES


def test_a_library_of_other_sources_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_native, "ABI", _native.ABI ^ 1)
    _native.load_library.cache_clear()
    try:
        with pytest.raises(OutpaceError, match=r"is of another version than its Python files. Reinstall it: pip install"):
            _native.load_library()
    finally:
        _native.load_library.cache_clear()


def test_arguments_of_the_wrong_kind_are_refused() -> None:
    with pytest.raises(Exception, match=r"argument 1.*TypeError|wrong type"):
        _native.call("ox_nest", "lines", None, None, None, None, 0, None, 1, None, None, None)
    with pytest.raises(ValueError, match="contiguous"):
        _native.call("ox_aggregated", 0, np.zeros((4, 4))[:, 0], np.zeros((4, 4))[:, 0])


SHORT = """
import resource
import numpy as np
from outpace import _native
_native.load_library()
column = np.zeros(16, np.int32)
size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + (64 << 20), resource.RLIM_INFINITY))
try:
    _native.call("ox_spread", 16, column, 1 << 28, column, column, 0, column, column, column)
except MemoryError as error:
    print(error)
"""


def test_an_allocation_that_throws_is_a_memory_error() -> None:
    done = subprocess.run([sys.executable, "-c", SHORT], capture_output=True, text=True, timeout=240)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "an allocation of the native core failed (in ox_spread)\n"


def test_an_unknown_format_fails() -> None:
    with pytest.raises(RuntimeError, match=r"it failed \(in ox_export_open\)"):
        _native.call("ox_export_open", 1, 77, c_uint64())
