"""Whatever Outpace opens of what others have made goes through `model/input_files.py`: every other
place that reads a file has its reason here.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.architecture.source import FILES, place, tree

_KERNEL = "the kernel's own files, by paths that are written here"
_OWN = "what this command, or a process that it started, has just written into a folder of its own"
_PACKAGE = "files of an installed package"
_WRITES = "opened to be written"
_RUN = "the source of code that runs in this very process"
OTHERS = {
    "model/input_files.py": "the one way",
    "_cpus.py": _KERNEL,
    "_memory.py": _KERNEL,
    "capture/process_tree.py": _KERNEL + "; and " + _OWN,
    "capture/frames.py": _RUN,
    "capture/libraries.py": "what an installer wrote beside a library that this very process imports from",
    "capture/repetition.py": _OWN,
    "capture/launcher.py": _OWN,
    "capture/line_start.py": "this process's own output",
    "capture/machine_load.py": _KERNEL,
    "capture/host_snapshots.py": _OWN + "; and " + _RUN,
    "capture/remote/addresses.py": "a list that the command names, which may come from a pipe (`@<(...)`); so much of it, and no more",
    "capture/remote/process_capture.py": _OWN,
    "capture/runner.py": _OWN + "; and the terminal",
    "capture/sampler.py": _RUN,
    "capture/script.py": "the script that is run here, as Python would read it",
    "capture/sources.py": _RUN,
    "capture/startup.py": _KERNEL,
    "cli/__init__.py": _WRITES,
    "cli/process.py": "the null device, in the place of a standard stream that is closed",
    "doctor/system.py": _KERNEL,
    "doctor/trial.py": _OWN,
    "mcp/__init__.py": _PACKAGE,
    "model/files.py": _WRITES,
    "monitor/memory.py": _KERNEL,
    "report/glossary.py": _PACKAGE,
    "report/recipes.py": _PACKAGE,
    "report/html.py": _PACKAGE,
    "store/logdir.py": "a run of our own, which is copied where it could not be uploaded",
    "store/tree.py": "a file of our own on its way to a store, and files of stores, which say what they are",
    "tools/__init__.py": _PACKAGE,
    "tune/climb/lines.py": _RUN,
    "tune/guard/__init__.py": _OWN,
    "tune/guard/kernel.py": _KERNEL,
    "tune/guard/mirror.py": _OWN,
    "tune/guard/mounts.py": _KERNEL,
    "tune/guard/overlay.py": "a folder's place, to mount on",
    "tune/guard/redirect.py": "files that the script opens, moves or links, put aside for it",
    "tune/loop/effects.py": _RUN,
    "tune/loop/statement.py": _RUN,
    "tune/loop/step.py": _RUN,
    "tune/patch/source.py": _RUN,
    "tune/same/lasting.py": _KERNEL,
    "tune/same/child.py": _OWN + "; and " + _RUN,
    "tune/same/files.py": "what the script has written while its files were watched, once it is known as a file of bounded size",
    "tune/same/prove.py": _OWN,
    "tune/same/reads.py": _RUN,
    "tune/same/record.py": _OWN,
    "tune/same/rest.py": _KERNEL,
    "tune/searched.py": _OWN,
    "tune/starts/forks.py": "memory of this process",
    "tune/starts/server.py": "memory of the process that asks",
    "tune/texts/edition.py": _OWN,
    "tune/trial/record.py": _KERNEL,
    "tune/trial/script.py": _KERNEL,
    "ui/pages.py": _PACKAGE,
    "ui/site.py": _OWN,
    "ui/timeline.py": "files of the viewer's package",
    "viewer/perfetto.py": _PACKAGE,
    "viewer/gzip_pipe.py": "a pipe of our own",
}
"""Files that read in another way, and why they may."""

_READERS = {"read_bytes", "read_text", "getlines", "getline", "updatecache", "getsource", "get_data", "fdopen"}
_OF_MODULES = {
    *("os.open", "io.open", "tokenize.open", "gzip.open", "io.FileIO", "np.load", "np.fromfile", "np.memmap", "mmap.mmap", "zipfile.ZipFile"),
    *("shutil.copyfile", "shutil.copy", "shutil.copy2", "shutil.copytree", "self.fs.open", "self.fs.cat_file", "self.fs.get_file"),
}  # fmt: skip


def writes(call: ast.Call) -> bool:
    """Whether a call opens for writing alone."""
    given = [*call.args[1:2], *(word.value for word in call.keywords if word.arg == "mode")]
    mode = given[0].value if given and isinstance(given[0], ast.Constant) else "r"
    return isinstance(mode, str) and mode[:1] in ("w", "a", "x") and "+" not in mode


def readers(module: ast.AST) -> Iterator[str]:
    """What in a module reads a file."""
    for node in ast.walk(module):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        method = name.rpartition(".")[2] if isinstance(node.func, ast.Attribute) else ""
        of_a_path = method == "open" and any(isinstance(a, ast.Constant) and isinstance(a.value, str) for a in node.args[:1])
        of_a_path &= not (of_a_path and ast.literal_eval(node.args[0])[:1] in ("w", "a", "x"))
        if (name == "open" and not writes(node)) or name in _OF_MODULES or method in _READERS or of_a_path:
            yield ast.unparse(node)


def test_every_file_of_others_is_opened_in_one_way() -> None:
    found = {place(path): list(readers(tree(path))) for path in FILES}
    assert {path: calls for path, calls in found.items() if calls and path not in OTHERS} == {}
    assert {path for path in OTHERS if not found[path]} == set(), "reasons that nobody needs any more"


@pytest.mark.parametrize(
    "text",
    [
        *("open(p)", "open(p, 'rb')", "open(p, mode='r+b')", "Path(p).read_text()", "p.read_bytes()", "p.open('rb')"),
        *("os.open(p, 0)", "tokenize.open(p)", "gzip.open(p)", "np.load(p)", "open(p, mode)", "open(p, 'w+')", "linecache.getlines(p)"),
    ],
)  # fmt: skip
def test_what_reads_is_found(text: str) -> None:
    assert list(readers(ast.parse(text)))


@pytest.mark.parametrize("text", ["open(p, 'wb')", "p.open('w')", "api.open(p)", "self.open(step)", "open(p, mode='ab')"])
def test_what_writes_is_not(text: str) -> None:
    assert not list(readers(ast.parse(text)))
