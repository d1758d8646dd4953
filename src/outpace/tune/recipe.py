"""How to make the changes of a variant by hand."""

from __future__ import annotations

from outpace.capture.pipeline import PipelineRecorder
from outpace.store.tree import near
from outpace.tune.climb.variant import Variant
from outpace.tune.data.tree import describe
from outpace.tune.optimisations import all_rewrites
from outpace.tune.optimisations.rewrite import Patch
from outpace.tune.program.program import Program


def recipe(program: Program, best: Variant, recorder: PipelineRecorder | None) -> tuple[str, ...]:
    """How to make the changes of a variant in the source, one sentence each, with the line where it is known."""
    said = []
    rewrites = {rewrite.id: rewrite for rewrite in all_rewrites()}
    dataset = describe(program.dataset, recorder) if program.dataset is not None else None
    for change in best.changes:
        if change.knob is not None and program.loop is not None:
            said += [f"{place}: {change.knob.practice}" for place in program.loop.places()]
        elif change.knob is not None:
            words = [f"{name}={value}" for name, value in change.knob.keywords(program).items()]
            by_hand = change.knob.reads or not words
            said.append(f"{change.title}: {change.knob.practice}" if by_hand else f"compile(..., {', '.join(words)})")
        elif dataset is not None:
            patches = rewrites[change.id].patch(dataset)
            said += [_spelled(patch, change.title, recorder) for patch in patches] or [f"{change.title}: {change.why}"]
    return tuple(said)


def _spelled(patch: Patch, title: str, recorder: PipelineRecorder | None) -> str:
    stage = (
        next((s for s in recorder.stages if s.id == patch.call), None)
        if recorder is not None and patch.call is not None
        else None
    )
    where = f"{near(stage.file)}:{stage.line} {stage.op}" if stage is not None else title
    parts = [f"add {', '.join(f'{k}={v}' for k, v in patch.keywords.items())}"] if patch.keywords else []
    if patch.insert:
        parts.append(f"put {patch.insert} after it")
    if patch.remove:
        parts.append("take it out here")
    if patch.note:
        parts.append(patch.note)
    return f"{where}: {'; '.join(parts) or title}"
