# SPDX-License-Identifier: Apache-2.0
"""Gate as JUnit XML for continuous integration: the step is one test case, and so is every part
that the program changed.
"""

from __future__ import annotations

import os
from xml.etree import ElementTree

from outpace.compare.gate import Gate, GateOutcome
from outpace.compare.headline import format_change, render_headline
from outpace.compare.verdict import Comparison
from outpace.model.files import write_atomically
from outpace.model.text import clean

_SUITE = "outpace compare"
_SECONDS = 1e-12  # seconds per picosecond
# characters that `clean` preserves and XML forbids
_NONE = dict.fromkeys((0xFFFE, 0xFFFF), "\N{REPLACEMENT CHARACTER}")
_TAGS = {GateOutcome.FAILED: ("failure", "failures"), GateOutcome.OPEN: ("skipped", "skipped")}


def write(comparison: Comparison, gate: Gate, path: str | os.PathLike[str]) -> None:
    """Write the XML file at `path`. A part with growth has the gate's outcome with its own numbers;
    a part with less time has passed.
    """
    root = ElementTree.Element("testsuites")
    suite = ElementTree.SubElement(root, "testsuite", name=_SUITE)
    verdict = f"{gate.sentence} {render_headline(comparison)}"
    _case(
        suite, "step", f"{comparison.before.name} → {comparison.after.name}", comparison.step_after.value, verdict, gate.outcome
    )
    for change in comparison.own_changes:
        outcome = gate.outcome if change.delta_ps > 0 else GateOutcome.PASSED
        kind = f"{change.part[0]}: {change.part[1]}"
        _case(suite, kind, change.label, change.after.value, f"{change.label} {format_change(change)}.", outcome)
    counts = {attribute: str(len(suite.findall(f"*/{tag}"))) for tag, attribute in _TAGS.values()}
    for element in (root, suite):
        element.attrib.update({"tests": str(len(suite)), "errors": "0", **counts})
    ElementTree.indent(root)
    with write_atomically(path, "The JUnit file") as file:
        ElementTree.ElementTree(root).write(file, "utf-8", xml_declaration=True)
        file.write(b"\n")


def _case(suite: ElementTree.Element, kind: str, name: str, ps: float, says: str, outcome: GateOutcome) -> None:
    """Add a test case to a suite."""
    time = f"{ps * _SECONDS:.9f}"
    case = ElementTree.SubElement(suite, "testcase", classname=_text(kind), name=_text(name), time=time)
    if outcome in _TAGS:
        ElementTree.SubElement(case, _TAGS[outcome][0], message=_text(says), type=outcome.value)
    else:
        ElementTree.SubElement(case, "system-out").text = _text(says)


def _text(text: str) -> str:
    """Return the text on one line, without characters that XML does not allow."""
    return clean(text).translate(_NONE)
