"""What changes a function from elsewhere: containers of functions, other files of the program, lambdas, aliases, the environment."""

from __future__ import annotations

import importlib.util
import itertools
import linecache
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from outpace.tune.purity.reading import doubt

# By name: the data module, the training module, and what must be said; None: nothing speaks against `load`.
CASES: dict[str, tuple[str, str, str | None]] = {
    "dictionary of functions": (
        "import random\ndef jitter(x): return x + random.random()\nOPS = {'train': jitter}\ndef load(x): return OPS['train'](x)",
        "",
        "draws random numbers",
    ),
    "list of functions": (
        "import random\ndef jitter(x): return x + random.random()\nOPS = [jitter]\ndef load(x): return sum(op(x) for op in [*OPS])",
        "",
        "draws random numbers",
    ),
    "pure functions in a dictionary": (
        "def double(x): return 2 * x\nOPS = {'train': double}\ndef load(x): return OPS['train'](x)",
        "",
        None,
    ),
    "transforms in a list": (
        "class Scale:\n    def __init__(self): self.strength = 1.0\n    def apply(self, x): return x * self.strength\n"
        "class Compose:\n    def __init__(self, *t): self.transforms = t\n"
        "    def __call__(self, x):\n        for t in self.transforms:\n            x = t.apply(x)\n        return x\n"
        "PIPE = Compose(Scale())\ndef load(x): return PIPE(x)",
        "import data\nclass Ramp:\n    def on_epoch_begin(self, epoch): data.PIPE.transforms[0].strength = epoch / 10",
        "PIPE is changed by a function",
    ),
    "transforms that nobody changes": (
        "class Scale:\n    def __init__(self): self.strength = 1.0\n    def apply(self, x): return x * self.strength\n"
        "PIPE = [Scale()]\ndef load(x):\n    for t in PIPE:\n        x = t.apply(x)\n    return x",
        "",
        None,
    ),
    "lambda at the top": (
        "STATE = {'scale': 1.0}\ndef load(x): return x * STATE['scale']\nCALLBACK = lambda e, l: STATE.update(scale=e)",
        "",
        "STATE is changed by a function",
    ),
    "attribute from another file": (
        "import types\nconfig = types.SimpleNamespace(strength=1.0)\ndef load(x): return x * config.strength",
        "import data\nclass Ramp:\n    def on_epoch_begin(self, epoch): data.config.strength = epoch",
        "config is changed by a function",
    ),
    "table from another file": (
        "TABLE = {'s': 1.0}\ndef load(x): return x * TABLE['s']",
        "import data\ndef ramp(epoch): data.TABLE['s'] = epoch",
        "TABLE is changed by a function",
    ),
    "alias": (
        "TABLE = {'s': 1.0}\ndef bump(t): t['s'] += 1\ndef load(x): return x * TABLE['s']",
        "from data import TABLE, bump\ndef on_epoch_begin(epoch): bump(TABLE)",
        "TABLE is changed by a function",
    ),
    "given to who only reads": (
        "TABLE = {'s': 1.0}\ndef show(t): return t['s']\ndef load(x): return x * TABLE['s']",
        "from data import TABLE, show\ndef on_epoch_begin(epoch): show(TABLE)",
        None,
    ),
    "setattr": (
        "import types\nconfig = types.SimpleNamespace(strength=1.0)\ndef load(x): return x * config.strength",
        "import data\ndef ramp(epoch): setattr(data.config, 'strength', epoch)",
        "config is changed by a function",
    ),
    "vars": (
        "import types\nconfig = types.SimpleNamespace(strength=1.0)\ndef load(x): return x * config.strength",
        "import data\ndef ramp(epoch): vars(data.config).update(strength=epoch)",
        "config is changed by a function",
    ),
    "globals": (
        "S = 1.0\ndef load(x): return x * S\ndef ramp(epoch): globals()['S'] = epoch",
        "",
        "S may be assigned by a function",
    ),
    "environment": (
        "import os\ndef load(x): return x * float(os.environ.get('STRENGTH', 1))",
        "",
        "os.environ is more than a function",
    ),
    "environment by name": (
        "from os import environ\ndef load(x): return x * float(environ.get('STRENGTH', 1))",
        "",
        "environ is a variable",
    ),
    "one variable": ("from os import getenv\ndef load(x): return x * float(getenv('STRENGTH', 1))", "", "getenv"),
    "by keyword": (
        "COUNTS = {'n': 1}\ndef bump(counts): counts['n'] += 1\ndef load(x): return x * COUNTS['n']",
        "from data import COUNTS, bump\ndef on_epoch_begin(epoch): bump(counts=COUNTS)",
        "COUNTS is changed by a function",
    ),
    "function inside a constructor": (
        "class Scale:\n    def __init__(self):\n        self.scale = 1.0\n        def on_epoch(): self.scale += 0.1\n"
        "        self.hook = on_epoch\n"
        "    def apply(self, x): return x * self.scale\nSCALE = Scale()\ndef load(x): return SCALE.apply(x)",
        "",
        "Scale.scale is assigned by a function",
    ),
    "container of an object": (
        "class Table:\n    def __init__(self): self.table = {'a': 1}\n    def advance(self): self.table['a'] += 1\n"
        "    def apply(self, x): return x * self.table['a']\nTABLE = Table()\ndef load(x): return TABLE.apply(x)",
        "",
        "Table.table is assigned by a function",
    ),
    "attribute of a module that is not the user's": (
        "import xdist.report as report\nreport.speed = 1.0\ndef load(x): return x * report.speed\ndef ramp(epoch): report.speed = epoch",
        "",
        "speed is assigned by a function",
    ),
    "local alias": (
        "TABLE = {'s': 1.0}\ndef load(x): return x * TABLE['s']\ndef ramp(epoch):\n    t = TABLE\n    t['s'] = epoch",
        "",
        "TABLE is changed by a function",
    ),
    "alias in a loop": (
        "TABLE = {'s': [1.0]}\ndef load(x): return x * TABLE['s'][0]\ndef ramp(epoch):\n    for k, t in TABLE.items(): t[0] = epoch",
        "",
        "TABLE is changed by a function",
    ),
    "alias of what a function is given": (
        "TABLE = {'s': 1.0}\ndef bump(t):\n    mine = t\n    mine['s'] += 1\ndef load(x): return x * TABLE['s']",
        "from data import TABLE, bump\ndef on_epoch_begin(epoch): bump(TABLE)",
        "TABLE is changed by a function",
    ),
    "a copy is no alias": (
        "TABLE = {'s': 1.0}\ndef load(x): return x * TABLE['s']\ndef ramp(epoch):\n    t = dict(TABLE)\n    t['s'] = epoch",
        "",
        None,
    ),
    "clock": ("import numpy as np\ndef load(x): return x, np.datetime64('now')", "", "reads the clock"),
    "memory": ("import numpy as np\ndef load(x): return x + np.empty(3)", "", "whatever lies in memory"),
}
# By name: a script that is judged where it stands, and what must be said.
RUNNING: dict[str, tuple[str, str | None]] = {
    "assigned in the loop around": (
        "S = 1.0\ndef load(x): return x * S\nfor epoch in range(2):\n    S = 1.0\n    look(load)",
        "S is assigned again",
    ),
    "assigned later": ("S = 1.0\ndef load(x): return x * S\nlook(load)\nS = 2.0", "S is assigned again"),
    "assigned by an import": ("S = 1.0\ndef load(x): return x * S\nlook(load)\nimport math as S", "S is assigned again"),
    "assigned before": ("S = 1.0\nS = 2.0\nfor i in range(2): S = 3.0\ndef load(x): return x * S\nlook(load)", None),
    "assigned elsewhere": ("S = 1.0\ndef load(x): return x * S\nfor T in range(2):\n    look(load)\nU = 1", None),
    "changed in the loop around": (
        "S = {'a': 1.0}\ndef load(x): return x * S['a']\nfor epoch in range(2):\n    S['a'] = 1.0\n    look(load)",
        "S is changed",
    ),
    "attribute": (
        "import types\nC = types.SimpleNamespace(s=1.0)\ndef load(x): return x * C.s\nlook(load)\nC.s = 2.0",
        "C is changed",
    ),
    "around the function": (
        "def main():\n    s = 1.0\n    def load(x): return x * s\n    for epoch in range(2):\n        s = 1.0\n        look(load)\nmain()",
        "s is assigned again",
    ),
    "table around the function": (
        "def main():\n    s = {'a': 1.0}\n    def load(x): return x * s['a']\n    for epoch in range(2):\n        s['a'] = 1.0\n"
        "        look(load)\nmain()",
        "s is changed",
    ),
    "a local of the same name": (
        "S = 1.0\ndef load(x): return x * S\ndef main():\n    look(load)\n    S = 2.0\n    return S\nmain()",
        None,
    ),
}
_numbers = itertools.count()


