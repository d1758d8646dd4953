# SPDX-License-Identifier: Apache-2.0
"""Findings about functions that are traced or compiled again, or run op by op."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from outpace.metrics.facts.python_lines import FrameworkShare, find_framework_share, find_step_line, framework_python_share
from outpace.metrics.facts.workload import Workload
from outpace.metrics.savings.bounds import call_overhead_bound, fusion_bound, rebuild_bound
from outpace.metrics.savings.budget import budgets, build_saving
from outpace.metrics.source_line import shorten_source_path
from outpace.metrics.views.host_copies import host_copies
from outpace.metrics.views.host_fetches import host_fetches
from outpace.metrics.views.jit_calls import MIN_CALLS_OP_BY_OP, compiled_training_hosts, jit_calls
from outpace.model import (
    OUTSIDE_STEPS,
    Category,
    Certainty,
    Effort,
    Evidence,
    Finding,
    Saving,
    Severity,
    Table,
    Threshold,
    Unit,
    humanize,
)
from outpace.model.text import format_largest_part
from outpace.model.units import format_count
from outpace.timeline import Run
from outpace.tools.functions import retracing as kinds

EXPENSIVE_CALLS = Threshold("expensive tf.function calls", 0.20, Unit.FRACTION, "XProf's overview page")
MIN_RETRACES = Threshold(
    "retraced in steady state", 2, Unit.COUNT, "tf.function guide: a function should be traced once per input signature"
)
# Minimum share of calls that pick elements; the step itself and the conversion of its batch are
# other calls.
_PICK_SHARE = 0.8
# Multiple of `MIN_CALLS_OP_BY_OP` from which the whole step counts as running op by op.
_ALL_SINGLE = 2
_MATERIAL = 0.01  # minimum share of the time in steps for a function to be judged
_REBUILDS = Threshold("recompilation, of the steps", 0.05, Unit.FRACTION, "a step that repeats has nothing left to compile")
_CALLS = Threshold(
    "calls of jitted functions per step",
    MIN_CALLS_OP_BY_OP,
    Unit.COUNT,
    "our choice: one jitted step, the conversion of a batch and some glue are fewer",
)
_COPIES = Threshold(
    "copies to the device", 0.10, Unit.FRACTION, "our choice: a batch of which each number is used in a step takes less"
)
_MANY_COPIES = Threshold("copies per step", 30, Unit.COUNT, "our choice: the arrays of a batch are fewer")
_SMALL_COPY = 256 * 1024  # bytes: a smaller copy costs less than its start, some 10 us, at the 20 GB/s of a PCIe bus
_FETCHES = Threshold("fetches from the device", 0.10, Unit.FRACTION, "our choice: as of copies to it")
_LARGE = Threshold("fetched per step", 1e6, Unit.BYTES, "our choice: a loss and some metrics are a few bytes")
_FIXES = {
    kinds.VALUE: "Pass Python values as tensors (tf.constant, or a tf.Variable that is assigned): each new value builds a new graph.",
    kinds.SHAPE: "Give the function an input_signature, with None where sizes change, or make the sizes equal (batch with drop_remainder=True, "
    "padded_batch). reduce_retracing=True relaxes shapes after the second one.",
    kinds.DTYPE: "Cast arguments to one dtype before the call.",
    kinds.STRUCTURE: "Pass the same arguments in every call: move optional parts into functions of their own.",
    kinds.SAME_ARGUMENTS: "Create the function once, outside the loop: every tf.function(...) has graphs of its own, "
    "and so has every new object with a decorated method.",
}
_FIX = "Pass tensors instead of Python numbers, give the function an input_signature, and create it once, outside the loop."
_FIXES_JITTED = {
    kinds.SHAPE: "Keep the shape of {} constant: pad it to one size, or to one of a few, and drop the rest of an epoch.",
    kinds.VALUE: "Pass {} as an array, in an argument that is not static: each new static value compiles a new program.",
    kinds.DTYPE: "Give {} one dtype in every call (jnp.asarray(x, dtype)): Python numbers are weakly typed, which is another one.",
    kinds.STRUCTURE: "Pass arguments of one structure in every call: the same keys, the same number of arrays.",
    kinds.SAME_ARRAYS: "Pass changing numbers as arrays, not as static arguments (static_argnums) or captured Python values, "
    "and create the jitted function once, outside the loop.",
    kinds.SAME_PROGRAM: "Give arguments one form in every call: arrays, never Python numbers in their place (weak types), on the same "
    "devices. Create the jitted function once, outside the loop.",
    kinds.SAME_ARGUMENTS: "Create the jitted function once, outside the loop: "
    "each jax.jit of a new function object, as of a lambda, compiles anew.",
}
_FIX_JITTED = (
    "Keep shapes and dtypes constant (pad, or drop the rest of an epoch). Create the jitted function once, outside the loop. "
    "Pass changing numbers as arrays, not as static arguments or captured Python values."
)
_SAME = frozenset((kinds.SAME_ARRAYS, kinds.SAME_PROGRAM, kinds.SAME_ARGUMENTS))
_EAGER_OPS = (
    "Put what calls it under one jax.jit (at {}), with numbers that change as arrays, not as Python numbers: outside of a jit, each new "
    "number compiles a program."
)
_EAGER_SIZES = (
    "Prepare the data with NumPy (at {}), and convert them once, padded to one of a few sizes: outside of a jit, each new size compiles a "
    "program. Or put what calls it under one jax.jit."
)
_ONE_DEVICE = (
    "Copy what stays the same once, before the loop (jax.device_put), and pass only the batch. Update it on the device, in a "
    "jitted function that donates it."
)
_TO_DEVICE = (
    "Move the next batch while this step runs (jax.device_put in another thread), in the type that it is stored in (images as uint8, made "
    "floats in the step), and copy what stays the same once, before the loop."
)
_PACKED = (
    "Pack arguments into one array per type, before the call (np.stack, or a structured batch stored so), and take them apart inside the "
    "jitted function."
)
_LAUNCHING = (Category.HOST_COMPUTE, Category.KERNEL_LAUNCH, Category.ALL_OTHERS)
_HIDDEN = "A Python number in place of an array (a weak type), or an array on other devices, compiles anew as well, and shows in no shape."
_ONE_JIT = (
    "Put the whole step under one jax.jit: all that it computes, in one function. Donate what it replaces (donate_argnums)."
)
_KERAS_JIT = (
    "Let Keras compile the step: compile() without run_eagerly=True, and with jit_compile=True (its default here). Where a layer cannot be "
    "traced, rewrite it with keras.ops."
)
_EAGER = "Remove tf.config.run_functions_eagerly(True): the function then runs as a graph."
_EAGER_KERAS = (
    "Remove run_eagerly=True from compile(), or tf.config.run_functions_eagerly(True): the step then runs as a graph."
)


def iter_findings(run: Run, functions: Table, traces: Table, compilations: Table, program: Workload) -> Iterator[Finding]:
    """Yield findings about functions whose calls mostly build graphs or run op by op, and about
    functions that JAX builds again and again.
    """
    in_steps = {t.host: int(t.steps.duration.sum()) for t in run.hosts}
    if program.is_jax:
        yield from _recompilations(run, compilations, traces, in_steps)
        yield from _op_by_op(run, program)
        if not program.is_keras:  # the program cannot change what Keras' own loop copies and fetches
            yield from _array_copies(run)
            yield from _array_fetches(run)
    for row in functions.records():
        if row["expensive_ps"] < _MATERIAL * in_steps[row["host"]]:
            continue
        share = row["expensive_ps"] / row["total_ps"] if row["total_ps"] else 0.0
        row_traces = [t for t in traces.records() if _is_of_function(t, row)]
        changed = any(t["kinds"] not in (kinds.FIRST, kinds.UNKNOWN) for t in row_traces)  # one changed argument is enough
        retraced = row["traced"] >= MIN_RETRACES.value or changed
        if share >= EXPENSIVE_CALLS.value and (retraced or row["eager"]):
            yield _expensive(run, row, share, retraced, row_traces, in_steps[row["host"]], program)


def _recompilations(run: Run, compiled: Table, built: Table, in_steps: dict[str, int]) -> Iterator[Finding]:
    """Yield findings about functions that JAX builds again and again, one per host and calling
    line. What is built once, as other functions that the line calls, belongs to the start.
    """
    by_place: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in compiled.records():
        again = row["count"] >= MIN_RETRACES.value or _rebuilds(built, row)  # one changed argument is enough
        if row["function"] and row["in_steps_ps"] > 0 and again:
            by_place.setdefault((row["host"], row["source"] or row["function"]), []).append(row)
    for (host, _), rows in by_place.items():
        time, count = sum(r["in_steps_ps"] for r in rows), sum(r["count"] for r in rows)
        share = min(time / in_steps[host], 1.0) if in_steps.get(host) else 0.0  # capped, because nested builds count twice
        if share >= _REBUILDS.value:
            yield _recompilation(run, host, rows, built, count, share)


def _share_around_builds(run: Run, host: str, count: int) -> float:
    """Return the share of the step that the host spends outside of building, where every step
    builds; else 0.

    This time counts because the first run of a program takes longer than later runs.
    """
    shares = budgets(run)[host].category_shares
    every = count >= len(run.by_host[host].steps)
    return shares[Category.HOST_COMPUTE.value] + shares[Category.KERNEL_LAUNCH.value] if every else 0.0


def _recompilation(run: Run, host: str, rows: list[dict[str, Any]], built: Table, count: int, share: float) -> Finding:
    """Return the finding for the functions of one line.

    count: number of builds
    share: share of the steps that the builds take
    built: table of traces, which names the arguments that made JAX build
    """
    from outpace.tools.functions.recompilation import find_recompilation  # most programs are built once

    around = _share_around_builds(run, host, count)
    top = max(rows, key=lambda r: r["in_steps_ps"])
    source = shorten_source_path(top["source"])
    name = f"'{top['function']}'" if top["function"] != "<lambda>" else "A lambda"
    further = f" and {format_count(len(rows) - 1, 'more function')} there" if len(rows) > 1 else ""
    rebuilds = _rebuilds(built, top)
    causes = Counter(kind for t in rebuilds for kind in t["kinds"].split(", ")).most_common()
    example = next((t["cause"] for t in rebuilds if causes[0][0] in t["kinds"].split(", ")), "")
    first, *more = example.split("; ") if example else [""]
    why = f", because of {first}{f' and {len(more)} more' * bool(more)}" if first else ""
    recompilation = (
        None if rebuilds else find_recompilation(run.by_host[host].hlo_modules.find_newest(top["function"], top["count"]))
    )
    if recompilation:
        why, first, causes = recompilation.explanation, recompilation.argument, list(recompilation.causes)
    if called := top.get("called"):
        causes = [] if {kind for kind, _ in causes} <= _SAME else causes
        why = f", for {called}() outside of a jit{why if causes else ''}"
    argument = re.split(r"[\[:]", first, maxsplit=1)[0]
    return Finding(
        id="recompiled",
        severity=Severity.HIGH,
        sentence=f"{name}{further} {'were' if further else 'was'} compiled {format_count(count, 'time')} in the captured steps "
        f"({share:.0%} of their time){f', called at {source}' if source else ''}{why}.",
        action=(_EAGER_SIZES if any(kind == kinds.SHAPE for kind, _ in causes) else _EAGER_OPS).format(source or "the call")
        if called
        else " ".join(_FIXES_JITTED[kind].format(argument) for kind, _ in causes) or _FIX_JITTED,
        evidence=(
            Evidence("share of the steps' time", share, Unit.FRACTION, "compilations"),
            Evidence("times it was built", float(count), Unit.COUNT, "compilations"),
            *(
                Evidence(f"builds because of: {kind}", float(n), Unit.COUNT, "traces" if rebuilds else "compilations")
                for kind, n in causes
            ),
        ),
        threshold=_REBUILDS,
        counter_evidence=(_HIDDEN,) if recompilation and not recompilation.argument else (),
        location=source,
        host=host,
        saving=build_saving(
            share + around,
            *(Category.COMPILATION, OUTSIDE_STEPS),
            *(_LAUNCHING if around else ()),
            assumes="if nothing was built in the steps",
        ),
        certainty=Certainty.CERTAIN,
        effort=Effort.SMALL,
        explains=("compiling_in_steps", "periodic_cost", "compile_stalls"),
    )


def _rebuilds(built: Table, row: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of `built` for a function that was built again because of a known change."""
    return [t for t in built.records() if _is_of_function(t, row) and t["kinds"] not in (kinds.FIRST, kinds.UNKNOWN)]


