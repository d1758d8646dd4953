"""All wheels of a release, made on one Linux machine: python release/wheels.py [--out dist]
[PLATFORM ...]

zig, which comes from PyPI, compiles the core for every platform and puts libc++ into it: no
compiler, SDK or container is asked for. A wheel's tag is then computed from the library in it, by
`tags.py`. What is needed here stands in `requirements.txt` beside this file.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import tags

ROOT = Path(__file__).resolve().parents[1]
TARGETS = {
    "linux-x86_64": "x86_64-linux-gnu.2.17",
    "linux-aarch64": "aarch64-linux-gnu.2.17",
    "musl-x86_64": "x86_64-linux-musl",
    "musl-aarch64": "aarch64-linux-musl",
    "macosx-11.0-x86_64": "x86_64-macos.11.0",
    "macosx-11.0-arm64": "aarch64-macos.11.0",
    "win-amd64": "x86_64-windows-gnu",
}
"""What is built for: as Python names a platform (`sysconfig.get_platform`; with musl it says
linux), and as zig does.
"""


def main() -> None:
    """Build what is asked for, all by default."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("platforms", nargs="*", metavar="PLATFORM", help=", ".join(TARGETS), default=list(TARGETS))
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    for platform in asked.platforms:
        print(build(platform, asked.out), flush=True)


def build(platform: str, out: Path) -> Path:
    """The wheel for a platform."""
    with tempfile.TemporaryDirectory() as folder:
        setup = [sys.executable, "setup.py", "-q", "build", "-b", f"{folder}/build", "bdist_wheel", "-d", folder]
        compiler = shlex.join([sys.executable, "-m", "ziglang", "c++", "-target", TARGETS[platform], "-s"])
        python = platform.replace("musl", "linux")
        environment = {**os.environ, "CXX": compiler, "_PYTHON_HOST_PLATFORM": python}
        subprocess.run(setup, cwd=ROOT, env=environment, check=True)
        (made,) = Path(folder).glob("*.whl")
        return tags.tagged(made, out)


if __name__ == "__main__":
    main()
