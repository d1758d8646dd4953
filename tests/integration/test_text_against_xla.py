"""The text of instructions against XLA's own."""

from __future__ import annotations

import pytest

from tests.support import opened

hlo = pytest.importorskip("jaxlib._hlo")


@pytest.mark.parametrize(
    "name",
    ["jax_cpu_steps", "keras_fit_xla", "jax_h100_dwconv1d", "jax_h100_fft_odd", "jax_h200_transformer", "jax_rocm_conv_8gpu"],
)
def test_lines_say_what_those_of_xla_say(name: str) -> None:
    """Ours have the shapes of operands besides, and leave out configurations and padding."""
    compared = 0
    for program in opened(name).run.hosts[0].hlo_modules:
        text = hlo.HloModule.from_serialized_hlo_module_proto(bytes(program._module)).to_string()
        theirs = {line.split(" = ", 1)[0].split("%")[-1]: line for line in text.splitlines() if " = " in line}
        for op in program:
            found = program.describe(op)
            assert found is not None
            head, _, tail = found.text.partition(", metadata=")
            assert not tail or tail.split('"')[1] in theirs[op].replace("\\'", "'")
            beginning, _, rest = head.partition("(%" if "(%" in head else "(")
            if not beginning.endswith(")") and " (" not in head.split("(")[0]:
                assert beginning.split(" = ")[1].split("(")[0] in theirs[op]
            attributes = rest.rpartition(")")[2].lstrip(", ")
            for attribute in filter(None, attributes.split(", ")):
                assert attribute in theirs[op], (attribute, theirs[op])
            assert all(f"%{operand}" in theirs[op] for operand in found.operands)
            compared += 1
    assert compared > 20


@pytest.mark.parametrize("name", ["jax_cpu_steps", "jax_h100_fft_odd", "jax_h200_transformer"])
def test_a_programs_text_has_xlas_computations_and_roots(name: str) -> None:
    def outline(lines: list[str]) -> list[str]:
        """Heads of computations, and names of roots."""
        heads = [line.split(" (")[0].strip() for line in lines if line.endswith("{") and not line.startswith("HloModule")]
        roots = [line.split(" = ")[0].strip() for line in lines if line.strip().startswith("ROOT ")]
        return sorted(each.replace("ENTRY %", "ENTRY ").replace("%", "") for each in (*heads, *roots))

    for program in opened(name).run.hosts[0].hlo_modules:
        text = hlo.HloModule.from_serialized_hlo_module_proto(bytes(program._module)).to_string()
        assert outline(list(program.iter_text())) == outline(text.splitlines())
