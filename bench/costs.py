"""How often Outpace's count of a program's operations and bytes equals XLA's own count, on programs
of others: functions, layers, models, losses and optimisers of JAX, Flax, Equinox, Haiku, Optax and
Keras, each forward and with its gradient, compiled for the CPU; nothing is executed. Each library
has a process of its own. A program whose compiled form has a loop, a conditional, an FFT or a call
of a library (`custom-call`) does not count, because there the two counts differ on purpose. So do
the bytes of an array that a fusion gathers rows from, of which XLA counts all rows; such programs
are told apart. Prints a line per program that differs or does not count, and a summary; the exit
code is 1 where less than 99 % of the programs are equal.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from itertools import product
from typing import Any

from outpace.model.protobuf_wire import encode_bytes
from outpace.timeline.hlo.module import HloModule

jax: Any = importlib.import_module("jax") if importlib.util.find_spec("jax") else None
FLOPS_TOLERANCE, LARGE_FLOPS, LARGE_TOLERANCE = 1e-6, 2**24, 1e-5  # XLA sums in float32, exact up to 2**24
BYTES_TOLERANCE, NEEDED = 0.02, 0.99  # needed of the programs: equal operations, and equal bytes
OPCODE = re.compile(r"^\s*(?:ROOT )?%?[\w.-]+ = .*? (custom-call|fft|while|conditional)\(", re.M)
TARGET = re.compile(r'custom_call_target="([^"]*)"')
SHAPES = {"rows": (8, 32), "sequence": (2, 12, 16), "image": (2, 16, 16, 8), "channels": (2, 8, 16, 16), "line": (2, 8, 40)}
SHAPES |= {"volume": (2, 6, 6, 6, 4), "picture": (2, 32, 32, 3), "square": (24, 24), "step": (24, 24), "ids": (8,)}

LIBRARIES = {
    "jax": """rows: nn.gelu; nn.silu; nn.softplus; nn.elu; nn.log_softmax; nn.glu; nn.standardize; nn.mish; nn.hard_swish; numpy.diff
rows: scipy.special.logsumexp; scipy.special.erfinv; scipy.special.ndtri; scipy.special.i0e; numpy.sort; numpy.cumsum; numpy.cov
square: numpy.linalg.norm; numpy.trace; lambda m: numpy.linalg.matrix_power(m, 5); numpy.linalg.cholesky; numpy.fft.fft
square, square: scipy.signal.convolve2d; numpy.kron; numpy.matmul; scipy.stats.laplace.logpdf""",
    "flax.linen": """rows: Dense(48); DenseGeneral((4, 6)); Einsum((32, 4, 6), "ab,bcd->acd"); WeightNorm(Dense(16))
image: Conv(16, (3, 3)); Conv(16, (5, 3), 2, feature_group_count=4); ConvTranspose(12, (3, 3), (2, 2)); ConvLocal(6, (3, 3))
image: LayerNorm(); RMSNorm(); GroupNorm(4); InstanceNorm(); BatchNorm(use_running_average=False); PReLU()
ids: Embed(50, 16)
sequence: SelfAttention(4); MultiHeadDotProductAttention(4)
(rows, rows), rows: LSTMCell(32); OptimizedLSTMCell(32)
rows, rows: GRUCell(32); MGUCell(32)""",
    "equinox.nn": """rows: Linear(32, 48, key=key); MLP(32, 8, 64, 3, key=key); LayerNorm(32); RMSNorm(32); PReLU()
line: Conv1d(8, 12, 3, key=key); ConvTranspose1d(8, 12, 3, 2, key=key); MaxPool1d(3, 2); AvgPool1d(3, 2)
channels: Conv2d(8, 12, 3, 2, key=key); ConvTranspose2d(8, 12, 3, 2, key=key); GroupNorm(4, 8); MaxPool2d(3, 2); AvgPool2d(3, 2)
sequence, sequence, sequence: MultiheadAttention(4, 16, key=key)
rows, (rows, rows): LSTMCell(32, 32, key=key)""",
    "haiku": """picture: nets.ResNet18(10)(x, is_training=True); nets.MobileNetV1(num_classes=10)(x, is_training=True)
