"""The start and the end of torch.distributed in a script."""

import contextlib
import os

import torch.distributed as dist

from mlbench_core.utils.pytorch.helpers import Timeit, config_logging, config_path, config_pytorch
from mlbench_core.utils.pytorch.topology import FCGraph

__all__ = ["FCGraph", "Timeit", "initialize_backends"]


@contextlib.contextmanager
def initialize_backends(
    comm_backend="mpi",
    hosts=None,
    rank=-1,
    logging_level="INFO",
    logging_file=None,
    use_cuda=False,
    seed=None,
    cudnn_deterministic=False,
    ckpt_run_dir="/checkpoints",
    delete_existing_ckpts=False,
):
    """Connects the ranks for the length of a `with`, which gives (rank, world size, graph).

    `hosts` has one host per rank, comma-separated. Ranks meet where MASTER_ADDR and MASTER_PORT say, as under `mlbench
    run`, else at the first host, port 29500. With `mpi` the launcher says all of that. In the end the connections are
    closed, also when the script fails.
    """
    if not dist.is_initialized():
        if comm_backend.lower() != "mpi":
            _name_the_place(hosts, rank)
        dist.init_process_group(comm_backend.lower())
    try:
        config_logging(logging_level, logging_file)
        place = config_pytorch(use_cuda, seed, cudnn_deterministic)
        config_path(ckpt_run_dir, delete_existing_ckpts)
        yield place
    finally:
        dist.destroy_process_group()


def _name_the_place(hosts, rank):
    if hosts:
        names = hosts.split(",")
        if not 0 <= rank < len(names):
            raise ValueError("initialize_backends: rank is %d; hosts names the ranks 0 to %d" % (rank, len(names) - 1))
        os.environ.setdefault("MASTER_ADDR", names[0])
        os.environ["RANK"], os.environ["WORLD_SIZE"] = str(rank), str(len(names))
    elif "WORLD_SIZE" not in os.environ:
        raise ValueError("initialize_backends: hosts is not given, and WORLD_SIZE is not set")
    os.environ.setdefault("MASTER_PORT", "29500")
