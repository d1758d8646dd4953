"""The page's script writes numbers exactly as `humanize` does: a value must not read differently in terminal and HTML."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

import outpace.report
from outpace.model import Unit, humanize
from outpace.model.text import shorten

UNITS = Path(outpace.report.__file__).parent / "assets" / "units.js"
NUMBERS = [
    0, 1, 7, 42, 999, 1000, 1024, 12_345, 999_400, 1_500_000, 31_600_000_000, 507_000_000_000, 7.2e12, 3.3e15, 5 * 2**30, 2**41,
    999.7e9, 9.996e9, 99.96e9, 9.994e9, 999.4e9, 1023.9 * 1024, 1023.4 * 1024, 999.6, 0.9996, 9.9996e-5, 999.7, -999.7e9,
    0.5, 0.123, 0.0004, 0.00001234, 3.14159, 16.4, 123.4, 1234.5, 9.8e-7, 1e15, -5, -2.5e9, None,
]  # fmt: skip
NAMES = ["short", "x" * 40, "scope/inner/op_name_that_is_long"]


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
