"""`outpace.scopes(model)`: parameters as Keras counts them, FLOPs as TensorFlow's profiler does."""

from __future__ import annotations

import json
from pathlib import Path

from tests.integration.programs import needs_tensorflow, run_on_tensorflow

SCRIPT = """
import json
import keras, tensorflow as tf
import outpace
layers = keras.layers
inner = keras.Sequential([layers.Input((15, 15, 16)), layers.Conv2D(32, 3, strides=2, name="inner"), layers.Dropout(0.5)], name="block")
model = keras.Sequential([layers.Input((32, 32, 3)), layers.Conv2D(16, 3, name="first"), layers.MaxPooling2D(), inner,
                          layers.DepthwiseConv2D(3, name="depthwise"), layers.Flatten(), layers.Dense(10, name="last")], name="net")
inner.trainable = False
table = outpace.scopes(model, max_depth=4).table("layers")
call = tf.function(lambda x: model(x, training=False)).get_concrete_function(tf.TensorSpec((1, 32, 32, 3)))
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2
graph = convert_variables_to_constants_v2(call).graph
options = tf.compat.v1.profiler.ProfileOptionBuilder(tf.compat.v1.profiler.ProfileOptionBuilder.float_operation()).with_empty_output().build()
profile = tf.compat.v1.profiler.profile(graph=graph, cmd="op", options=options)
found = {p.name: p.total_float_ops for p in profile.children}
def walk(node):
    yield node.name, node.float_ops
    for child in node.children: yield from walk(child)
print(json.dumps({"rows": list(table.records()), "tf": dict(walk(profile)), "count": model.count_params(),
                  "trainable": sum(int(tf.size(w)) for w in model.trainable_weights)}))
"""


@needs_tensorflow
def test_parameters_and_flops_of_layers(tmp_path: Path) -> None:
    done = run_on_tensorflow(SCRIPT, tmp_path)
    assert done.code == 0, done.err[-2000:]
    answer = json.loads(done.out.splitlines()[-1])
    rows = {row["layer"]: row for row in answer["rows"]}
    top = [row for row in answer["rows"] if row["depth"] == 1]
    assert sum(row["parameters"] for row in top) == answer["count"]
    assert sum(row["trainable"] for row in top) == answer["trainable"]
    assert rows["block"]["trainable"] == 0
    assert rows["inner"]["id"] == "net/block/inner"
    theirs = answer["tf"]
    assert rows["first"]["flops"] + rows["inner"]["flops"] == theirs["Conv2D"]
    assert rows["depthwise"]["flops"] == theirs["DepthwiseConv2dNative"]
    assert rows["last"]["flops"] == theirs["MatMul"]
