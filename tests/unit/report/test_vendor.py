import hashlib
import re
from pathlib import Path

import outpace.report

VENDOR = Path(outpace.report.__file__).parent / "assets" / "vendor"


def test_vendored_files_are_those_that_the_list_names() -> None:
    listed = dict(re.findall(r"^\| `([^`]+)` \|.*`([0-9a-f]{64})` \|$", (VENDOR / "VENDOR.md").read_text(), re.MULTILINE))
    present = {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in VENDOR.iterdir() if p.name != "VENDOR.md"}
    assert listed == present


def test_vendored_scripts_cannot_end_their_block() -> None:
    for path in VENDOR.glob("*.js"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"</script|<!--", text, re.IGNORECASE), path.name
        assert not re.search(r"\beval\(|new Function\(", text), path.name
