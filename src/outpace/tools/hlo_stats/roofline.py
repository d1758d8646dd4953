# SPDX-License-Identifier: Apache-2.0
"""The roofline: the rates of compiled ops over their arithmetic intensity, below the roofs of the
device.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from outpace.metrics.facts.device_peaks import BITS_16, FLOAT32, FLOAT64, TENSOR_FLOAT32, Precision
from outpace.metrics.facts.roofs import Bound, DeviceRoofs, device_roofs, host_roofs
from outpace.model import Category, Chart, ChartKind, Row, ScatterColumns, Table, TableType
from outpace.timeline import Run

_PRECISIONS: dict[Precision, str] = {
    FLOAT32: "32 bits",
    FLOAT64: "64 bits",
    BITS_16: "16 bits",
    TENSOR_FLOAT32: "TF32",
}
"""Names of roofs. Of precisions of one height, of which one stands in for another, the first
counts.
"""
_NEGLIGIBLE = 1e-3  # share of the time of all ops below which an op is not drawn
_COLORS = {
    Bound.COMPUTE.value: Category.DEVICE_COMPUTE_32.value,
    Bound.MEMORY.value: Category.HOST_COMPUTE.value,
    Bound.CACHE.value: Category.DEVICE_TO_DEVICE.value,
    Bound.START.value: Category.COMPILATION.value,
    Bound.NEITHER.value: Category.INPUT.value,
    Bound.UNKNOWN.value: Category.ALL_OTHERS.value,
}
_REMARK = (
    "Area: self time. Colour: what bounds the op; a click leads to its row. The lines are the device's roofs: its memory up "
    "to the ridge, then the peak of a "
    "precision."
)
ROOFLINE = TableType("roofline", "Roofline").columns("""
    * id          | count | number of the row
      op          | text  | HLO op; on a line, its roof
      source      | text  | line of the program's own code that it was compiled from
      intensity   | ratio | operations per byte of memory traffic | FLOP/byte
      flops_per_s | ratio | floating-point operations per second while it ran | FLOP/s
      self_ps     | ps    | self time of its executions; 0 on a line | Self
      bound       | text  | what bounds it
      of_roof     | fraction | least time that the device needs for it, as a share of its time | Of roof
      roof        | text  | name of the roof of which this is a place; empty for an op
      rank        | count | place of the op by self time, its row among the HLO ops; 0 on a line
""")


def build_roofline(run: Run, ops: Table) -> Chart | None:
    """Return the roofline of the first device whose roofs are known, else of a CPU that was
    measured, from table `hlo_ops`; None without one, and without ops that compute.
    """
    devices = (device_roofs(plane) for timeline in run.hosts for plane in timeline.device_planes)
    every = (*devices, *(host_roofs(run.record(timeline.host)) for timeline in run.hosts))
    roofs = next((one for one in every if one is not None and one.bandwidth and any(one.flops.values())), None)
    least = _NEGLIGIBLE * float(ops["self_ps"].sum())
    rows = [row for row in ops.records() if row["flops"] and row["intensity"] and row["self_ps"] > least]
    if roofs is None or not rows:
        return None
    drawn = [{**row, "roof": "", "of_roof": row["of_roof"] or 0.0} for row in rows]
    intensities = [float(row["intensity"]) for row in rows]
    lines = iter_roof_places(roofs, min(intensities), max(intensities))
    table = ROOFLINE.build(ROOFLINE.row(row, id=number) for number, row in enumerate((*drawn, *lines)))
    columns = ScatterColumns("flops_per_s", "self_ps", "op", "roof", "rank", ("bound", "of_roof", "source"))
    picture = Chart(table.title, ChartKind.SCATTER, table, "intensity", columns.series, _COLORS, _REMARK, state="bound")
    return replace(picture, detail=ops.name, remark=f"{_REMARK} The memory moves {roofs.bandwidth / 1e9:,.0f} GB/s.")


def iter_roof_places(roofs: DeviceRoofs, low: float, high: float) -> Iterator[Row]:
    """Yield the places of each precision's roof: at the lowest intensity, at the ridge, and at the
    highest intensity. Roofs of equal height are one.
    """
    names: dict[float, str] = {}
    for precision, name in _PRECISIONS.items():
        if peak := roofs.flops.get(precision, 0.0):
            names.setdefault(peak, name)
    for peak, name in names.items():
        ridge = peak / roofs.bandwidth
        text = f"{name}: {peak / 1e12:,.4g} TFLOP/s, ridge at {ridge:,.3g} FLOP/byte"
        for intensity in sorted({min(low, ridge), ridge, max(high, 2 * ridge)}):
            rate = min(peak, intensity * roofs.bandwidth)
            place = {"intensity": intensity, "flops_per_s": rate, "self_ps": 0, "of_roof": 1.0, "rank": 0}
            yield {**place, "op": text, "roof": text, "source": "", "bound": ""}
