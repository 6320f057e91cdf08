"""Evaluation of the checkpoints that a training left."""

import logging

import mlbench
import torch
import torch.distributed as dist

from mlbench_core.aggregation.pytorch.centralized import AVG_WORLD, AllReduceAggregation
from mlbench_core.utils.pytorch.checkpoint import saved_epochs

_log = logging.getLogger("mlbench")


class CheckpointsEvaluationControlFlow:
    """Evaluates, for each epoch with a checkpoint, the mean of the ranks' parameters; at most `epochs` of them. Buffers
    stay those of each rank."""

    def __init__(
        self,
        ckpt_dir,
        rank,
        world_size,
        checkpointer,
        model,
        epochs,
        loss_function,
        metrics,
        use_cuda=False,
        dtype=None,
        max_batch_per_epoch=None,
    ):
        self.ckpt_dir, self.rank, self.checkpointer, self.model = ckpt_dir, rank, checkpointer, model
        self.loss_function, self.metrics, self.use_cuda, self.dtype = loss_function, metrics, use_cuda, dtype
        self.max_batch_per_epoch = max_batch_per_epoch
        self._average = AllReduceAggregation(world_size, use_cuda=use_cuda).agg_model()
        self.epochs = saved_epochs(ckpt_dir, rank)[:epochs]
        everywhere = [None] * world_size
        dist.all_gather_object(everywhere, self.epochs)
        if not self.epochs or any(epochs != self.epochs for epochs in everywhere):
            raise FileNotFoundError("checkpoints in %s: the ranks have those of the epochs %s" % (ckpt_dir, everywhere))

    def evaluate_by_epochs(self, dataloader):
        """A list of {"epoch", "loss", name of a metric: value}, over the samples of all ranks."""
        stats = []
        for epoch in self.epochs:
            model = self.checkpointer.load_model_by_epoch(self.ckpt_dir, self.rank, epoch, self.model)
            with torch.no_grad():
                self._average(model, AVG_WORLD)
            values, loss = mlbench.validation_round(
                dataloader,
                model,
                self.loss_function,
                self.metrics,
                dtype=self.dtype,
                use_cuda=self.use_cuda,
                max_batch_per_epoch=self.max_batch_per_epoch,
            )
            stats.append({"epoch": epoch, "loss": loss, **{name: float(value) for name, value in values.items()}})
            _log.info("epoch %d: loss %.3e", epoch, loss)
        return stats
