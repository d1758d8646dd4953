"""Builds the native core; everything else is declared in pyproject.toml.

`CXX` is the compiler. `_PYTHON_HOST_PLATFORM`, as everywhere in Python, is the platform to build
for: `release/wheels.py` sets both.
"""

import os
import shlex
import shutil
import subprocess
import sysconfig
import tempfile
from glob import glob
from pathlib import Path
from zlib import crc32

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

ABI = crc32(Path("native/include/outpace.h").read_bytes())  # which interface the library has; outpace._native knows it too
USUAL = (sysconfig.get_config_var("CXX") or "", "c++", "g++", "clang++")
FOUND = [command for each in USUAL if (command := shlex.split(each)) and shutil.which(command[0])] or [["c++"]]
COMPILER = shlex.split(os.environ.get("CXX", "")) or FOUND[0]
MORE = [flag for name in ("CPPFLAGS", "CXXFLAGS", "ARCHFLAGS", "LDFLAGS") for flag in shlex.split(os.environ.get(name, ""))]
FLAGS = ["-std=c++17", "-O3", "-g0", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-shared", "-pthread"]

# What the core reads was written by others: a fault of it should end the process and not go on.
HARDENED = ["-fstack-protector-strong", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2", "-Wl,-z,relro,-z,now"]
NAMED = ["-Wl,-install_name,core.so"]  # else the folder that it was built in stands in it
PLATFORM = sysconfig.get_platform().partition("-")[0]
OF_PLATFORM = {"linux": HARDENED, "macosx": NAMED}.get(PLATFORM, [])

NO_COMPILER = """\
Outpace's native core is C++17, and there is no compiler to build it with ({compiler}).
Install one (Debian, Ubuntu: apt install g++; Fedora: dnf install gcc-c++; macOS: xcode-select --install), or set CXX.
Wheels need none: docs/installing.md says for which machines there are some."""
FAILED = """\
Outpace's native core is C++17, and {compiler} failed to build it: what it says stands above.
GCC 9 and clang 9, or newer, build it; CXX=... pip install ... chooses another compiler."""


class BuildCore(build_ext):
    """The core is a plain shared library for ctypes, not a Python module: one name on every
    platform, no Python version in it.
    """

    def get_ext_filename(self, fullname: str) -> str:
        return fullname.replace(".", "/") + ".so"

    def build_extension(self, ext: Extension) -> None:
        core = Path(self.get_ext_fullpath(ext.name))
        core.parent.mkdir(parents=True, exist_ok=True)
        flags = [*FLAGS, *OF_PLATFORM, *MORE, f"-DOX_ABI={ABI}u", "-Inative/include"]
        try:
            with tempfile.TemporaryDirectory() as folder:  # some linkers leave more than the library beside it
                made = Path(folder) / core.name
                subprocess.run([*COMPILER, *flags, *ext.sources, "-o", str(made)], check=True)
                shutil.copy(made, core)
        except OSError as error:
            raise SystemExit(NO_COMPILER.format(compiler=f"{COMPILER[0]}: {error.strerror}")) from None
        except subprocess.CalledProcessError:
            raise SystemExit(FAILED.format(compiler=shlex.join(COMPILER))) from None


class AnyPythonWheel(bdist_wheel):
    """One wheel serves every Python 3, because the library links against none."""

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


setup(
    ext_modules=[Extension("outpace._native.core", sources=sorted(glob("native/src/*.cc")))],
    cmdclass={"build_ext": BuildCore, "bdist_wheel": AnyPythonWheel},
)