def _op_by_op(run: Run, program: Workload) -> Iterator[Finding]:
    """Yield findings about JAX steps that consist of many calls instead of one."""
    for row in jit_calls(run).records():
        budget = budgets(run)[row["host"]]
        between = framework_python_share(run, row["host"])  # the framework's Python only: the program's own has other findings
        between = budget.category_shares[Category.ALL_OTHERS.value] if between is None else between
        share = min(1.0, row["dispatch_share"] + between)
        if row["calls"] < _CALLS.value or share < _REBUILDS.value:
            continue
        # The program cannot change what Keras calls outside its compiled step.
        if program.is_keras and row["host"] in compiled_training_hosts(run):
            continue
        made_by = find_framework_share(run, row["host"])
        line, part = made_by.source, made_by.share
        if row["picks"] >= _PICK_SHARE * row["calls"]:
            fetched = min(1.0, share + row["fetch_share"])
            yield _read_one_by_one(row, fetched, (line, part), _launches(run, row["host"]) if run.has_device else None)
            continue
        yield Finding(
            id="op_by_op",
            severity=Severity.HIGH if share >= EXPENSIVE_CALLS.value else Severity.MODERATE,
            sentence=f"Much of the step runs op by op, outside one jax.jit{', ' * bool(line)}"
            f"{line and format_largest_part(f'from {line}', part, 1.0)}: "
            f"{row['calls']:.0f} calls of {row['kinds']} compiled functions per step.",
            action=_advise_one_program(made_by, program),
            evidence=(
                Evidence("calls of jitted functions per step", row["calls"], Unit.COUNT, "jit_calls"),
                Evidence("dispatching them, of the step at most", row["dispatch_share"], Unit.FRACTION, "jit_calls"),
            ),
            threshold=_CALLS,
            location=line,
            host=row["host"],
            saving=_launches(run, row["host"]) if run.has_device else _dispatch(share, row["calls"]),
            effort=Effort.SMALL,
            explains=("python_overhead", "small_steps", "per_call_cost", "late_launches"),
        )


