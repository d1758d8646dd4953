"""What users read keeps to the field's standard words: every page of every profile, the commands'
help, the documents, the columns.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path

from typer.testing import CliRunner

import outpace
from outpace.cli import COMMANDS, app
from outpace.report import terminal
from tests.architecture.source import FILES, literals, place

ROOT = Path(__file__).parents[2]
PROFILES = ROOT / "tests" / "data" / "profiles"
GLOSSARY = ROOT / "src" / "outpace" / "report" / "assets" / "glossary.md"
SPREAD = (
    "custom_loop",
    "jax_rocm_attention",
    "memory_heavy",
    "multi_host",
    "retracing",
    "jax_rocm_conv_8gpu",
    "tpu_v6e_inference",
)
"""Profiles in which, together, most rules find something: all of them would take half a minute."""

DIALECT = {
    r"knobs?": "option",
    r"\barms?\b": "variant",
    r"\brungs?\b": "step",
    r"\bladders?\b": "steps, or what was kept",
    r"\bclimbs?\b": "search",
    r"tak(?:es?|ing) turns": "serial, one after the other",
    r"perfect(?:ly)? overlap|overlap(?:ping)? perfectly": "fully overlapped",
    r"gain to expect|is expected to save": "estimated saving",
    r"times as fast": "speed-up",
    r"honest number": "not measurable",
    r"speaks? against|^\s*against:": "caveat",
    r"how good is the evidence": "confidence",
    r"no room here": "hidden columns",
    r"no recognised event\b(?!, Python)": "untraced",
    r"\bstands? idle|stood idle": "idle",
    r"\bmends?\b": "fix",
    r"let(?:s|ting)? go of": "destroy, drop",
    r"95 ?% interval": "95% CI",
    r"[0-9] %(?! [0-9(])|^ %(?![a-z(])": "81%, without a space",
    r"\d(?:\.\d+)?e\+\d\d\b": "1,780",
    r"not here\b(?=;|,|$)": "not applicable",
}
"""Word: what stands in its place."""
PRACTICE = r"\bpractices?\b"  # a word of the guides, in the table of what they recommend


def dialect(text: str, words: tuple[str, ...] = ()) -> list[str]:
    """The lines of a text that hold a word of ours."""
    pattern = _pattern((*DIALECT, *words))
    return [line.strip()[:160] for line in text.splitlines() if pattern.search(line)]


@functools.cache
def _pattern(words: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{word})" for word in words), re.IGNORECASE)


_PLURALS = re.compile(r"[\"']s[\"'] \*|\* [\"']s[\"']|[\"']s?[\"'] if .{1,40} (?:==|!=|>) 1 else [\"']s?[\"']")


def test_pages_and_help_keep_to_standard_words() -> None:
    texts = {command: CliRunner().invoke(app, [command, "--help"], terminal_width=400).output for command in COMMANDS}
    assert all(command in text for command, text in texts.items())
    for name in SPREAD:
        with outpace.open(PROFILES / name) as profile:
            texts[name] = terminal.render(profile.report(), width=400, details=True)
    assert not {name: lines for name, text in texts.items() if (lines := dialect(text, (PRACTICE,)))}


def test_documents_keep_to_standard_words() -> None:
    documents = [ROOT / "README.md", GLOSSARY, *ROOT.glob("docs/*.md"), *ROOT.glob("src/outpace/tools/*/README.md")]
    prose = {  # names in code, and links, are what they are
        str(path): re.sub(r"`[^`\n]*`|\]\([^)\n]*\)", "", path.read_text(encoding="utf-8")) for path in documents
    }
    assert not {path: lines for path, text in prose.items() if (lines := dialect(text))}


def test_literals_keep_to_standard_words_and_plurals_are_made_in_one_place() -> None:
    """`model.units.format_count` makes plurals: what is counted by hand is one day one."""
    literal = {place(path): [text for text in literals(path) if " " in text.strip() and dialect(text)] for path in FILES}
    plural = {place(path): _PLURALS.findall(path.read_text(encoding="utf-8")) for path in FILES}
    assert not {path: texts for found in (literal, plural) for path, texts in found.items() if texts}


def test_a_word_of_ours_is_found() -> None:
    assert (
        dialect("4.85 times as fast, 95 % interval 4.05 to 5.79")
        and dialect("   against: few steps")
        and dialect("At most 1.78e+03")
    )
    assert not dialect("81.2% of the step waits; an alarm on the harmless farm costs 12.7 ms")
