"""A Ray job on a cluster of three nodes of this machine, which trains with JAX where no TensorFlow
can be imported.

`python ray_job.py CLIENT_PORT RUN` prints the cluster's address once all train, and takes orders, a
line each: `kill`, a node with all that runs on it; `stop` and `go on`, one worker; anything else
ends the training, and the end of the input the cluster.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import ray
from ray.cluster_utils import Cluster

NODE = {"num_cpus": 1, "resources": {"trainer": 1}, "object_store_memory": 80 * 2**20}


@ray.remote(num_cpus=0, resources={"trainer": 1})  # one on each node, which has its CPU left for tasks
class Trainer:
    def where(self) -> tuple[str, int]:
        return ray.get_runtime_context().get_node_id(), os.getpid()

    def train(self, run: str, folder: Path) -> None:
        import jax
        import jax.numpy as jnp

        import outpace

        try:
            import tensorflow  # noqa: F401
        except ImportError:
            pass
        else:
            raise RuntimeError("TensorFlow was imported")

        @jax.jit  # type: ignore[untyped-decorator]
        def step(weights: jax.Array, batch: jax.Array) -> jax.Array:
            return weights - 1e-3 * jax.grad(lambda w: jnp.mean((batch @ w) ** 2))(weights)

        weights, batch = jnp.ones((256, 64)), jnp.ones((512, 256))
        with outpace.ray.worker(run) as server:
            number = 0
            while not (folder / "end").exists():
                with jax.profiler.StepTraceAnnotation("train", step_num=number):
                    weights = step(weights, batch).block_until_ready()
                number += 1
                time.sleep(0.005)
                (folder / f"training-{server.address}").touch()


def main(port: int, run: str) -> None:
    folder = Path.cwd()
    cluster = Cluster(initialize_head=True, head_node_args={**NODE, "include_dashboard": False, "ray_client_server_port": port})
    nodes = [cluster.add_node(**NODE) for _ in range(2)]
    ray.init(address=cluster.address, log_to_driver=False)
    trainers = [Trainer.remote() for _ in range(3)]  # type: ignore[attr-defined]
    pids = dict(ray.get([trainer.where.remote() for trainer in trainers]))
    ends = [trainer.train.remote(run, folder) for trainer in trainers]
    while len(list(folder.glob("training-*"))) < len(trainers):
        ray.wait(ends, timeout=0.1)
    print(cluster.address, flush=True)
    for order in map(str.strip, sys.stdin):
        if order == "kill":
            os.kill(pids[nodes[0].node_id], signal.SIGKILL)
            cluster.remove_node(nodes[0], allow_graceful=False)
        elif order in ("stop", "go on"):
            os.kill(pids[nodes[1].node_id], signal.SIGSTOP if order == "stop" else signal.SIGCONT)
        else:
            (folder / "end").touch()
            ray.wait(ends, num_returns=len(ends), timeout=30)
        print("done", order, flush=True)
    ray.shutdown()
    cluster.shutdown()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
