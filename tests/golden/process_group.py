"""Ranks of PyTorch: processes of this machine that meet in a file, and that Gloo joins."""
import os
import tempfile

import torch
import torch.distributed
import torch.multiprocessing


def work(rank, body, size, store, arguments):
    os.environ.update(GLOO_SOCKET_IFNAME="lo")
    torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=size)
    torch.set_num_threads(1)
    body(rank, *arguments)
    torch.distributed.barrier()


def on_ranks(size, body, *arguments):
    """Calls `body(rank, *arguments)` in each of `size` processes; `body` is a function of a module."""
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(work, args=(body, size, f"{folder}/store", arguments), nprocs=size)