rows: nets.MLP([64, 64, 8])(x); SpectralNorm()(x); GRU(32)(x, x); Bias()(x); Linear(48)(x); LSTM(32)(x, LSTMState(x, x))
image: nets.VectorQuantizer(8, 20, 0.25)(x, is_training=True); nets.VectorQuantizerEMA(8, 20, 0.25, 0.99)(x, is_training=True)
image: Conv2D(12, 3, stride=2)(x); Conv2DTranspose(12, 3, stride=2)(x); DepthwiseConv2D(2, 3)(x); GroupNorm(4)(x)
image: max_pool(x, (3, 3, 1), (2, 2, 1), "SAME"); avg_pool(x, (3, 3, 1), (2, 2, 1), "SAME"); BatchNorm(True, True, 0.9)(x, True)
sequence: LayerNorm(-1, True, True)(x); MultiHeadAttention(4, 8, w_init_scale=1.0)(x, x, x)
ids: Embed(50, 16)(x); Embed(50, 16, lookup_style="ONE_HOT")(x)""",
    "optax": """rows, rows: losses.squared_error; losses.huber_loss; losses.log_cosh; losses.cosine_similarity; losses.hinge_loss
rows, rows: losses.softmax_cross_entropy; losses.sigmoid_focal_loss; losses.kl_divergence; losses.poly_loss_cross_entropy
rows, ids: losses.softmax_cross_entropy_with_integer_labels; losses.multiclass_hinge_loss; losses.ntxent
step: adabelief(0.1); adadelta(0.1); adafactor(0.1); adagrad(0.1); adam(0.1); adamw(0.1); adan(0.1); amsgrad(0.1); fromage(0.1)
step: lamb(0.1); lars(0.1); lion(0.1); nadam(0.1); novograd(0.1); radam(0.1); rmsprop(0.1); rprop(0.1); sgd(0.1); sm3(0.1); yogi(0.1)""",
    "keras.layers": """rows: Dense(48, activation="gelu"); PReLU(); SpectralNormalization(Dense(20))
