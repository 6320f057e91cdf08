#!/usr/bin/env python3
"""Tasks 3a, 4a, 4b in plain PyTorch: the same equations, dropouts, penalties, clipping and update rules as ours.

    text_peer.py speed awd-lstm|gnmt|transformer [--size full|small|tiny] [--threads N] [--compile] [--amp] [--fused]
    text_peer.py check awd-lstm|gnmt|transformer --start FILE
    text_peer.py train TASK.toml --cache FOLDER [--seed N] [--ranks K] [--epochs N] [--minutes M] --output FILE

speed: training steps on one fixed batch in memory, the one of bench/step_bench.cpp; `median_tokens_per_s` (target tokens
without padding) is what bench/ratio.py compares. Threads are bound, freed memory stays with the process, as with ours.
check: the loss of that batch from parameters that `step_bench --start FILE` wrote, and after some steps without dropout,
to be compared with those of `step_bench --no-dropout`.
train: a whole training on data that `mlbench data prepare` made (the token files of its cache), by the numbers of the
task file; k ranks are one batch. Prints one JSON line per epoch with the validation perplexity, and writes the
parameters as a safetensors file, which `mlbench evaluate` translates and scores as it does ours.

speed and train want the Python that bench/setup_peer.sh prints.
"""
import argparse
import json
import os
import sys

import torch_peer  # environment_of: cores, heap

MODELS = {"awd-lstm": ("3a", 20), "gnmt": ("4a", 16), "transformer": ("4b", 16)}


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    modes = parser.add_subparsers(dest="mode", required=True)
    for mode in ("speed", "check"):
        one = modes.add_parser(mode)
        one.add_argument("model", choices=MODELS)
        one.add_argument("--size", choices=("full", "small", "tiny"), default="full")
        one.add_argument("--batch", type=int, help="columns or sentences (default: that of step_bench)")
        one.add_argument("--steps", type=int, default=12)
        one.add_argument("--start", help="parameters to begin with, as safetensors", required=mode == "check")
        one.add_argument("--threads", type=int, default=2)
        one.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
        one.add_argument("--compile", action="store_true", help="torch.compile of forward pass and loss")
        one.add_argument("--amp", action="store_true", help="bfloat16 by autocast")
        one.add_argument("--fused", action="store_true", help="the optimizer's fused kernel")
        one.add_argument("--unbound", action="store_true", help="threads that are not bound to cores")
        one.add_argument("--turns", action="store_true",
                         help="when warm, --steps steps for each line of the input: bench/ratio.py --turns")
    train = modes.add_parser("train")
    train.add_argument("task", help="a task file")
    train.add_argument("--cache", required=True, help="folder with the token files of the prepared data")
    train.add_argument("--seed", type=int, default=42)
    train.add_argument("--ranks", type=int, default=1, help="of ours: their batches are one here")
    train.add_argument("--epochs", type=float, help="default: the task's")
    train.add_argument("--minutes", type=float, help="stop after the epoch in which they pass")
    train.add_argument("--output", required=True, help="safetensors file for the parameters")
    train.add_argument("--threads", type=int, default=2)
    train.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    train.add_argument("--unbound", action="store_true", help="threads that are not bound to cores")
    options = parser.parse_args()
    options.ranks = getattr(options, "ranks", 1)
    options.task_of_model = MODELS.get(getattr(options, "model", None))
    return options


def main():
    options = parse()
    if "MLBENCH_TEXT_PEER" not in os.environ:
        # OpenMP and the C library read their settings at the start.
        single = argparse.Namespace(device=options.device, ranks=1, threads=options.threads)
        cores = [] if options.unbound else torch_peer.cores_of(0, single)
        environment = torch_peer.environment_of(cores, options.threads) | {"MLBENCH_TEXT_PEER": "1"}
        os.execve(sys.executable, [sys.executable, *sys.argv], environment)
    import text_peer_steps  # only here: whoever asks for help need not wait for PyTorch
    import text_peer_training
    run = text_peer_training.train if options.mode == "train" else text_peer_steps.run
    for line in run(options):
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
