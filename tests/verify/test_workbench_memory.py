"""The memory view under a reader's hands: its cards follow the picker, and a device's part shows
the memory of that device.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import profile_path
from tests.verify.chromium import CHROMIUM, Page
from tests.verify.workbench import workbench

pytestmark = [
    pytest.mark.verify,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here; install Debian's package chromium"),
]
RUN = "tf_gpu_v100_bert"
SHOWN = "[...document.querySelectorAll('#memory_profile [data-choice]')].filter(b => b.offsetHeight).map(b => b.innerText)"
PICKER = "document.querySelector('#memory_profile .controls select[aria-label=Memory]')"


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Page, str]]:
    folder = tmp_path_factory.mktemp("memory")
    runs = folder / "logs" / "plugins" / "profile"
    for place in (runs / RUN, folder / "elsewhere"):
        shutil.copytree(profile_path(RUN), place)
    (runs / "linked").symlink_to(folder / "elsewhere")
    with workbench(str(folder / "logs"), folder) as (page, server):
        page.ask("Page.navigate", url=server.address)
        page.wait(
            "document.querySelectorAll('#runs tr').length === 2 && !document.body.innerText.includes('not looked at')", 90
        )
        yield page, str(page.run(f"[...document.querySelectorAll('#runs a')].find(a => a.textContent === '{RUN}').href"))


def visit(page: Page, address: str) -> None:
    page.ask("Page.navigate", url="about:blank")
    page.ask("Page.navigate", url=address)
    page.wait("document.readyState === 'complete' && document.body.dataset.whole === undefined", 60)
    page.wait(f"!!{PICKER}", 60)
    if shots := os.environ.get("OUTPACE_SHOTS"):
        (Path(shots) / f"{len(os.listdir(shots))}.png").write_bytes(page.screenshot())


def test_the_list_says_what_a_link_leads_out_for(bench: tuple[Page, str]) -> None:
    page, _ = bench
    line = page.run("[...document.querySelectorAll('#runs tr')].map(tr => tr.innerText).find(text => text.includes('linked'))")
    assert "elsewhere, out of the folders that this workbench was started with" in line


def test_the_cards_are_those_of_the_memory_that_is_chosen(bench: tuple[Page, str]) -> None:
    page, run = bench
    visit(page, f"{run}#memory_profile")
    first = page.run(SHOWN)
    names = page.run(f"[...{PICKER}.options].map(o => o.value)")
    assert len(first) == 1 and first[0].startswith(names[0]) and len(names) == 4
    seen = set()
    for name in [*names[1:], names[0]]:
        page.run(f"[{PICKER}.value = {json.dumps(name)}, {PICKER}.dispatchEvent(new Event('change'))]; 0")
        shown = page.run(SHOWN)
        assert len(shown) == 1 and shown[0].startswith(name), shown
        seen.add(shown[0])
    assert len(seen) == len(names) and page.run(SHOWN) == first
    page.run(f"[{PICKER}.value = {json.dumps(names[-1])}, {PICKER}.dispatchEvent(new Event('change'))]; 0")
    kept = page.run("location.href")
    visit(page, kept)
    assert page.run(SHOWN)[0].startswith(names[-1]), "the address holds the choice, and the cards with it"


@pytest.mark.parametrize("device", [1, 4, 6])
def test_a_devices_part_shows_its_memory_alone(bench: tuple[Page, str], device: int) -> None:
    page, run = bench
    visit(page, f"{run}?device=/device:GPU:{device}#memory_profile")
    text = page.run("document.querySelector('#memory_profile').innerText")
    assert f"GPU_{device}_bfc has" in text and page.run(SHOWN)[0].startswith(f"GPU_{device}_bfc")
    assert not [other for other in (1, 4, 6) if other != device and f"GPU_{other}" in text]
