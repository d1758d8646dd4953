"""A convolution network in float32 on images made by NumPy in the loop, on one GPU; the loop waits for each loss."""

import os

import jax
import jax.numpy as jnp
import numpy as np
from amounts import CALIBRATE, amount, calibrate

SMALL = os.environ.get("SMALL") == "1"
CHANGE = os.environ.get("CHANGE", "")
BATCH, SIZE, WIDTH = (8, 16, 8) if SMALL else (256, 64, 64)
STEPS = 600
WANTED = {"body_convolutions": (10, 6), "stem_norms": (5, 4), "augment_noise": (10, 20000), "format_losses": (5, 300)}


def init(key):
    keys = iter(jax.random.split(key, 8))
    filters = lambda *shape: jax.random.normal(next(keys), shape) * (2.0 / (shape[0] * shape[1] * shape[2])) ** 0.5
    return {
        "stem": filters(3, 3, 3, WIDTH),
        "one": filters(3, 3, WIDTH, WIDTH),
        "two": filters(3, 3, WIDTH, 2 * WIDTH),
        "more": filters(1, 1, 2 * WIDTH, 2 * WIDTH),
        "head": jax.random.normal(next(keys), (2 * WIDTH, 10)) * 0.05,
    }


def convolve(x, w, stride=1):
    return jax.lax.conv_general_dilated(x, w, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def norm(x):
    return (x - x.mean((0, 1, 2))) * jax.lax.rsqrt(x.var((0, 1, 2)) + 1e-5)


def make_step(change, count):
    def loss_of(params, images, labels):
        with jax.named_scope("stem"):
            x = jax.nn.relu(norm(convolve(images, params["stem"])))
            for _ in range(count if change == "stem_norms" else 0):
                x = norm(x)
        with jax.named_scope("body"):
            x = jax.nn.relu(norm(convolve(x, params["one"], 2)))
            x = jax.nn.relu(norm(convolve(x, params["two"], 2)))
            for _ in range(count if change == "body_convolutions" else 0):
                x = jax.nn.relu(convolve(x, params["more"]))
        with jax.named_scope("head"):
            logp = jax.nn.log_softmax(x.mean((1, 2)) @ params["head"])
        return -jnp.take_along_axis(logp, labels[:, None], -1).mean()

    def step(params, images, labels):
        loss, grads = jax.value_and_grad(loss_of)(params, images, labels)
        with jax.named_scope("descent"):
            return jax.tree.map(lambda p, g: p - 0.01 * g, params, grads), loss

    return jax.jit(step, donate_argnums=0)


class Training:
    def __init__(self, change, count):
        self.change, self.count = change, count
        self.step = make_step(change, count)
        self.params = init(jax.random.key(0))
        self.rng = np.random.default_rng(1)
        self.base = self.rng.random((BATCH, SIZE, SIZE, 3), dtype=np.float32)

    def augment(self):
        images = np.roll(self.base, int(self.rng.integers(SIZE)), axis=1) if self.rng.random() < 0.5 else self.base
        if self.change == "augment_noise":
            images = images.copy()
            images.reshape(-1)[: self.count] += self.rng.standard_normal(self.count, dtype=np.float32)[: images.size]
        return images

    def one(self):
        images = jax.device_put(self.augment())
        self.params, loss = self.step(self.params, images, np.arange(BATCH) % 10)
        loss = float(loss)
        if self.change == "format_losses":
            log = ";".join(f"{value:.6f}" for value in np.linspace(loss, 0, self.count))
        return loss


if CALIBRATE:
    calibrate("convnet", WANTED, lambda change, count: Training(change, count).one)
else:
    training = Training(CHANGE, amount("convnet"))
    print("first loss", round(training.one(), 4))
    for number in range(STEPS):
        with jax.profiler.StepTraceAnnotation("train", step_num=number):
            loss = training.one()
        if number % 200 == 0:
            print("step", number, "loss", round(loss, 4))