@pytest.fixture(autouse=True)
def _nothing_else_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The modules of other tests are no part of a program, whatever names they have."""
    tests = str(Path(__file__).parents[2])
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None) or "").startswith(tests):
            monkeypatch.delitem(sys.modules, name)


@pytest.fixture
def program(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ModuleType]:
    """The data module of a case, in a program of two modules that are loaded."""
    sources = dict(zip(("data", "train"), CASES[request.param][:2], strict=True))
    before = {name: sys.modules.get(name) for name in sources}
    for name, source in sources.items():
        path = tmp_path / f"{name}_{next(_numbers)}.py"
        path.write_text(f"{source}\n", encoding="utf-8")
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    yield sys.modules["data"]
    linecache.checkcache()
    for name, module in before.items():
        sys.modules.pop(name) if module is None else sys.modules.update({name: module})


@pytest.mark.parametrize(
    ("program", "words"), [pytest.param(name, case[2], id=name) for name, case in CASES.items()], indirect=["program"]
)
def test_what_changes_a_function_from_elsewhere(program: ModuleType, words: str | None) -> None:
    found = doubt(program.load)
    assert (found is None) if words is None else words in str(found), found


@pytest.mark.parametrize("name", RUNNING)
def test_what_the_program_has_still_to_do(name: str, tmp_path: Path) -> None:
    source, words = RUNNING[name]
    path = tmp_path / f"script_{next(_numbers)}.py"
    path.write_text(f"{source}\n", encoding="utf-8")
    seen: list[str | None] = []
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    vars(module)["look"] = lambda function: seen.append(doubt(function))
    spec.loader.exec_module(module)
    linecache.checkcache()
    assert all((found is None) if words is None else words in str(found) for found in seen), seen
    assert seen
