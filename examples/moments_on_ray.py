"""Moments and sample of partitions on Ray: map, then reduce; the fit is one small task at the end.

Run with `pip install ray`: python examples/moments_on_ray.py
"""

import numpy as np
import ray

from attnclust import AttentionClustering


def partition(number, n=20_000):
    """Rows of a partition, as a reader of your files would give them; centres are 0, 3, 6 and 9."""
    rng = np.random.default_rng(number)
    return 3.0 * rng.integers(0, 4, n)[:, None] + rng.standard_normal((n, 8))


@ray.remote
def gather(number):
    """The state of a partition: moments and a sample."""
    return AttentionClustering(4, random_state=0).gather(partition(number), stream=number)


@ray.remote
def merge(*states):
    """The state of all their rows."""
    total = states[0]
    for state in states[1:]:
        total = total + state
    return total


def main():
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    states = [gather.remote(number) for number in range(8)]
    while len(states) > 1:  # a tree: four at a time
        states = [merge.remote(*states[i : i + 4]) for i in range(0, len(states), 4)]
    model = AttentionClustering(4, random_state=0).fit_state(ray.get(states[0]))
    print(model.state_.n_rows, "rows; centres", np.sort(model.cluster_centers_.mean(1)).round(2))
    ray.shutdown()


if __name__ == "__main__":
    main()