def _advise_one_program(made_by: FrameworkShare, program: Workload) -> str:
    """Return the action on calls that run op by op: below a data set's methods they make the input,
    and belong to no program of the step.
    """
    # most reports have no such finding
    from outpace.metrics.actions.python_lines import PYTHON_ACTIONS, CallKind, Precondition
    from outpace.metrics.actions.table import choose_action

    if made_by.is_in_data_set:
        holds = frozenset((Precondition.CALLS_NO_STEP, Precondition.KEEPS_ARRAYS, Precondition.IN_DATA_SET))
        return choose_action(PYTHON_ACTIONS, CallKind.CONVERTING, holds).render(made_by.source, program)
    return _KERAS_JIT if program.is_keras else _ONE_JIT


def _array_copies(run: Run) -> Iterator[Finding]:
    """Yield findings about arrays that JAX copies to the device in every step."""
    for row in host_copies(run).records():
        if row["share"] < _COPIES.value:
            continue
        line = find_step_line(run, row["host"])
        is_scattered = row["copies"] >= _MANY_COPIES.value and (row["bytes"] or math.inf) < _SMALL_COPY
        what = f"{row['copies']:,.0f} arrays of {humanize(row['bytes'], Unit.BYTES)}, one by one," if is_scattered else "arrays"
        yield Finding(
            id="arguments_copied",
            severity=Severity.HIGH if row["share"] >= EXPENSIVE_CALLS.value else Severity.MODERATE,
            sentence=f"Every step copies {what} from NumPy to the device{f', for the call at {line}' if line else ''}: "
            f"{humanize(row['copied_ps'], Unit.PS)}, {row['share']:.0%} of it.",
            action=_PACKED if is_scattered else _ONE_DEVICE if not run.has_device else _TO_DEVICE,
            evidence=(
                Evidence("copies, of the step", row["share"], Unit.FRACTION, "host_copies"),
                *(Evidence("copies per step", row["copies"], Unit.RATIO, "host_copies"),) * is_scattered,
            ),
            threshold=_MANY_COPIES if is_scattered else _COPIES,
            location=line,
            host=row["host"],
            saving=_transfer_saving(run, row["host"], "copied", Category.INPUT)
            if run.has_device
            else build_saving(row["share"], Category.HOST_COMPUTE, Category.ALL_OTHERS, assumes="if nothing was copied"),
            certainty=Certainty.LIKELY,
            effort=Effort.SMALL,
            explains=("late_launches",),
        )


