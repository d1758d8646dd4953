# SPDX-License-Identifier: Apache-2.0
"""Kernel launches: the time from the host's launch call to the start on the device."""

from __future__ import annotations

import numpy as np

from outpace.metrics.spans import line_busy_time
from outpace.model import Table
from outpace.model.arrays import Indices, Picoseconds, Values
from outpace.model.interval import quantiles
from outpace.tools.kernel_stats.device import Device
from outpace.tools.kernel_stats.schema import LAUNCHES
from outpace.trace.algorithms import intersect_indices


def find_launch_rows(device: Device, rows: Indices) -> Indices:
    """Return the row of the host call that launched each event, int64; -1 where it is not known.

    rows: sorted event rows of the device

    A CUDA graph is launched by one call, so that many device events may share one call.
    """
    calls, launched = device.timeline.launches
    launch_rows = np.full(len(rows), -1, np.int64)
    at, place = intersect_indices(rows, launched)
    launch_rows[at] = calls[place]
    return launch_rows


def launch_latency(device: Device, rows: Indices, calls: Indices) -> Values:
    """Return the time from the start of the launch call to the start on the device, ps, float64.

    The latency is NaN where the call is not known. The profiler aligns the clocks of host and
    device; where a remaining error makes the device start first, the latency is 0.
    """
    trace, has_call = device.trace, calls >= 0
    return np.where(has_call, np.maximum(trace.start[rows] - trace.start[np.maximum(calls, 0)], 0), np.nan)


def queueing_time(device: Device, rows: Indices, calls: Indices) -> Picoseconds:
    """Return the part of each latency in which the event's own stream was busy with earlier work,
    ps, int64; 0 where the call is not known.
    """
    trace = device.trace
    waits = np.zeros(len(rows), np.int64)
    line = trace.line[rows]
    for stream in device.timeline.device_lines(device.plane):
        positions = np.flatnonzero((line == stream) & (calls >= 0))
        if len(positions) == 0:
            continue
        began = trace.start[rows[positions]]
        called = np.minimum(trace.start[calls[positions]], began)
        waits[positions] = line_busy_time(trace, stream).busy_until(began) - line_busy_time(trace, stream).busy_until(called)
    return waits


def compute_launches(devices: list[Device]) -> Table:
    """Return `LAUNCHES`: one row per device that ran kernels.

    There is no column for the sum of latencies: those of kernels that wait in one queue overlap, so
    that their sum would be longer than the capture.
    """
    rows = []
    for device in devices:
        kernels = device.kernel_rows
        if len(kernels) == 0:
            continue
        calls = find_launch_rows(device, kernels)
        latency = launch_latency(device, kernels, calls)[calls >= 0]
        middle, high, longest = quantiles(latency, 0.5, 0.95, 1.0) if len(latency) else (np.nan,) * 3
        matched = len(latency)
        row = LAUNCHES.row(
            device.place,
            kernels=len(kernels),
            matched=matched,
            unmatched=len(kernels) - matched,
            median_latency_ps=middle,
            p95_latency_ps=high,
            max_latency_ps=longest,
            mean_latency_ps=float(latency.mean()) if matched else np.nan,
            mean_queued_ps=float(queueing_time(device, kernels, calls).sum()) / matched if matched else np.nan,
        )
        rows.append(row)
    return LAUNCHES.build(rows)
