"""What the rules of the model look at: its parts in one form, whether ops of TensorFlow or lines of a compiled program."""

from __future__ import annotations

import re
from collections import defaultdict

from outpace._dataclass import dataclass
from outpace.metrics.hlo_lines import hlo_lines
from outpace.metrics.model_parts import model_parts
from outpace.metrics.program import Program
from outpace.timeline import Run

_DENSE = re.compile(
    r"(_Mkl|_Fused|Batch)*(MatMul|Conv\dD|DepthwiseConv|Einsum|Dense)|dot|conv|custom-call|cudnn|gemm", re.IGNORECASE
)
_REPLICA = re.compile(r"(.*/)?replica_\d+")  # a copy of the whole model, and no part of it
_TRANSFERS = ("-done", "-start", "send", "recv", "infeed", "outfeed")  # they wait, and compute nothing
_DENSE_FUSION = re.compile(r"dot_general|conv_general_dilated")


@dataclass(frozen=True)
class Part:
    """A layer or line: its share of the step, which op takes most of it, and whether that is dense arithmetic, which hardware does well.

    mean_op: mean time of one of its ops, ps; 0 where that is not known.
    """

    name: str
    source: str
    share: float
    time: float
    op: str
    dense: bool
    table: str
    mean_op: float = 0.0

    def __str__(self) -> str:
        where = f" ({self.source})" if self.source and self.source != self.name else ""
        return f"{self.name}{where}"


def short(source: str) -> str:
    """`train.py:41` of a source line with its folders."""
    return source.rpartition("/")[2]


def parts(run: Run, host: str, program: Program) -> list[Part]:
    """The parts of one host's model, the largest first."""
    return (_compiled(run, host) if program.is_jax else []) or _ops(run, host)


def _ops(run: Run, host: str) -> list[Part]:
    found = []
    for row in model_parts(run).records():
        if row["host"] == host and row["share"] > 0:
            time = row["self_ps"] + row["overhead_ps"]
            dense = bool(_DENSE.search(row["top_op"]))
            if not _REPLICA.fullmatch(row["part"]):
                mean = time / max(row["count"], 1.0)
                named = (short(row["part"]), short(row["source"]))
                found.append(Part(*named, row["share"], time, row["top_op"], dense, "model_parts", mean))
    return sorted(found, key=lambda part: -part.share)


def _compiled(run: Run, host: str) -> list[Part]:
    """By source line, or by framework op where the program holds no lines; shares of ops that ran side by side are scaled to the step."""
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
    best: dict[str, tuple[float, str, str]] = {}
    for row in hlo_lines(run).records():
        if row["host"] != host or row["opcode"].endswith(_TRANSFERS):
            continue
        key = row["source"] or row["op"]
        known = sums[key]
        known[0] += row["share"]
        known[1] += row["time_ps"]
        if bool(_DENSE.search(row["opcode"])) or bool(_DENSE_FUSION.search(row["op"])):
            known[2] += row["share"]
        best[key] = max(best.get(key, (0.0, "", "")), (row["time_ps"], row["op"], row["source"]))
    scale = 1 / max(1.0, sum(share for share, _, _ in sums.values()))
    found = [
        Part(
            short(best[k][2]) or best[k][1],
            short(best[k][2]),
            s * scale,
            t,
            best[k][1].rpartition("/")[2],
            d > 0.5 * s,
            "hlo_lines",
        )
        for k, (s, t, d) in sums.items()
    ]
    return sorted(found, key=lambda part: -part.share)
