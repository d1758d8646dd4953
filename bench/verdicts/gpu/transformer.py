"""A transformer on tokens in bf16 with hand-written Adam, on one GPU; the loop waits for each loss."""

import os

import jax
import jax.numpy as jnp
import numpy as np
from amounts import CALIBRATE, amount, calibrate

SMALL = os.environ.get("SMALL") == "1"
CHANGE = os.environ.get("CHANGE", "")
BATCH, LENGTH, DIM, HEADS, LAYERS, WORDS = (2, 64, 64, 4, 3, 256) if SMALL else (8, 512, 1024, 16, 4, 16384)
STEPS = 600
WANTED = {"mlp_matmuls": (10, 12), "adam_sines": (5, 48), "percentile_line": (10, 40000), "side_input": (5, 300000)}


def init(key):
    keys = iter(jax.random.split(key, 6 * LAYERS + 4))
    normal = lambda *shape: jax.random.normal(next(keys), shape) * 0.02
    block = lambda: {
        "qkv": normal(DIM, 3 * DIM),
        "o": normal(DIM, DIM),
        "up": normal(DIM, 4 * DIM),
        "down": normal(4 * DIM, DIM),
    }
    return {
        "embed": normal(WORDS, DIM),
        "out": normal(DIM, WORDS),
        "more": normal(DIM, DIM),
        "blocks": [block() for _ in range(LAYERS)],
    }


def norm(x):
    x = x.astype(jnp.float32)
    return ((x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)).astype(jnp.bfloat16)


def attention(p, x, change):
    weights = p["qkv"].astype(jnp.bfloat16)
    if change == "shift_three_matmuls":
        q, k, v = (norm(x) @ each for each in jnp.split(weights, 3, -1))
    else:
        q, k, v = jnp.split(norm(x) @ weights, 3, -1)
    heads = lambda a: a.reshape(BATCH, LENGTH, HEADS, DIM // HEADS)
    mixed = jax.nn.dot_product_attention(heads(q), heads(k), heads(v), is_causal=True)
    return mixed.reshape(BATCH, LENGTH, DIM) @ p["o"].astype(jnp.bfloat16)


def mlp(p, x, more, count):
    h = jax.nn.gelu(norm(x) @ p["up"].astype(jnp.bfloat16)) @ p["down"].astype(jnp.bfloat16)
    for _ in range(count):
        h = jnp.tanh(h @ more.astype(jnp.bfloat16))
    return h


def make_step(change, count):
    def loss_of(params, tokens):
        x = params["embed"].astype(jnp.bfloat16)[tokens]
        for i, p in enumerate(params["blocks"]):
            with jax.named_scope(f"block_{i}"):
                with jax.named_scope("attention"):
                    x = x + attention(p, x, change)
                with jax.named_scope("mlp"):
                    x = x + mlp(p, x, params["more"], count if change == "mlp_matmuls" and i == 2 % LAYERS else 0)
        with jax.named_scope("logits"):
            logp = jax.nn.log_softmax((norm(x) @ params["out"].astype(jnp.bfloat16)).astype(jnp.float32))
        return -jnp.take_along_axis(logp, jnp.roll(tokens, -1, 1)[..., None], -1).mean()

    def step(params, m, v, tokens):
        loss, grads = jax.value_and_grad(loss_of)(params, tokens)
        with jax.named_scope("adam"):
            if change == "adam_sines":
                for _ in range(count):
                    grads = jax.tree.map(lambda g: g + 1e-7 * jnp.sin(g), grads)
            m = jax.tree.map(lambda a, g: 0.9 * a + 0.1 * g, m, grads)
            v = jax.tree.map(lambda a, g: 0.99 * a + 0.01 * g * g, v, grads)
            params = jax.tree.map(lambda p, a, b: p - 1e-4 * a / (jnp.sqrt(b) + 1e-8), params, m, v)
        return params, m, v, loss

    return jax.jit(step, donate_argnums=(0, 1, 2))


class Training:
    def __init__(self, change, count):
        self.change, self.count = change, count
        self.step = make_step(change, count)
        params = init(jax.random.key(0))
        self.state = (params, *(jax.tree.map(jnp.zeros_like, params) for _ in range(2)))
        self.rng = np.random.default_rng(1)

    def one(self):
        tokens = jax.device_put(self.rng.integers(0, WORDS, (BATCH, LENGTH), dtype=np.int32))
        if self.change == "side_input":
            side = jax.device_put(np.full(self.count, 1.0, np.float32))
            side.block_until_ready()
        *self.state, loss = self.step(*self.state, tokens)
        loss = float(loss)
        if self.change == "percentile_line":
            spread = np.percentile(self.rng.random(self.count), [5, 50, 95])
        return loss


if CALIBRATE:
    calibrate("transformer", WANTED, lambda change, count: Training(change, count).one)
else:
    training = Training(CHANGE, amount("transformer"))
    print("first loss", round(training.one(), 4))
    for number in range(STEPS):
        with jax.profiler.StepTraceAnnotation("train", step_num=number):
            loss = training.one()
        if number % 200 == 0:
            print("step", number, "loss", round(loss, 4))