def _array_fetches(run: Run) -> Iterator[Finding]:
    """Yield findings about arrays that every step reads back from a device."""
    for row in host_fetches(run).records():
        if row["share"] < _FETCHES.value or row["bytes"] < _LARGE.value:
            continue
        line = find_step_line(run, row["host"])
        yield Finding(
            id="results_fetched",
            severity=Severity.HIGH if row["share"] >= EXPENSIVE_CALLS.value else Severity.MODERATE,
            sentence=f"Every step fetches {humanize(row['bytes'], Unit.BYTES)} from the device{f', behind the call at {line}' * bool(line)}: "
            f"{row['share']:.0%} of it, while no device computes.",
            action="Compute what is needed on the device, in the jitted step, and fetch only that, or fetch every few hundred steps.",
            evidence=(
                Evidence("fetching, of the step", row["share"], Unit.FRACTION, "host_fetches"),
                Evidence("fetched per step", row["bytes"], Unit.BYTES, "host_fetches"),
            ),
            threshold=_FETCHES,
            location=line,
            host=row["host"],
            saving=_transfer_saving(run, row["host"], "fetched", Category.OUTPUT),
            certainty=Certainty.LIKELY,
            effort=Effort.SMALL,
            explains=("late_launches", "waits_for_device", "even_stops", "high_output"),
        )


