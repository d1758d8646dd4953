"""What is near an instruction."""

from __future__ import annotations

import pytest

from outpace.timeline.hlo import neighbourhood
from outpace.timeline.hlo.graph import HloGraph, Instruction
from outpace.timeline.hlo.neighbourhood import find_neighbourhood
from tests.support import opened


@pytest.fixture(scope="module")
def graph() -> HloGraph:
    """Of a training step on a GPU."""
    (program,) = opened("jax_h100_fft_odd").run.hosts[0].hlo_modules
    return program.graph


def step(instructions: set[Instruction], down: bool) -> set[Instruction]:
    return {other for each in instructions for other in (each.users if down else each.operands)}


@pytest.mark.parametrize("radius", [1, 2, 3])
def test_all_that_is_as_near_is_found_once(graph: HloGraph, radius: int) -> None:
    for centre in list(graph.entry)[::40]:
        found = find_neighbourhood(graph, centre.name, radius)
        assert [far for _, far in found.nodes] == sorted(far for _, far in found.nodes)
        for down in (False, True):
            reached, layer = set[Instruction](), {centre}
            for _ in range(radius):
                layer = step(layer, down) - reached - {centre}
                reached |= layer
            if found.is_whole:
                assert {each for each, far in found.nodes if far and (far > 0) == down} == reached
        assert (centre, 0) in found.nodes and all(abs(far) <= radius for _, far in found.nodes)


def test_of_many_the_nearest_are_listed(graph: HloGraph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbourhood, "MOST_NODES", 5)
    found = find_neighbourhood(graph, "fft.41.0", 3)
    assert len(found.nodes) == 5 and not found.is_whole
    assert max(abs(far) for _, far in found.nodes) <= 2


def test_an_unknown_instruction_has_none(graph: HloGraph) -> None:
    with pytest.raises(KeyError):
        find_neighbourhood(graph, "fft.x", 1)
