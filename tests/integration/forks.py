"""Runs programs in forks of a process that has imported frameworks: `python forks.py tensorflow`.

A line of its input is a program, as JSON: its text, folder, arguments and environment, and the
files for what it prints. The answer is the id of its process, and in the end its exit code. A
framework starts no thread before it computes something, so that a fork behaves as a process that
has just imported it.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from types import ModuleType
from typing import Any

import numpy as np


def given() -> dict[str, Any]:
    """The program to run, in its fork. The process that forks ends with its input."""
    for line in sys.stdin:
        fork = os.fork()
        if fork == 0:
            program: dict[str, Any] = json.loads(line)
            return program
        print(fork, flush=True)
        print(os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
    sys.exit()


def become(program: dict[str, Any]) -> ModuleType:
    """Make this process one that was started for the program; its `__main__`."""
    for number, path in enumerate((os.devnull, program["out"], program["err"])):
        file = os.open(path, os.O_RDWR)
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(program["environment"])
    os.chdir(program["folder"])
    np.random.seed()
    sys.argv[:], sys.path[0] = program["argv"], program["folder"]
    main = sys.modules["__main__"] = ModuleType("__main__")
    main.__file__ = program["argv"][0]
    return main


if __name__ == "__main__":
    for name in sys.argv[1:]:
        importlib.import_module(name)
    asked = given()
    exec(compile(asked["text"], asked["argv"][0], "exec"), become(asked).__dict__)