def _transfer_saving(run: Run, host: str, what: str, category: Category) -> Saving | None:
    """Return the saving if no array was copied in one direction.

    The host then runs ahead, and its work overlaps with that of the device.
    """
    shares = budgets(run)[host].category_shares
    share = call_overhead_bound(run, host) + shares[category.value]
    return build_saving(
        share, *_LAUNCHING, category, assumes=f"if nothing was {what}, and what the host does runs beside the device's work"
    )


def _read_one_by_one(row: dict[str, Any], share: float, place: tuple[str, float], launches: Saving | None) -> Finding:
    """Return the finding for JAX steps that read arrays element by element.

    place: (source line, its share), as `find_framework_share` tells them
    """
    line, part = place
    return Finding(
        id="read_one_by_one",
        severity=Severity.HIGH if share >= EXPENSIVE_CALLS.value else Severity.MODERATE,
        sentence=f"Each step makes {row['picks']:.0f} calls that only pick elements out of arrays on the device"
        f"{', ' * bool(line)}{line and format_largest_part(f'at {line}', part, 1.0, total_name='them')}; "
        "each is dispatched and waited for separately.",
        action="Fetch the whole array once (np.asarray(x), or jax.device_get) and index that. Or compute what you need of it inside the "
        "jitted step.",
        evidence=(
            Evidence("calls per step that pick elements", row["picks"], Unit.COUNT, "jit_calls"),
            Evidence("dispatching all calls, of the step at most", row["dispatch_share"], Unit.FRACTION, "jit_calls"),
        ),
        threshold=_CALLS,
        location=line,
        host=row["host"],
        saving=launches
        or build_saving(
            share, Category.HOST_COMPUTE, Category.ALL_OTHERS, assumes="if dispatching them, and waiting for each, cost nothing"
        ),
        effort=Effort.SMALL,
        explains=("python_overhead", "small_steps", "per_call_cost", "late_launches"),
    )


