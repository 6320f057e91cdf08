"""Sums and means over ranks."""

import torch
import torch.distributed as dist


def get_backend_tensor(tensor):
    """The tensor where the back end wants it: on the GPU for NCCL."""
    return tensor.cuda() if dist.is_initialized() and dist.get_backend() == "nccl" else tensor


def broadcast(tensor, src):
    """Everywhere what `src` has."""
    if dist.is_initialized():
        dist.broadcast(tensor, src=src)
    return tensor


def elementwise_min(tensor):
    """The least of all ranks, element by element."""
    if dist.is_initialized():
        dist.all_reduce(tensor, op=dist.ReduceOp.MIN)
    return tensor


def global_average(sum, count):
    """The sum of all ranks over the count of all ranks, as a tensor."""
    both = get_backend_tensor(torch.tensor([float(sum), float(count)], dtype=torch.float64))
    if dist.is_initialized():
        dist.all_reduce(both)
    return both[0] / both[1]
