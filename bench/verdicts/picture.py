"""The picture of rules: how often each is wrong, and how often right, as SVG with the fonts of whoever looks at it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

SIDE, LEFT, TOP, LEGEND = 360, 56, 40, 250  # pixels: of the square, and around it
OURS, THEIRS, GRID, INK = "#1a7f5a", "#b3471d", "#d8dde3", "#30363d"


@dataclass(frozen=True)
class Point:
    """A rule. false, true: shares."""

    rule: str
    false: float
    true: float


def drawn(rules: Sequence[Point], ours: Point, line: Sequence[tuple[float, float]]) -> str:
    """One numbered point for each rule, ours with the line of its thresholds."""
    parts = [*_axes()]
    path = " ".join(f"{_x(false):.1f},{_y(true):.1f}" for false, true in line)
    parts.append(f'<polyline points="{path}" fill="none" stroke="{OURS}" stroke-width="2"/>')
    parts += [f'<circle cx="{_x(false):.1f}" cy="{_y(true):.1f}" r="3" fill="{OURS}"/>' for false, true in line]
    for number, point in enumerate((ours, *rules)):
        color, mark = (THEIRS, str(number)) if number else (OURS, "")
        said = f"{point.rule}: {point.false:.0%} false, {point.true:.0%} found"
        at = TOP + 14 + 22 * number
        for x, y in ((_x(point.false), _y(point.true)), (LEFT + SIDE + 24, at)):
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="8" fill="{color}"/>')
            parts.append(f'<text x="{x:.1f}" y="{y + 4:.1f}" text-anchor="middle" fill="#fff" font-size="10">{mark}</text>')
        parts.append(f'<text x="{LEFT + SIDE + 38}" y="{at + 4}">{escape(said)}</text>')
    width, height = LEFT + SIDE + LEGEND + 120, TOP + SIDE + 56
    style = f"font-family: system-ui, sans-serif; font-size: 12px; fill: {INK}"
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" style="{style}" role="img">\n'
        f'<rect width="{width}" height="{height}" fill="#fff"/>\n{body}\n</svg>\n'
    )


def _axes() -> list[str]:
    parts = []
    for tenth in range(0, 11, 2):
        share, x, y = tenth / 10, _x(tenth / 10), _y(tenth / 10)
        parts.append(f'<path d="M{x:.1f} {TOP}V{TOP + SIDE}M{LEFT} {y:.1f}H{LEFT + SIDE}" stroke="{GRID}"/>')
        parts.append(f'<text x="{x:.1f}" y="{TOP + SIDE + 18}" text-anchor="middle">{share:.0%}</text>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{share:.0%}</text>')
    parts.append(
        f'<text x="{LEFT + SIDE / 2}" y="{TOP + SIDE + 42}" text-anchor="middle">equal programs called faster or slower</text>'
    )
    parts.append(f'<text x="{LEFT - 40}" y="{TOP - 16}">changes of 5 and 10% called slower</text>')
    return parts


def _x(share: float) -> float:
    return LEFT + SIDE * share


def _y(share: float) -> float:
    return TOP + SIDE * (1 - share)
