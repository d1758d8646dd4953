"""What a case is: input that a rule of the advice is given, and what it must say of it, or that it
stays silent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from outpace.metrics.facts.workload import Framework, Workload
from outpace.model import Finding, Severity

Find = Callable[[], Iterable[Finding]]

KERAS, TENSORFLOW, JAX = Workload(Framework.KERAS), Workload(Framework.TENSORFLOW), Workload(Framework.JAX)
KERAS_JAX, UNKNOWN = Workload(Framework.KERAS_JAX), Workload(Framework.UNKNOWN)
NOT_JAX = ("keras", "tf.function", "model.fit", "steps_per_execution", "TF_GPU_THREAD_MODE", "jit_compile", "tf.data.AUTOTUNE")
NOT_TENSORFLOW = ("jax.", "jnp.", "PjitFunction", "XLA_PYTHON")
_STRANGE = {
    **dict.fromkeys((KERAS, TENSORFLOW, UNKNOWN), NOT_TENSORFLOW),
    JAX: NOT_JAX,
    KERAS_JAX: ("tf.function", "TF_GPU_THREAD_MODE"),
}


@dataclass(frozen=True)
class Case:
    """A rule, how its findings come about, and what is expected of the first of them.

    `severity`: None where the rule must stay silent. `saves`: range of what is saved at most, as a
    share of the step; None where no number may be given. `takes_from`: the categories it comes
    from. `says` and `never`: words that its sentence and action must and must not hold. `also`:
    what else the rule's function tells besides findings, for rules that rate without one. `wrong`:
    what it says today instead, where that is known to be wrong; the case fails until it is mended.
    """

    rule: str
    name: str
    find: Find
    severity: Severity | None = None
    location: str = ""
    saves: tuple[float, float] | None = None
    takes_from: tuple[str, ...] = ()
    says: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    struck: bool = False
    also: Callable[[], object] | None = None
    wrong: str = ""

    def findings(self) -> list[Finding]:
        """What the rule finds."""
        return [finding for finding in self.find() if finding.id == self.rule]

    def outcome(self) -> object:
        """All that a reader sees of it, except for the limit's own name and value."""
        seen = [
            (f.severity, f.sentence, f.action, f.saving, f.location, f.certainty, f.counter_evidence, f.struck, f.explains)
            for f in self.findings()
        ]
        return seen, self.also() if self.also else None


def silent(rule: str, name: str, find: Find, **more: Any) -> Case:
    """A case in which the rule says nothing: just on the other side of a limit."""
    return Case(rule, name, find, **more)


def fires(rule: str, name: str, find: Find, severity: Severity, **more: Any) -> Case:
    """A case in which the rule speaks."""
    return Case(rule, name, find, severity, **more)


def about(share: float) -> tuple[float, float]:
    """A range of savings around a share that was built in."""
    return share - 0.005, share + 0.005


def worded(
    rule: str,
    find: Callable[[Workload], Iterable[Finding]],
    severity: Severity,
    *,
    keras: str,
    tensorflow: str,
    jax: str,
    keras_jax: str = "",
    name: str = "",
    strange: bool = True,
    **more: Any,
) -> list[Case]:
    """One firing case per framework: each says its own words, and none of those that only another
    says. `strange`: nor any other word of the other framework. What cannot be told apart is spoken
    to as TensorFlow, and Keras on JAX as Keras.
    """
    own = {KERAS: keras, TENSORFLOW: tensorflow, JAX: jax, KERAS_JAX: keras_jax or keras, UNKNOWN: tensorflow}
    cases = []
    for program, words in own.items():
        others = tuple(o for o in own.values() if o not in words and words not in o)
        never = (*others, *(_STRANGE[program] if strange else ()))

        def bound(program: Workload = program) -> Iterable[Finding]:
            return find(program)

        called = f"{name}{', ' * bool(name)}in the words of {program.framework.value}"
        cases.append(Case(rule, called, bound, severity, says=(words,), never=never, **more))
    return cases
