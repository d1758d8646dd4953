"""The page's script writes numbers exactly as `humanize` does: a value must not read differently in
terminal and HTML.
"""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

import outpace.report
from outpace.model import Unit, humanize
from outpace.model.text import elide, shorten

UNITS = Path(outpace.report.__file__).parent / "assets" / "units.js"
NUMBERS = [
    0, 1, 7, 42, 999, 1000, 1024, 12_345, 999_400, 1_500_000, 31_600_000_000, 507_000_000_000, 7.2e12, 3.3e15, 5 * 2**30, 2**41,
    999.7e9, 9.996e9, 99.96e9, 9.994e9, 999.4e9, 1023.9 * 1024, 1023.4 * 1024, 999.6, 0.9996, 9.9996e-5, 999.7, -999.7e9,
    0.5, 0.123, 0.0004, 0.00001234, 3.14159, 16.4, 123.4, 1234.5, 9.8e-7, 1e15, 1e19, 1234567, 999_950,
    1.78e3, 1.15e4, -4321.0, -5, -2.5e9, None,
]  # fmt: skip
NAMES = ["short", "x" * 40, "scope/inner/op_name_that_is_long", "abcd…defghijk", "abcdefghi…klmn"]
SCOPES = [f"replica_{r}/bert/encoder/layer_{n}/dropout{d}/random/Uniform" for r in (4, 6) for n in (1, 7) for d in ("", "_1")]
COLUMNS = [
    SCOPES,
    [*SCOPES, "IDLE", "", "replica_4/bert/pooler/dense/MatMul", SCOPES[0]],
    ["void gemm<float, 128, 64>(int, float const*)", "void gemm<float, 256, 64>(int, float const*)", "/device:GPU:0/a/b/c/d"],
    ["a" * 30 + str(n) + "b" * 30 for n in range(3)],
    ["/", "//////////////////////", "a//b//c//d//e//f"],
    NAMES,
]


@pytest.mark.skipif(not shutil.which("node"), reason="needs node")
def test_numbers_and_names_read_the_same_in_the_page() -> None:
    units = [Unit.PS, Unit.BYTES, Unit.BYTES_PER_S, Unit.FRACTION, Unit.COUNT, Unit.CORES, Unit.RATIO, Unit.NONE, Unit.TEXT]
    whole = (Unit.NONE, Unit.TEXT, Unit.COUNT)
    cases = [(v, u.value) for u in units for v in NUMBERS if not (u in whole and isinstance(v, float))]
    program = (
        UNITS.read_text(encoding="utf-8")
        + f"\nconst cases = {json.dumps(cases)}, names = {json.dumps(NAMES)};"
        + "\nconst shown = [cases.map(([v, u]) => Units.humanize(v, u)), names.map((n) => Units.shorten(n, 11))];"
        + "\nconsole.log(JSON.stringify(shown));"
    )
    out = subprocess.run(["node", "-e", program], capture_output=True, text=True, check=True, timeout=240).stdout
    numbers, names = json.loads(out)
    assert dict(zip(map(str, cases), numbers, strict=True)) == {str(c): humanize(c[0], Unit(c[1])) for c in cases}
    assert names == [shorten(n, 11) for n in NAMES]


@pytest.mark.skipif(not shutil.which("node"), reason="needs node")
def test_names_of_a_column_are_cut_alike_in_the_page() -> None:
    program = f"{UNITS.read_text(encoding='utf-8')}\nconst columns = {json.dumps(COLUMNS)};"
    program += "console.log(JSON.stringify(columns.map((names) => [11, 24, 40].map((width) => Units.elide(names, width)))));"
    out = subprocess.run(["node", "-e", program], capture_output=True, text=True, check=True, timeout=60).stdout
    assert json.loads(out) == [[elide(names, width) for width in (11, 24, 40)] for names in COLUMNS]


@pytest.mark.skipif(not shutil.which("node"), reason="needs node")
def test_a_reader_writes_numbers_as_the_page_does() -> None:
    asked = {
        "ps": ["5 ms", "1.5us", "3", "5 parsecs"],
        "bytes": ["2 MiB"],
        "bytes_per_s": ["1 kb/s"],
        "fraction": ["20 %"],
        "count": ["1,024", "x", ""],
    }
    program = f"{UNITS.read_text(encoding='utf-8')}\nconst asked = {json.dumps(asked)};"
    program += "console.log(JSON.stringify(Object.entries(asked).flatMap(([u, all]) => all.map((t) => Units.parse(t, u)))));"
    out = subprocess.run(["node", "-e", program], capture_output=True, text=True, check=True, timeout=60).stdout
    assert json.loads(out) == [5e9, 1.5e6, 3, None, 2 * 2**20, 1024, 0.2, 1024, None, None]
