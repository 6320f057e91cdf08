"""Batches as a model wants them."""

import itertools

import torch

_DTYPES = {"fp16": torch.float16, "fp32": torch.float32, "fp64": torch.float64}


def convert_dtype(dtype, obj):
    """A tensor or a module in "fp16", "fp32" or "fp64"; with None as it is."""
    if dtype is None:
        return obj
    if dtype not in _DTYPES:
        raise ValueError("dtype is %r; expected one of: %s" % (dtype, ", ".join(_DTYPES)))
    return obj.to(_DTYPES[dtype])


def prepare_batch(data, target, dtype, transform_target_dtype=False, use_cuda=False):
    """Converts the data, on request the target too, and moves both to the GPU."""
    data = convert_dtype(dtype, data)
    if transform_target_dtype:
        target = convert_dtype(dtype, target)
    return (data.cuda(), target.cuda()) if use_cuda else (data, target)


def iterate_dataloader(dataloader, dtype, max_batch_per_epoch=None, use_cuda=False, transform_target_type=False):
    """The prepared batches; at most max_batch_per_epoch of them, where it is given."""
    for data, target in itertools.islice(dataloader, max_batch_per_epoch):
        yield prepare_batch(data, target, dtype, transform_target_type, use_cuda)
