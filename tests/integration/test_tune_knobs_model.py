"""What is said of a model: steps per call, callbacks, facts for advice, biases that cancel."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.integration.programs import needs_tensorflow, run_on_tensorflow, run_program

pytestmark = needs_tensorflow

BIAS = """
import json
import numpy as np, keras, tensorflow as tf
from keras import layers as L
from outpace.tune.optimisations.advice import advice_on
from outpace.tune.optimisations.facts import facts_of
from outpace.tune.program.program import Program

X = np.random.RandomState(0).randn(320, 8, 8, 3).astype("float32")
Y = np.random.RandomState(1).randint(0, 4, 320)

def inner():
    return keras.Sequential([keras.Input((6, 6, 8)), L.DepthwiseConv2D(3, name="deep"), L.BatchNormalization(), L.ReLU()], name="inner")

def made(**options):
    keras.utils.set_random_seed(3)
    i = keras.Input((8, 8, 3))
    x = inner()(L.ReLU()(L.BatchNormalization()(L.Conv2D(8, 3, name="first")(i))))
    x = L.BatchNormalization()(L.Dense(8, name="dense")(L.Flatten()(x)))
    model = keras.Model(i, L.Dense(4, name="head")(x))
    for layer in model._flatten_layers():
        if getattr(layer, "bias", None) is not None:
            layer.bias.assign(np.random.RandomState(5).randn(*layer.bias.shape) * 0.3)
    options = {"optimizer": "adam", "jit_compile": False} | options
    model.compile(loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True), **options)
    return model

def tricky():  # each bias of this model but that of `plain` has another use
    i = keras.Input((8, 8, 3))
    both = L.Conv2D(8, 1, name="both")(L.BatchNormalization()(L.Conv2D(8, 1, name="plain")(i)))
    x = L.Add()([L.BatchNormalization()(both), both])
    x = L.BatchNormalization()(L.Conv2D(8, 1, activation="relu", name="activated")(x))
    x = L.BatchNormalization(trainable=False)(L.Conv2D(8, 1, name="frozen")(x))
    x = L.BatchNormalization(axis=1)(L.Conv2D(8, 1, name="other_axis")(x))
    x = L.BatchNormalization()(L.Conv2D(8, 1, bias_regularizer="l2", name="regularised")(x))
    return keras.Model(i, [x, L.Conv2D(8, 1, name="output")(x)])

def facts(model):
    model.compile("sgd", "mse")
    return facts_of(Program.of(model, X, {"y": Y}, None, ()))

def idle(model):
    return [layer.name for layer in facts(model).layers if layer.idle_bias]

found = {"tricky": idle(tricky()), "layers": idle(made())}
found["said"] = {each.id: each.sentence for each in advice_on(facts(made()))}
model = made()

# A bias that cancels moves no loss in training, whatever its value; the one of the head does.
loss_of = lambda: float(model.loss(Y, model(X, training=True)))
found["losses"] = {"as it is": loss_of()}
for layer in model._flatten_layers():
    if getattr(layer, "bias", None) is not None:
        before = layer.bias.numpy()
        layer.bias.assign(before + np.arange(before.size, dtype="float32"))
        found["losses"][layer.name] = loss_of()
        layer.bias.assign(before)

class Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = L.Conv2D(2, 5), L.BatchNormalization()
    def call(self, x):
        return self.norm(self.conv(x))

