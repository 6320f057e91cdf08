"""What initialize_backends sets up, part by part."""

import glob
import logging
import os
import random
import re
import time

import torch
import torch.distributed as dist

from mlbench_core.utils.pytorch.topology import FCGraph


class Timeit:
    """A watch of seconds that runs from the start until pause(); resume() starts it again."""

    def __init__(self, cumu=0.0):
        self._before, self._since = cumu, time.monotonic()

    def pause(self):
        if self._since is not None:
            self._before, self._since = self.cumu, None

    def resume(self):
        if self._since is None:
            self._since = time.monotonic()

    @property
    def cumu(self):
        return self._before + (0.0 if self._since is None else time.monotonic() - self._since)


def config_logging(logging_level="INFO", logging_file=None):
    """Gives the logger `mlbench` the console, and the file if there is one; each line has the rank."""
    rank = dist.get_rank() if dist.is_initialized() else 0
    logger = logging.getLogger("mlbench")
    logger.setLevel(logging_level)
    form = logging.Formatter("%(asctime)s %(name)s " + str(rank) + " %(levelname)s: %(message)s", "%Y-%m-%d %H:%M:%S")
    for old in list(logger.handlers):
        logger.removeHandler(old)
    for handler in [logging.StreamHandler(), *([logging.FileHandler(logging_file)] if logging_file else [])]:
        handler.setFormatter(form)
        logger.addHandler(handler)


def config_pytorch(use_cuda=False, seed=None, cudnn_deterministic=False):
    """Seeds the random numbers of Python, NumPy and PyTorch, and picks the GPU. Returns (rank, world size, graph)."""
    if seed is not None:
        random.seed(seed)
        torch.manual_seed(seed)  # also of the GPUs
        try:
            import numpy
        except ImportError:
            pass
        else:
            numpy.random.seed(seed % 2**32)
    rank, world_size = dist.get_rank(), dist.get_world_size()
    graph = FCGraph(rank, world_size, use_cuda)
    if use_cuda:
        if not torch.cuda.is_available():
            raise RuntimeError("use_cuda: this PyTorch finds no GPU")
        graph.assigned_gpu_id()
        torch.backends.cudnn.deterministic = cudnn_deterministic
        torch.backends.cudnn.benchmark = not cudnn_deterministic
    return rank, world_size, graph


_CHECKPOINT = re.compile(r"(\d+_\d+|model_best)\.pth\.tar|\d+_\d+\.json")


def config_path(ckpt_run_dir, delete_existing_ckpts=False):
    """Makes the folder of checkpoints. On request rank 0 deletes what a Checkpointer wrote there, and nothing else."""
    os.makedirs(ckpt_run_dir, exist_ok=True)
    if delete_existing_ckpts and (not dist.is_initialized() or dist.get_rank() == 0):
        for path in glob.glob(os.path.join(glob.escape(ckpt_run_dir), "*")):
            if _CHECKPOINT.fullmatch(os.path.basename(path)) and os.path.isfile(path):
                os.unlink(path)
    if dist.is_initialized():
        dist.barrier()
