"""A wheel's platform tag, computed from the library in it: what the binary asks of a system, and
not what somebody meant to build.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import lief

LIBRARY = "outpace/_native/core.so"
_GLIBC = re.compile(r"GLIBC_(\d+)\.(\d+)")
_LEAST_GLIBC = (2, 17)  # of no older one is there a machine with a supported Python
_LINUX = {lief.ELF.ARCH.X86_64: "x86_64", lief.ELF.ARCH.AARCH64: "aarch64"}
_MACOS = {lief.MachO.Header.CPU_TYPE.X86_64: "x86_64", lief.MachO.Header.CPU_TYPE.ARM64: "arm64"}
_WINDOWS = {lief.PE.Header.MACHINE_TYPES.AMD64: "win_amd64"}
_SYSTEM = {
    "glibc": {
        "libc.so.6",
        "libm.so.6",
        "libpthread.so.0",
        "libdl.so.2",
        "librt.so.1",
        "ld-linux-x86-64.so.2",
        "ld-linux-aarch64.so.1",
    },
    "musl": {"libc.so"},
    "macos": {"/usr/lib/libSystem.B.dylib"},
    "windows": {"kernel32.dll", "ntdll.dll", "advapi32.dll"},
}
"""Libraries that every system of a kind has; on Windows also those of the C runtime, which is a
part of it.
"""


class UntaggableError(Exception):
    """The library asks for something that no tag promises."""


def tagged(wheel: Path, out: Path) -> Path:
    """The wheel, in `out`, under the tag of its library."""
    with ZipFile(wheel) as packed:
        platform = tag(packed.read(LIBRARY))
    command = [sys.executable, "-m", "wheel", "tags", "--platform-tag", platform, str(wheel)]
    name = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1]
    return Path(shutil.move(wheel.parent / name, out / name))  # perhaps to another file system


def tag(library: bytes) -> str:
    """The platform tag (PEP 600, PEP 656, and as `packaging.tags` names macOS and Windows). Raises
    UntaggableError.
    """
    binary = lief.parse(library)
    if isinstance(binary, lief.ELF.Binary):
        return _linux(binary)
    if isinstance(binary, lief.MachO.Binary):
        return _macos(binary)
    if isinstance(binary, lief.PE.Binary):
        return _windows(binary)
    raise UntaggableError("the library is of no format that is known here")


def _linux(binary: lief.ELF.Binary) -> str:
    machine = _LINUX[binary.header.machine_type]
    needed = {str(name) for name in binary.libraries}
    if needed <= _SYSTEM["musl"]:
        return f"musllinux_1_2_{machine}"  # no version stands in a library for musl: 1.2 is the one of all supported Alpines
    _only(needed, "glibc")
    versions = [auxiliary.name for need in binary.symbols_version_requirement for auxiliary in need.get_auxiliary_symbols()]
    found = [(int(match[1]), int(match[2])) for match in map(_GLIBC.fullmatch, versions) if match]
    major, minor = max([_LEAST_GLIBC, *((number[0], number[1]) for number in found)])
    return f"manylinux_{major}_{minor}_{machine}"


def _macos(binary: lief.MachO.Binary) -> str:
    itself = lief.MachO.LoadCommand.TYPE.ID_DYLIB
    _only({str(library.name) for library in binary.libraries if library.command != itself}, "macos")
    major, minor, *_ = binary.build_version.minos
    return f"macosx_{major}_{minor}_{_MACOS[binary.header.cpu_type]}"


def _windows(binary: lief.PE.Binary) -> str:
    needed = {str(name).lower() for name in binary.libraries}
    _only({name for name in needed if not name.startswith("api-ms-win-crt-")}, "windows")
    return _WINDOWS[binary.header.machine]


def _only(needed: set[str], kind: str) -> None:
    if foreign := sorted(needed - _SYSTEM[kind]):
        raise UntaggableError(f"the library needs {', '.join(foreign)}, which not every system has")