found["unknown"] = idle(Subclassed())
keras.mixed_precision.set_global_policy("mixed_bfloat16")
found["mixed"] = [each.id for each in advice_on(facts(made()))]
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def bias(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    ended = run_program(BIAS, tmp_path_factory.mktemp("bias"), PYTHONWARNINGS="error::UserWarning:keras")
    assert ended.code == 0, ended.err[-3000:]
    answer: dict[str, Any] = json.loads(ended.out.splitlines()[-1])
    return answer


def test_only_biases_that_cancel_are_left_out(bias: dict[str, Any]) -> None:
    assert bias["layers"] == ["first", "deep", "dense"]
    assert bias["tricky"] == ["plain"]
    assert bias["unknown"] == []
    assert "use_bias=False on first, deep, dense" in bias["said"]["conv_bias"]


def test_layers_in_32_bits_are_counted_until_some_compute_in_16(bias: dict[str, Any]) -> None:
    said = bias["said"]["mixed_precision"]
    assert said.startswith("4 layers compute in float32: ")
    assert 'set_global_policy("mixed_bfloat16") before the model is made' in said
    assert "mixed_precision" not in bias["mixed"]


def test_other_values_of_these_biases_leave_the_loss_as_it_is(bias: dict[str, Any]) -> None:
    losses = dict(bias["losses"])
    plain = losses.pop("as it is")
    assert abs(losses.pop("head") - plain) > 0.1
    assert sorted(losses) == sorted(bias["layers"])
    assert all(abs(loss - plain) < 1e-4 * plain for loss in losses.values()), (plain, losses)


CALLS = """
import json, types
import numpy as np, keras, tensorflow as tf
from outpace.tune.optimisations.advice import advice_on
from outpace.tune.optimisations.facts import facts_of
from outpace.tune.optimisations.compiled import JitCompile, StepsPerExecution, callbacks_of_batches
from outpace.tune.program.program import Program

KNOB = StepsPerExecution()

def made(**options):
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(2)])
    model.compile("sgd", "mse", jit_compile=False, **options)
    return model

def program_of(model, source, step_seconds=None, **arguments):
    return Program.of(model, source, arguments, step_seconds, ())

def data(batches):
    return tf.data.Dataset.from_tensor_slices((np.zeros((4 * batches, 8), "float32"), np.zeros((4 * batches, 2), "float32"))).batch(4)

def said(batches, **arguments):
    source = arguments.pop("source", None) or data(batches)
    program = program_of(made(), source, **arguments)
    applies = KNOB.applies(program)
    return [type(applies).__name__, applies.sentence, KNOB.keywords(program)["steps_per_execution"]]

def trained(batches, **arguments):
    source = arguments.pop("source", None) or data(batches)
    words = KNOB.keywords(program_of(made(), source, **arguments))
    model = made(**{name: int(value) for name, value in words.items()})
    model.fit(source, verbose=0, epochs=2, **arguments)
    return [model.steps_per_execution, int(model.optimizer.iterations)]

class Counts(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        pass

found = {
    "plain": said(40),
    "short": said(17),
    "shorter": said(7),
    "short steps": said(400, step_seconds=0.001),
    "long steps": said(400, step_seconds=0.05),
    "not dividing": trained(41),
    "unknown length": trained(0, source=data(41).filter(lambda x, y: True)),
    "steps per epoch": trained(0, source=data(60).repeat(), steps_per_epoch=36),
    "indivisible": said(0, source=data(60).repeat(), steps_per_epoch=37),
    "epoch": said(40, callbacks=[keras.callbacks.EarlyStopping("loss")]),
    "saves": said(40, callbacks=[keras.callbacks.ModelCheckpoint("a.keras", save_freq=10)]),
    "own": said(40, callbacks=[Counts()]),
    "lambda": said(40, callbacks=keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: None)),
    "lambda epoch": said(40, callbacks=[keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: None)]),
}
unseen = data(41).filter(lambda x, y: True)
found["consents"] = [
    [knob.applies(program_of(made(), *given[:1], **dict(given[1:]))).risk.consent for knob in (KNOB, JitCompile())]
    for given in ((data(41),), (unseen,), (unseen.repeat(), ("steps_per_epoch", 32)))
]
model = made()
model.fit(unseen, verbose=0, epochs=2)
found["counted without length"] = int(model.optimizer.iterations)
of_batches = lambda *callbacks: callbacks_of_batches(program_of(made(), data(8), callbacks=list(callbacks)))
found["of batches"] = [of_batches(Counts(), keras.callbacks.History()), of_batches(keras.callbacks.EarlyStopping("loss")), of_batches()]
plain = facts_of(program_of(made(), data(17)))

def read(path, label):
    return tf.image.resize(tf.io.decode_jpeg(tf.io.read_file(path), channels=3), [8, 8]), label

tf.io.write_file("a.jpg", tf.io.encode_jpeg(np.zeros((9, 9, 3), "uint8")))
files = tf.data.Dataset.from_tensor_slices((["a.jpg"] * 8, [0] * 8)).map(read).batch(4)
conv, head = keras.layers.Conv2D(4, 3, name="conv"), keras.layers.Dense(2, name="head")
model = keras.Sequential([keras.Input((8, 8, 3)), conv, keras.layers.Flatten(), head])
model.compile("sgd", "sparse_categorical_crossentropy", metrics=["accuracy", keras.metrics.SparseTopKCategoricalAccuracy(1)])
model.fit(files, verbose=0)  # a program is looked at when it has made some steps
known = facts_of(program_of(model, files))
facts = known.within(types.SimpleNamespace(model=100.0, input=50.0))
found["facts"] = [[layer.name, layer.kind, layer.kernel] for layer in facts.layers if layer.kernel]
found["numbers"] = [facts.parameters, facts.parameter_bytes, facts.metrics, facts.replicas, facts.steps_per_call]
found["input"] = [facts.decodes_jpeg, plain.decodes_jpeg, facts.step_seconds, facts.input_bound]
found["advice"] = [advice.id for advice in advice_on(known)]

class Own(keras.layers.Layer):
    def build(self, shape):
        self.inner = keras.layers.Dense(3)
        self.inner.build(shape)
    def call(self, x):
        return self.inner(x)

class Model(keras.Model):
    def __init__(self):
        super().__init__()
        self.own = Own()
    def call(self, x):
        return self.own(x)

model = Model()
model.compile("sgd", "mse")
one = tf.data.Dataset.from_tensors((np.zeros((4, 8), "float32"), np.zeros((4, 3), "float32")))
model.fit(one, verbose=0)
facts = facts_of(program_of(model, one))
found["subclassed"] = [[layer.kind, layer.kernel] for layer in facts.layers if layer.kernel]
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    ended = run_on_tensorflow(CALLS, tmp_path_factory.mktemp("calls"))
    assert ended.code == 0, ended.err[-3000:]
    answer: dict[str, Any] = json.loads(ended.out.splitlines()[-1])
    return answer


def test_every_batch_is_trained_on_once_where_calls_do_not_divide_them(calls: dict[str, Any]) -> None:
    assert calls["not dividing"] == [16, 2 * 41]
    assert calls["unknown length"] == [16, 2 * 41]


def test_consent_is_asked_where_keras_counts_a_step_without_data(calls: dict[str, Any]) -> None:
    assert calls["consents"] == [["", ""], ["statistical", "statistical"], ["", ""]]
    assert calls["counted without length"] >= 2 * 41  # two more, as far as was seen; calls of several steps: exactly


def test_steps_that_fit_was_given_are_kept(calls: dict[str, Any]) -> None:
    assert calls["steps per epoch"] == [12, 2 * 36]
    kind, why, _ = calls["indivisible"]
    assert kind == "NotApplicable"
    assert "no number of steps from 4 to 128 divides steps_per_epoch=37" in why


def test_an_epoch_holds_two_calls(calls: dict[str, Any]) -> None:
    assert calls["plain"][::2] == ["Applies", "16"]
    assert calls["short"][::2] == ["Applies", "8"]
    assert calls["shorter"][:2] == ["NotApplicable", "an epoch has 7 batches, too few for two calls of 4"]
    assert calls["short steps"][::2] == ["Applies", "96"]  # as many as 0.1 s hold, in sixteens
    assert calls["long steps"][::2] == ["Applies", "16"]


def test_callbacks_that_act_on_each_batch_are_respected(calls: dict[str, Any]) -> None:
    why = "the callback Counts acts on each batch, and would be called once for 16 of them"
    assert calls["own"][:2] == ["NotApplicable", why]
    assert calls["lambda"][0] == "NotApplicable"
    assert {calls["epoch"][0], calls["saves"][0], calls["lambda epoch"][0]} == {"Applies"}
    assert "(ModelCheckpoint too)" in calls["saves"][1]
    assert "too)" not in calls["epoch"][1] + calls["lambda epoch"][1]
    assert calls["of batches"] == [["Counts"], [], []]  # what no rate of a tuning holds


def test_facts_for_advice_are_read_from_a_real_program(calls: dict[str, Any]) -> None:
    conv, head = calls["facts"]
    assert conv == ["conv", "Conv2D", [3, 3, 3, 4]]
    assert head == ["head", "Dense", [144, 2]]
    weights = 108 + 4 + 288 + 2
    assert calls["numbers"] == [weights, 4 * weights, ["SparseCategoricalAccuracy", "SparseTopKCategoricalAccuracy"], 1, 1]
    assert calls["input"] == [True, False, 0.01, True]
    assert calls["advice"][0] == "depthwise_separable"
    assert {"metrics", "pruning"} <= set(calls["advice"])


def test_layers_inside_of_a_subclassed_model_are_seen(calls: dict[str, Any]) -> None:
    assert calls["subclassed"] == [["Dense", [8, 3]]]
