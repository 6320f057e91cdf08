#!/usr/bin/env python3
"""The speed peer of `mlbench run --fixed-batch`: a task's model and optimizer in plain PyTorch, by default fashion-mnist.

One fixed batch in memory (2a: shuffled rows of the whole set), loss, backward and optimizer step, the parameters of
tasks/*.toml. Each rank is a process whose threads are bound to the cores that a rank of mlbench would have and which keeps
freed memory, as that does; --ranks > 1: DistributedDataParallel over Gloo. Prints one JSON line; `median_samples_per_s`
(all ranks, from the median step of rank 0) is what bench/ratio.py compares. --layout, --fused and --compile are the
variants to choose the best from. Run it with the Python that bench/setup_peer.sh prints.
"""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

TASKS = ("fashion-mnist", "mnist", "1a", "2a", "resnet50", "vgg16")
FEATURES = 2000  # of 2a


def cores_of(rank, options):
    """One for each thread of the rank, in order; none on a GPU, or where the machine has too few."""
    cores = sorted(os.sched_getaffinity(0))
    if options.device != "cpu" or options.ranks * options.threads > len(cores):
        return []
    return cores[rank * options.threads:(rank + 1) * options.threads]


# Freed memory stays with the process, as with ours (src/mlbench/base/heap.cpp).
HEAP = {"MALLOC_TRIM_THRESHOLD_": str(1 << 40), "MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_TOP_PAD_": str(64 << 20)}


def environment_of(cores, threads):
    """OpenMP and the C library read it at the start, so it is given to the rank's process."""
    environment = {**os.environ, **HEAP, "OMP_NUM_THREADS": str(threads), "GLOO_SOCKET_IFNAME": "lo"}
    if cores:
        environment |= {"OMP_PROC_BIND": "close", "OMP_PLACES": ",".join(f"{{{core}}}" for core in cores)}
    return environment


def make_rows(path, rows):
    """Rows of 2000 normally distributed values, about as long as epsilon's, which have length 1."""
    import numpy
    path.parent.mkdir(parents=True, exist_ok=True)
    random = numpy.random.default_rng(0)
    partial = path.with_suffix(f".{os.getpid()}")
    with open(partial, "wb") as file:
        for first in range(0, rows, 1000):
            values = random.standard_normal((min(1000, rows - first), FEATURES), numpy.float32)
            (values / numpy.float32(FEATURES**0.5)).tofile(file)
    partial.rename(path)


def start_ranks(script, options, arguments):
    """Exit code of the first rank that failed, else 0."""
    with tempfile.TemporaryDirectory() as folder:
        ranks = [subprocess.Popen([sys.executable, script, *arguments, "--rank", str(rank), "--store", folder + "/store"],
                                  env=environment_of(cores_of(rank, options), options.threads))
                 for rank in range(options.ranks)]
        try:
            for _ in ranks:
                code = os.waitstatus_to_exitcode(os.wait()[1])
                if code != 0:
                    return abs(code)
            return 0
        finally:
            for rank in ranks:
                rank.kill()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", choices=TASKS, default="fashion-mnist")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2, help="intra-op threads per rank")
    parser.add_argument("--batch", type=int, help="samples per rank and step (default: the task's)")
    parser.add_argument("--pixels", type=int, default=224, help="height and width of images of resnet50 and vgg16")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--warm-up", type=int, default=5, help="steps before the clock starts")
    parser.add_argument("--layout", choices=("nchw", "nhwc"), default="nchw", help="nhwc: channels last")
    parser.add_argument("--fused", action="store_true", help="the optimizer's fused kernel")
    parser.add_argument("--compile", action="store_true", help="torch.compile of forward pass and loss")
    parser.add_argument("--amp", action="store_true", help="bfloat16 by autocast")
    parser.add_argument("--rows", type=int, default=400000, help="of 2a's set, made once for each number of them")
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--store", help=argparse.SUPPRESS)
    options = parser.parse_args()
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "mlbench"
    options.rows_file = cache / f"peer-rows-{options.rows}x{FEATURES}.f32"
    if options.rank is None:
        if options.task == "2a" and not options.rows_file.exists():
            make_rows(options.rows_file, options.rows)
        sys.exit(start_ranks(__file__, options, sys.argv[1:]))
    import torch_peer_rank  # only here: whoever starts ranks need not wait for PyTorch
    torch_peer_rank.train(options)


if __name__ == "__main__":
    main()
