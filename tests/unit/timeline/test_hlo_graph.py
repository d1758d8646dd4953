"""The graph of a program: which instruction takes what, and who calls whom."""

from __future__ import annotations

from outpace.timeline.hlo.reader import read_graph, read_module
from tests.hlo_proto import instruction, module


def test_neighbours_of_instructions() -> None:
    entry = [
        instruction("a", "parameter", 1),
        instruction("square", "multiply", 2, operands=[1, 1]),
        instruction("loop", "while", 3, operands=[2, 77], calls=[2, 99]),
        instruction("fused", "fusion", 4, operands=[3], calls=[2]),
    ]
    graph = read_graph(read_module(module(entry, [instruction("inside", "add", 9)])))
    a, square, loop, fused, inside = (graph.by_name[name] for name in ("a", "square", "loop", "fused", "inside"))
    assert [list(i.operands) for i in (a, square, loop, fused)] == [[], [a, a], [square], [loop]]
    assert [list(i.users) for i in (a, square, loop, fused)] == [[square, square], [loop], [fused], []]
    assert [list(computation.callers) for computation in graph.computations.values()] == [[], [loop, fused]]
    assert (loop.callees, loop.parts, fused.parts) == ([inside], [loop], [fused, inside])


def test_an_empty_program_is_an_empty_graph() -> None:
    graph = read_graph(read_module(b""))
    assert (list(graph.instructions), list(graph.entry), graph.parameters, graph.donated) == ([], [], [], frozenset())
