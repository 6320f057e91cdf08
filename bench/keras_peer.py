#!/usr/bin/env python3
"""The speed peer of `mlbench run --fixed-batch --framework tensorflow`: task 1a in Python's TensorFlow with Keras.

One fixed batch in memory, loss, backward and optimizer step, the parameters of tasks/1a-2021.toml. Each rank is a process
on the cores that a rank of mlbench would have, which keeps freed memory as that does; --ranks > 1: gradients are averaged
by tf.distribute, over gRPC in rings. Prints one JSON line; `median_samples_per_s` (all ranks, from the median step of rank
0) is what bench/ratio.py compares. --jit-compile, --fused-norm and --inter-op are the variants to choose the best from.
Run it with the Python that bench/setup_wheels.sh keras prints.

--beside FOLDER: start and memory instead of speed. The peer and framework tensorflow of the build in that folder begin anew
in turns, --rounds of them, with as many ranks, threads and steps. `first_step_s` is from the start of `mlbench run`, or of
the peer's process, to the end of the first step; `peak_rss` has the bytes of the largest rank, or of the peer's rank 0. Met:
the interval of the median of ours ends at 3 s, that of the memory's ratio at 1.2 or below.
"""
import argparse
import contextlib
import json
import os
import pathlib
import socket
import sys

import torch_peer


@contextlib.contextmanager
def cluster(ranks):
    """TF_CONFIG of all ranks, less the place of each. Their ports are held meanwhile; TensorFlow's servers may bind them
    nevertheless, since both sides share the port."""
    with contextlib.ExitStack() as held:
        ports = []
        for _ in range(ranks):
            one = held.enter_context(socket.socket())
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            one.bind(("127.0.0.1", 0))
            ports.append(one.getsockname()[1])
        yield json.dumps({"cluster": {"worker": [f"127.0.0.1:{port}" for port in ports]}})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", choices=("1a",), default="1a")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2, help="intra-op threads per rank")
    parser.add_argument("--inter-op", type=int, default=1, help="inter-op threads per rank")
    parser.add_argument("--batch", type=int, default=128, help="samples per rank and step")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--warm-up", type=int, default=5, help="steps before the clock starts")
    parser.add_argument("--fused-norm", action="store_true", help="batch norm by TensorFlow's fused kernel, not Keras's layer")
    parser.add_argument("--jit-compile", action="store_true",
                        help="forward and backward pass by XLA; with one rank, the update too")
    parser.add_argument("--beside", type=pathlib.Path, metavar="FOLDER", help="of mlbench, e.g. build/release/bin")
    parser.add_argument("--rounds", type=int, default=21, help="of --beside")
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--store", help=argparse.SUPPRESS)  # start_ranks gives it
    parser.set_defaults(device="cpu")
    options = parser.parse_args()
    if options.beside:
        if options.batch != parser.get_default("batch"):
            parser.error(f"--batch {options.batch}: with --beside expected the task's, {parser.get_default('batch')}")
        import keras_beside  # not in ranks, whose memory is measured
        sys.exit(keras_beside.compare(options))
    if options.rank is None:
        with cluster(options.ranks) as os.environ["TF_CONFIG"]:
            sys.exit(torch_peer.start_ranks(__file__, options, sys.argv[1:]))
    if cores := torch_peer.cores_of(options.rank, options):
        os.sched_setaffinity(0, cores)
    import keras_peer_rank  # only here: whoever starts ranks need not wait for TensorFlow
    keras_peer_rank.train(options)


if __name__ == "__main__":
    main()
