"""Builds the native core; everything else is declared in pyproject.toml."""

import sys
from glob import glob
from pathlib import Path
from zlib import crc32

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

ABI = crc32(Path("native/include/outpace.h").read_bytes())  # which interface the library has; outpace._native knows it too

# What the core reads was written by others: a fault of it should end the process and not go on.
LINUX = sys.platform == "linux"
HARDENED = ["-fstack-protector-strong", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2"] if LINUX else []
READ_ONLY = ["-Wl,-z,relro,-z,now"] if LINUX else []


class BuildCore(build_ext):
    """The core is a plain shared library for ctypes, not a Python module: no Python version in its name."""

    def get_ext_filename(self, fullname: str) -> str:
        return fullname.replace(".", "/") + ".so"


class AnyPythonWheel(bdist_wheel):
    """One wheel serves every Python 3, because the library links against none."""

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


setup(
    ext_modules=[
        Extension(
            "outpace._native.core",
            sources=sorted(glob("native/src/*.cc")),
            depends=sorted(
                [*glob("native/include/*.h"), *glob("native/src/*.h")]
            ),  # which also puts them into the source distribution
            include_dirs=["native/include"],
            define_macros=[("OX_ABI", f"{ABI}u")],
            language="c++",
            extra_compile_args=["-std=c++17", "-O3", "-g0", "-fvisibility=hidden", "-Wall", "-Wextra", *HARDENED],
            extra_link_args=["-pthread", *READ_ONLY],
        )
    ],
    cmdclass={"build_ext": BuildCore, "bdist_wheel": AnyPythonWheel},
)
