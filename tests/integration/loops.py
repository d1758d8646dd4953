"""Training loops in a process of their own that are taken over without any race: what a variant does to their steps is asked directly."""

from __future__ import annotations

HEAD = """
import json, os, sys, threading
import numpy as np
from outpace.tune.climb.variant import Change, Variant
from outpace.tune.data.verify import Risk
from outpace.tune.optimisations import knobs
from outpace.tune.optimisations.knob import serves
from outpace.tune.optimisations.optimisation import Applies
from outpace.tune.loop.losses import loop_band
from outpace.tune.loop.takeover import take_over
from outpace.tune.loop.muted import Muted
from outpace.tune.loop.found import Loops
from outpace.tune.program.program import Program

wrong = sys.argv[1:] == ["wrong"]  # the graph does something else than the step

def ask(loop, statement):
    said = {}
    try:
        loop.clock.begun.wait()
        loop.observe()
        program = Program.of_loop(loop)
        for knob in (each for each in knobs() if serves(each, program)):
            applies = knob.applies(program)
            if not isinstance(applies, Applies):
                said[knob.id] = ["not applicable", applies.sentence]
                continue
            if wrong and knob.id in ("loop_graph", "loop_jit"):
                right, of = loop.graph_of, changed
                loop.graph_of = lambda function: of(right(function))
            if wrong and knob.id == "loop_calls":
                several, both = loop.woven.function, changed
                loop.woven.function = lambda compiled: both(several(compiled))
            change = Change(knob, applies.sentence, Risk.REORDERED)
            band = loop_band(program, Variant("as it is", program.dataset).with_change(change), seconds=2)
            said[knob.id] = [band.inside, band.sentence, len(band.base)]
    except BaseException as error:
        said["error"] = repr(error)
    sys.__stdout__.write(json.dumps(said) + "\\n")
    sys.__stdout__.flush()
    os._exit(0)

loops = Loops(lambda found: take_over(found, Muted(), ask, lambda: None), lambda: None)
"""
