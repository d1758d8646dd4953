"""What looks cost a JAX training of short steps: python bench/looks.py [--blocks N] [--seconds S]

One process trains without a pause, in steps of about a millisecond. Blocks of it with looks
alternate, in a drawn order, with blocks without; the command that judges runs beside, as under
`outpace profile`. Prints by how much the median step of a block is longer with looks (median over
blocks, 95 % bootstrap interval), and the processor time that looks take of one core, the judging
process included.
"""

from __future__ import annotations

import argparse
import random
import resource
import subprocess
import sys
import tempfile
import threading
import time
from statistics import median

import numpy as np

JUDGE = """
import sys, time
from outpace.capture.repetition import answer_request
while True:
    answer_request(sys.argv[1])
    time.sleep(0.1)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blocks", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=1.0, help="of a block")
    options = parser.parse_args()

    import jax
    import jax.numpy as jnp

    from outpace.capture.host_snapshots import FIRST_DURATION_S, AnalysisClient, HostSnapshots
    from outpace.capture.options import CaptureOptions
    from outpace.capture.profilers import JaxProfiler
    from outpace.capture.timed_window import SNAPSHOT_INTERVAL_S

    @jax.jit
    def train_step(w: jax.Array, x: jax.Array) -> jax.Array:
        return w - 1e-3 * jax.grad(lambda w: jnp.mean(jnp.tanh(jnp.tanh(x @ w) @ w) ** 2))(w)

    w, x = jnp.ones((192, 192)) / 192, jnp.ones((288, 192))
    looking, over = threading.Event(), threading.Event()
    with tempfile.TemporaryDirectory() as folder:
        judge = subprocess.Popen([sys.executable, "-c", JUDGE, folder])
        looks, profiler = HostSnapshots(AnalysisClient(folder), folder), JaxProfiler(jax, CaptureOptions())
        found = []

        def look() -> None:
            while not over.is_set():
                if looking.wait(0.1) and not over.wait(SNAPSHOT_INTERVAL_S) and looking.is_set():
                    found.append(looks.take(profiler, FIRST_DURATION_S, over))

        thread = threading.Thread(target=look, daemon=True)
        thread.start()

        def block(with_looks: bool) -> tuple[float, float]:
            """(mean step in ms, processor seconds of this process)"""
            nonlocal w
            (looking.set if with_looks else looking.clear)()
            until, count, began, used = time.perf_counter() + options.seconds, 0, time.perf_counter(), time.process_time()
            while time.perf_counter() < until:
                w = train_step(w, x).block_until_ready()
                count += 1
            return (time.perf_counter() - began) / count * 1e3, time.process_time() - used

        for _ in range(4):
            block(True)
        order = [True, False] * (options.blocks // 2)
        random.Random(0).shuffle(order)
        rows = [(mode, *block(mode)) for mode in order]
        over.set()
        thread.join()
        judge.terminate()
        judge.wait()
        judged = resource.getrusage(resource.RUSAGE_CHILDREN)
    on, off = ([step for mode, step, _ in rows if mode is wanted] for wanted in (True, False))
    draw = np.random.default_rng(0)
    ratios = [np.median(draw.choice(on, len(on))) / np.median(draw.choice(off, len(off))) for _ in range(4000)]
    low, high = np.quantile(ratios, (0.025, 0.975))
    print(f"{len(found)} looks, {sum(look is not None and look.rounds >= 3 for look in found)} of which saw the training")
    print(f"step without looks {median(off):.3f} ms; with looks {median(on) / median(off):.4f} of it [{low:.4f}, {high:.4f}]")
    wall = options.blocks * options.seconds / 2
    print(f"the judging process: {(judged.ru_utime + judged.ru_stime) / wall:.2%} of a core")


if __name__ == "__main__":
    main()