def _launches(run: Run, host: str) -> Saving | None:
    """Return the saving if one program replaced the calls.

    One program launches once, so that only the device's work remains, less what fusion saves.
    """
    categories = (*_LAUNCHING, Category.DEVICE_COMPUTE_16, Category.DEVICE_COMPUTE_32)
    share = call_overhead_bound(run, host) + fusion_bound(run, host)
    return build_saving(share, *categories, assumes="if nothing but the device's longer products and libraries' calls was left")


def _dispatch(share: float, calls: float) -> Saving | None:
    """Return the saving if one program replaced the calls.

    One program dispatches once. Where a step consists of single ops only, fusing them shrinks their
    own work as well.
    """
    assumes = "if dispatching these calls, and the Python between them, cost nothing"
    if calls >= _ALL_SINGLE * MIN_CALLS_OP_BY_OP:
        share, assumes = share + (1 - share) / 2, f"{assumes}, and fusing halved their own work"
    return build_saving(share, Category.HOST_COMPUTE, Category.ALL_OTHERS, assumes=assumes)


def _is_of_function(trace: dict[str, Any], row: dict[str, Any]) -> bool:
    """Whether a row of another table belongs to the same function and host."""
    return bool(trace["function"] == row["function"] and trace["host"] == row["host"])


def _expensive(
    run: Run, row: dict[str, Any], share: float, retraced: bool, built: list[dict[str, Any]], in_steps: int, program: Workload
) -> Finding:
    """Return the finding about a tf.function whose calls mostly build graphs or run op by op."""
    reason = (
        f"built a new graph in {row['traced']} of {format_count(row['calls'], 'call')}"
        if retraced
        else "ran op by op, without a graph"
    )
    rebuilds = [t for t in built if t["kinds"] not in (kinds.FIRST, kinds.UNKNOWN)]
    causes = Counter(kind for t in rebuilds for kind in t["kinds"].split(", ")).most_common()
    example = next((t for t in rebuilds if causes and causes[0][0] in t["kinds"].split(", ")), None)
    why = f" For example: {example['cause']}." if example else ""
    action = " ".join(_FIXES[kind] for kind, _ in causes) or _FIX
    return Finding(
        id="expensive_tf_function",
        severity=Severity.HIGH if retraced else Severity.MODERATE,
        sentence=f"tf.function '{row['function']}' {reason}; that took {share:.0%} of its time.{why}",
        action=action if retraced else program.select_text(keras=_EAGER_KERAS, tensorflow=_EAGER, jax=_EAGER),
        evidence=(
            Evidence("share of the function's time in such calls", share, Unit.FRACTION, "function_calls"),
            Evidence("graphs that the function had at its last call", float(row["graphs"]), Unit.COUNT, "function_calls"),
            *(Evidence(f"calls because of: {kind}", float(count), Unit.COUNT, "traces") for kind, count in causes),
        ),
        threshold=EXPENSIVE_CALLS,
        location=next((t["source"] for t in built if t["source"]), ""),
        host=row["host"],
        certainty=Certainty.CERTAIN,
        effort=Effort.SMALL,
        explains=("compiling_in_steps", "compile_stalls") if retraced else ("eager_ops",),
        saving=_saving(run, row, retraced, in_steps),
    )


def _saving(run: Run, row: dict[str, Any], retraced: bool, in_steps: int) -> Saving | None:
    """Return the saving of a tf.function: the time of calls that build a graph beyond that of other
    calls, or the time of calls that run op by op beyond that of their ops.
    """
    if not in_steps:
        return None
    if not retraced:
        most = min(row["expensive_ps"] / in_steps, call_overhead_bound(run, row["host"]))
        return build_saving(
            most, Category.HOST_COMPUTE, Category.ALL_OTHERS, assumes="if nothing but their ops was left of these calls"
        )
    plain = row["calls"] - row["traced"] - row["eager"]
    usual = (row["total_ps"] - row["expensive_ps"]) / plain if plain > 0 else 0.0
    return build_saving(
        rebuild_bound(row["traced_ps"], usual, row["traced"]) / in_steps,
        Category.COMPILATION,
        Category.HOST_COMPUTE,
        Category.ALL_OTHERS,
        OUTSIDE_STEPS,
        assumes="if no call built a graph, nor ran a new one for the first time",
    )
