"""Each source names its licence in its first line, so that it can be told from a copied file."""

from __future__ import annotations

import pytest

from tests.architecture.source import SOURCE

NATIVE = SOURCE.parents[1] / "native"
CHECKSUMMED = NATIVE / "include" / "outpace.h"  # its bytes are the version of the library's interface
FORMS = {".py": "# {}", ".sh": "# {}", ".cc": "// {}", ".h": "// {}", ".js": "/* {} */"}


@pytest.mark.parametrize("suffix", FORMS)
def test_sources_begin_with_their_licence(suffix: str) -> None:
    sources = [path for folder in (SOURCE, NATIVE) for path in folder.rglob(f"*{suffix}") if path.parent.name != "vendor"]
    assert sources or not NATIVE.is_dir()
    for path in set(sources) - {CHECKSUMMED}:
        lines = path.read_text(encoding="utf-8").splitlines()
        assert lines[lines[0].startswith("#!")] == FORMS[suffix].format("SPDX-License-Identifier: Apache-2.0"), path
