# SPDX-License-Identifier: Apache-2.0
"""A process that has imported frameworks, and forks: `python -m outpace.tune.starts.server PLAN`.

A framework starts no thread and opens no device before it computes something; where one does,
nothing is forked. A fork is a process that has just begun: its descriptors, folder, variables, and
chance are its own, and what was imported before is not there until the script imports it (`_Held`).
Where the script does that in another environment than it was seen to have, the process begins anew,
without what was imported.
"""

from __future__ import annotations

import fcntl
import gc
import importlib
import json
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, NoReturn

from outpace.capture.process_exit import end_process
from outpace.tune.starts.forks import NONE
from outpace.tune.starts.imports import FRAMEWORKS, changed_by_script, runs_script

# What our own processes import before the script runs.
BEFORE = ("numpy", "outpace.tune.same.child", "outpace.tune.trial.child")
_DEVICES = ("/dev/nvidia", "/dev/kfd", "/dev/dri", "/dev/accel")
_HIGH = 200  # descriptors from here on


class _Held:
    """Modules that were imported, for a fork: a finder that hands them out where the script imports
    them.

    changed: variables that the script changes before it imports the first framework. made:
    variables that importing them changed.
    """

    def __init__(self, names: Sequence[str], changed: Mapping[str, str | None]) -> None:
        self.changed = changed
        self.brought: dict[str, list[str]] = {}  # by framework: the names of what it imported
        self.made: dict[str, dict[str, str]] = {}
        self._anew: Any = None
        self._process = 0
        for name in names:
            known, variables = set(sys.modules), dict(os.environ)
            importlib.import_module(name)
            self.brought[name] = [each for each in sys.modules if each not in known]
            self.made[name] = {each: value for each, value in os.environ.items() if variables.get(each) != value}
        theirs = {each for brought in self.brought.values() for each in brought if _root(each) not in sys.stdlib_module_names}
        self.modules = {each: sys.modules[each] for each in theirs if each in sys.modules}

    def begin(self, anew: Any) -> None:
        """In a fork: nothing of it is imported. anew: called where the process has to
        begin anew.
        """
        self._anew, self._process = anew, os.getpid()
        for name in self.modules:
            del sys.modules[name]
        sys.meta_path.insert(0, self)

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Part of the import protocol."""
        if name not in self.modules:
            return None
        if runs_script() and os.getpid() == self._process and not self._as_seen():
            self._anew()
        spec = ModuleSpec(name, self)  # type: ignore[arg-type] # a loader by the protocol
        spec.loader_state = self.modules[name].__spec__
        return spec

    def _as_seen(self) -> bool:
        """Whether the script is where it was seen to import the first framework."""
        of_imports = {each for made in self.made.values() for each in made}
        changed = {each: value for each, value in changed_by_script().items() if each not in of_imports}
        return changed == self.changed

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The module as it is."""
        return self.modules[spec.name]

    def exec_module(self, module: ModuleType) -> None:
        """A framework brings all that it has imported; other frameworks among that by imports of
        their own, which may be waited for.
        """
        spec = module.__spec__.loader_state if module.__spec__ is not None else None
        module.__spec__, module.__loader__ = spec, getattr(spec, "loader", None)
        name = spec.name if spec is not None else module.__name__
        brought = self.brought.get(name, [])
        os.environ.update(self.made.get(name, {}))
        for each in brought:
            if each in self.modules and each not in FRAMEWORKS:
                sys.modules.setdefault(each, self.modules[each])
        for each in brought:
            if each in FRAMEWORKS and each != name:
                importlib.import_module(each)


def _root(name: str) -> str:
    return name.partition(".")[0]


def _computes(threads: int) -> bool:
    """Whether something was begun that a fork would not have: a thread, or a device."""
    if len(os.listdir("/proc/self/task")) > threads:
        return True
    return any(os.path.realpath(f"/proc/self/fd/{each}").startswith(_DEVICES) for each in os.listdir("/proc/self/fd"))


def _moved(descriptor: int) -> int:
    """The same under a number that no process wants."""
    high = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _HIGH)
    os.close(descriptor)
    return high


def _become(request: dict[str, Any], descriptors: Sequence[int], held: _Held) -> None:
    """In a fork: be the process that was asked for."""
    if request["session"]:
        os.setsid()
    for wanted, each in zip(request["passed"], descriptors, strict=True):
        os.dup2(each, wanted)
        os.close(each)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    for number in (signal.SIGINT, signal.SIGCHLD):
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    module, arguments = request["module"], request["arguments"]

    def anew() -> NoReturn:
        for each in (1, 2):
            os.ftruncate(each, 0)
            os.lseek(each, 0, os.SEEK_SET)
        os.execve(sys.executable, [sys.executable, "-m", module, *arguments], request["environment"])

    held.begin(anew)
    sys.modules["numpy"].random.seed()
    sys.argv[:] = [sys.modules[module].__file__ or module, *arguments]
    sys.path[0] = os.getcwd()
    sys.modules[module].main(arguments)


def _fork(told: socket.socket, request: dict[str, Any], descriptors: Sequence[int], held: _Held) -> None:
    """In a fork that tells of another one: its number, and its exit code. It keeps its number until
    that was read.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    process = os.fork()
    if process == 0:
        told.close()
        try:
            _become(request, descriptors, held)
        except BaseException as error:  # its `main` ends the process
            sys.excepthook(type(error), error, error.__traceback__)
        end_process(1)
    for each in descriptors:
        os.close(each)
    told.send(str(process).encode())
    ended = os.waitid(os.P_PID, process, os.WEXITED | os.WNOWAIT)
    assert ended is not None
    told.send(str(ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status).encode())
    told.recv(1)


def _serve(asked: socket.socket, held: _Held, threads: int) -> None:
    """Fork as asked, until nobody asks any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that tell of others
    gc.collect()
    gc.freeze()
    while True:
        said, descriptors, *_ = socket.recv_fds(asked, 16, 64)
        if not said:
            return
        teller, asked_for, *descriptors = (_moved(each) for each in descriptors)
        with socket.socket(fileno=teller) as told, open(asked_for, "rb") as file:
            request = json.loads(os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0))
            if _computes(threads):
                told.send(NONE)
            elif os.fork() == 0:
                asked.close()
                file.close()
                try:
                    _fork(told, request, descriptors, held)
                finally:
                    os._exit(0)
        for each in descriptors:
            os.close(each)


def main() -> None:
    """Import, and serve."""
    plan = json.loads(sys.argv[1])
    for each in BEFORE:
        importlib.import_module(each)
    threads = len(os.listdir("/proc/self/task"))
    environment = dict(os.environ)
    for name, value in plan["changed"].items():
        os.environ.update({name: value} if value is not None else {})
        if value is None:
            os.environ.pop(name, None)
    held = _Held(plan["names"], plan["changed"])
    os.environ.clear()
    os.environ.update(environment)
    _serve(socket.socket(fileno=plan["asked"]), held, threads)


if __name__ == "__main__":
    main()