sequence: EinsumDense("abc,cd->abd", (None, 24)); TimeDistributed(Dense(7)); Conv1D(12, 3); SeparableConv1D(12, 3); MaxPooling1D(2)
sequence: LSTM(24, unroll=True); GRU(24, unroll=True); Bidirectional(LSTM(12, unroll=True)); Conv1DTranspose(12, 3, 2)
image: Conv2D(12, 3, 2); Conv2DTranspose(12, 3, 2); SeparableConv2D(12, 3); Conv2D(16, 3, groups=4); GroupNormalization(4)
image: DepthwiseConv2D(3, depth_multiplier=2); Resizing(11, 13); ZeroPadding2D(3); BatchNormalization(); LayerNormalization()
image: MaxPooling2D(3, 2); AveragePooling2D(3, 2); GlobalMaxPooling2D(); AdaptiveAveragePooling2D(5); UpSampling2D(2)
volume: Conv3D(6, 3); Conv3DTranspose(6, 3); MaxPooling3D(2); AveragePooling3D(2)
sequence, sequence: MultiHeadAttention(4, 8); GroupQueryAttention(8, 4, 2)
[sequence, sequence]: Concatenate(); Dot(2); Attention(); AdditiveAttention()
picture: keras.applications.MobileNetV2(weights=None, input_shape=(32, 32, 3)); keras.applications.VGG16(False, None, None, (32, 32, 3))""",
}
"""By module: inputs (of SHAPES; `ids` are integers), and what is called with them."""


@dataclass
class Answer:
    """What is known of a program."""

    name: str
    ours: tuple[float, float] = (0.0, 0.0)  # operations, bytes
    theirs: tuple[float, float] = (0.0, 0.0)
    unread: float = 0.0  # bytes of the rows that fusions leave out of arrays that they gather from
    reasons: list[str] = field(default_factory=list)  # why it does not count: opcodes, libraries called, or an error

    def equal_flops(self) -> bool:
        tolerance = LARGE_TOLERANCE if self.theirs[0] > LARGE_FLOPS else FLOPS_TOLERANCE
        return abs(self.ours[0] - self.theirs[0]) <= tolerance * self.theirs[0]

    def equal_bytes(self, unread: float = 0.0) -> bool:
        return abs(self.ours[1] + unread - self.theirs[1]) <= BYTES_TOLERANCE * self.theirs[1]

    def gathers(self) -> bool:
        return self.equal_bytes(self.unread) and not self.equal_bytes()

    def __str__(self) -> str:
        if self.reasons:
            return f"{self.name}: does not count: {', '.join(self.reasons)}"
        sides = zip((self.equal_flops(), self.equal_bytes()), ("operations", "bytes"), self.ours, self.theirs, strict=True)
        said = "; ".join(f"{ours:.0f} {what}, XLA {theirs:.0f}" for equal, what, ours, theirs in sides if not equal)
        return f"{self.name}: {said}{', which counts rows that are not gathered' * self.gathers()}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="WORD", help="programs with this word in `library: name`")
    parser.add_argument("--library", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.library:
        for answer in answers(options.library, options.only.lower()):
            print(json.dumps(asdict(answer)), flush=True)
        return 0
    found, began = [], time.perf_counter()
    for library in LIBRARIES:
        if not jax or not importlib.util.find_spec(library.partition(".")[0]):
            print(f"{library}: left out, because {library.partition('.')[0] if jax else 'jax'} cannot be imported here.")
        else:
            found += ask(library, options.only)
    counting = [answer for answer in found if not answer.reasons]
    flops, moved, gathering = (sum(map(equal, counting)) for equal in (Answer.equal_flops, Answer.equal_bytes, Answer.gathers))
    print(f"{len(counting)} programs: {flops} with equal operations, {moved} with equal bytes,")
    print(f"{gathering} more with equal bytes but for rows that are not gathered; {time.perf_counter() - began:.0f} s")
    reasons = Counter(reason for answer in found for reason in answer.reasons).most_common()
    print("do not count:", ", ".join(f"{number} with {reason}" for reason, number in reasons) or "none")
    return int(not counting or min(flops, moved + gathering) < NEEDED * len(counting))


def ask(library: str, only: str) -> list[Answer]:
    """Compile and count the programs of a library in a process of its own."""
    command = ["env", "JAX_PLATFORMS=cpu", "KERAS_BACKEND=jax", sys.executable, __file__, "--library", library, "--only", only]
    process = subprocess.run(command, capture_output=True, text=True)
    found = [Answer(**json.loads(line)) for line in process.stdout.splitlines() if line.startswith("{")]
    if process.returncode:
        found.append(Answer(f"{library}: the others", reasons=["process ended: " + process.stderr.strip().rpartition("\n")[2]]))
    for answer in found:
        if answer.reasons or not (answer.equal_flops() and answer.equal_bytes()):
            print(answer, flush=True)
    return found


def answers(library: str, only: str) -> Iterator[Answer]:
    """Compile the programs of a library, and count each."""
    arrays = {name: jax.ShapeDtypeStruct(shape, "int32" if name == "ids" else "float32") for name, shape in SHAPES.items()}
    names = {**vars(importlib.import_module(library)), "key": jax.random.key(0), "keras": sys.modules.get("keras")}

    def loss(run: Callable[..., Any], *arguments: Any) -> Any:
        leaves = [leaf for leaf in jax.tree.leaves(run(*arguments)) if jax.numpy.issubdtype(leaf.dtype, jax.numpy.inexact)]
        return sum(jax.numpy.mean(jax.numpy.square(jax.numpy.abs(leaf))) for leaf in leaves)

    for inputs, _, code in (line.partition(": ") for line in LIBRARIES[library].splitlines()):
        for text, kind in product(code.split("; "), ("",) if inputs == "step" else ("", ", gradient")):
            answer = Answer(f"{library}: {text}{kind}")
            if only in answer.name.lower():
                try:
                    run, weights, rest, called = make(library, text, names, eval(f"({inputs},)", arrays.copy()))
                    by = 0 if jax.tree.leaves(weights) else 2
                    function = jax.value_and_grad(lambda *a, run=run: loss(run, *a), by) if kind else run
                    arguments = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), (weights, rest, *called))
                    count(answer, jax.jit(function).lower(*arguments).compile().runtime_executable().hlo_modules()[0])
                except Exception as error:  # of any library, of any kind: the next program may compile
                    answer.reasons = [f"{type(error).__name__}: {error}".splitlines()[0][:200]]
                yield answer


def count(answer: Answer, module: Any) -> None:
    """Count a compiled program by both."""
    answer.reasons = sorted({*OPCODE.findall(module.to_string()), *TARGET.findall(module.to_string())})
    counts = importlib.import_module("jaxlib._jax").hlo_module_cost_analysis(jax.devices()[0].client, module)
    answer.theirs = counts.get("flops", 0.0), counts.get("bytes accessed", 0.0)
    ours = HloModule(encode_bytes(1, module.as_serialized_hlo_module_proto()))
    answer.ours = ours.cost.flops, ours.cost.bytes
    for fusion in (each for each in ours.graph.instructions if each.opcode == "fusion" and each.called):
        for array in fusion.called[0].parameters:
            gathers = [user for user in array.users if user.opcode == "gather" and user.operands[0] is array]
            if gathers and all(user in gathers or user.opcode in ("slice", "dynamic-slice") for user in array.users):
                answer.unread += max(0, array.shapes[0].byte_size - sum(user.shapes[0].byte_size for user in gathers))


def make(library: str, text: str, names: dict[str, Any], inputs: Any) -> tuple[Callable[..., Any], Any, Any, Any]:
    """A function, its weights, its state and its inputs; the function takes all of them."""
    if library == "haiku":
        model = names["transform_with_state"](lambda x: eval(text, {**names, "x": x}))
        weights, state = jax.eval_shape(model.init, names["key"], *inputs)
        return lambda weights, rest, x: model.apply(weights, *rest, x), weights, (state, names["key"]), inputs
    if library == "equinox.nn":
        equinox = importlib.import_module("equinox")
        model = equinox.filter_eval_shape(lambda: eval(text, names))
        weights, rest = equinox.partition(model, lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct))
        return lambda weights, _, *inputs: jax.vmap(equinox.combine(weights, rest))(*inputs), weights, (), inputs
    made = eval(text, names)
    if library == "flax.linen":
        rest = dict(jax.eval_shape(made.init, names["key"], *inputs))
        weights, changed = rest.pop("params", {}), list(rest)
        return lambda w, rest, *inputs: made.apply({"params": w, **rest}, *inputs, mutable=changed), weights, rest, inputs
    if library == "keras.layers":
        if not made.built:
            made(*jax.tree.map(lambda each: names["Input"](batch_shape=each.shape, dtype=each.dtype.name), inputs))
        weights, rest = ([each.value for each in some] for some in (made.trainable_variables, made.non_trainable_variables))
        return made.stateless_call, weights, rest, inputs
    if hasattr(made, "update"):  # an optimiser of Optax
        return lambda w, state, by: made.update(by, state, w), inputs[0], jax.eval_shape(made.init, *inputs), inputs
    return lambda _, __, *inputs: made(*inputs), (), (), inputs


if __name__ == "__main__":
    sys.exit(main())
