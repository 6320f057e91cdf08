#!/usr/bin/env python3
"""The speed peer of `mlbench run --fixed-batch`: a task's model and optimizer in plain PyTorch, by default fashion-mnist.

One fixed batch in memory, loss, backward and optimizer step, the parameters of tasks/*.toml. With --ranks > 1:
DistributedDataParallel over Gloo, one process per rank. Prints one JSON line; `median_samples_per_s` (all ranks, from
the median step of rank 0) is what bench/ratio.py compares, --layout, --fused and --compile are the variants to choose
the best from. Run it with the Python that bench/setup_peer.sh prints.
"""
import argparse
import tempfile

import torch

from torch_peer_rank import TASKS, train


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", choices=TASKS, default="fashion-mnist")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2, help="intra-op threads per rank")
    parser.add_argument("--batch", type=int, help="samples per rank and step (default: the task's)")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--warm-up", type=int, default=5, help="steps before the clock starts")
    parser.add_argument("--layout", choices=("nchw", "nhwc"), default="nchw")
    parser.add_argument("--fused", action="store_true", help="the fused SGD kernel")
    parser.add_argument("--compile", action="store_true", help="torch.compile")
    parser.add_argument("--amp", action="store_true", help="bfloat16 by autocast")
    options = parser.parse_args()
    if options.ranks == 1:
        train(0, options, "")
    else:
        with tempfile.TemporaryDirectory() as folder:
            torch.multiprocessing.spawn(train, (options, folder + "/store"), options.ranks)


if __name__ == "__main__":
    main()
