"""Optimizers of PyTorch that put gradients or weights of all ranks together in their step."""

import math

import torch
from torch.nn.utils import clip_grad_norm_

from mlbench_core.aggregation.pytorch.centralized import AVG_CUSTOM, AVG_WORLD, AllReduceAggregation, PowerAggregation
from mlbench_core.optim.pytorch.optim import SparsifiedSGD
from mlbench_core.utils.pytorch.distributed import get_backend_tensor

__all__ = [
    "CentralizedAdam",
    "CentralizedSGD",
    "CentralizedSparsifiedSGD",
    "CustomCentralizedOptimizer",
    "GenericCentralizedOptimizer",
    "PowerSGD",
]


class GenericCentralizedOptimizer:
    """Averages the gradients over ranks and then steps, or steps and then averages the weights (agg_grad=False; then
    also once here). What this class does not have is asked of `optimizer`, which a subclass sets. With one rank there
    is nothing to average, and no such time is recorded."""

    optimizer = None

    def __init__(self, world_size, model, use_cuda=False, by_layer=False, divide_before=False, agg_grad=True):
        if not world_size or model is None:
            raise ValueError("%s wants world_size and model" % type(self).__name__)
        self.world_size, self.model, self.agg_grad, self.agg_mode = world_size, model, agg_grad, AVG_WORLD
        aggregation = AllReduceAggregation(world_size, divide_before=divide_before, use_cuda=use_cuda)
        self.agg = aggregation.agg_grad(by_layer) if agg_grad else aggregation.agg_model(by_layer)
        if not agg_grad and world_size > 1:
            self.agg(model, AVG_WORLD)

    def step(self, closure=None, tracker=None, denom=None):
        """Returns what the optimizer does: the loss of the closure, if there is one."""
        if self.agg_grad:
            self._aggregate(tracker, denom)
            self._prepare()
        loss = self.optimizer.step() if closure is None else self.optimizer.step(closure)
        if tracker is not None:
            tracker.record_batch_opt_step()
        if not self.agg_grad:
            self._aggregate(tracker, denom)
        return loss

    def _aggregate(self, tracker, denom):
        if self.world_size == 1 and self.agg_mode == AVG_WORLD:
            return
        self.agg(self.model, self.agg_mode, denom)
        if tracker is not None:
            tracker.record_batch_agg()

    def _prepare(self):
        """What is to be done with averaged gradients."""

    def __getattr__(self, name):
        if name.startswith("__") or self.optimizer is None:
            raise AttributeError(name)
        return getattr(self.optimizer, name)


class CentralizedSGD(GenericCentralizedOptimizer):
    """torch.optim.SGD."""

    def __init__(
        self,
        world_size=None,
        model=None,
        lr=None,
        momentum=0,
        dampening=0,
        weight_decay=0,
        nesterov=False,
        use_cuda=False,
        by_layer=False,
        agg_grad=True,
    ):
        super().__init__(world_size, model, use_cuda, by_layer, agg_grad=agg_grad)
        self.optimizer = torch.optim.SGD(
            model.parameters(),
            lr=_given(lr),
            momentum=momentum,
            dampening=dampening,
            weight_decay=weight_decay,
            nesterov=nesterov,
        )


class CentralizedAdam(GenericCentralizedOptimizer):
    """torch.optim.Adam."""

    def __init__(
        self,
        world_size=None,
        model=None,
        lr=1e-3,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=0,
        amsgrad=False,
        use_cuda=False,
        by_layer=False,
        agg_grad=True,
    ):
        super().__init__(world_size, model, use_cuda, by_layer, agg_grad=agg_grad)
        self.optimizer = torch.optim.Adam(
            model.parameters(), lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, amsgrad=amsgrad
        )


class CustomCentralizedOptimizer(GenericCentralizedOptimizer):
    """Any optimizer. The sum is divided by the number of ranks (average_world), or by the `denom` of each step
    (average_custom). With grad_clip the norm of the result is limited."""

    def __init__(
        self,
        model,
        world_size,
        optimizer,
        use_cuda=False,
        by_layer=False,
        agg_grad=True,
        grad_clip=math.inf,
        average_world=False,
        average_custom=False,
        divide_before=False,
    ):
        if average_world == average_custom:
            raise ValueError("CustomCentralizedOptimizer: expected either average_world or average_custom")
        super().__init__(world_size, model, use_cuda, by_layer, divide_before, agg_grad)
        self.agg_mode = AVG_WORLD if average_world else AVG_CUSTOM
        self.grad_clip, self.optimizer = grad_clip, optimizer

    def _prepare(self):
        if self.grad_clip != math.inf:
            clip_grad_norm_(self.model.parameters(), self.grad_clip)


class PowerSGD(torch.optim.SGD):
    """torch.optim.SGD on gradients that PowerAggregation averages."""

    def __init__(
        self,
        model=None,
        lr=None,
        momentum=0,
        weight_decay=0,
        dampening=0,
        nesterov=False,
        average_world=True,
        use_cuda=False,
        by_layer=False,
        reuse_query=False,
        rank=1,
    ):
        if model is None or not average_world:
            raise ValueError("PowerSGD wants a model, and averages over the ranks")
        super().__init__(
            model.parameters(),
            lr=_given(lr),
            momentum=momentum,
            dampening=dampening,
            weight_decay=weight_decay,
            nesterov=nesterov,
        )
        self.model = model
        self.agg = PowerAggregation(model, use_cuda, reuse_query, rank=rank).agg_grad(by_layer)

    def step(self, closure=None, tracker=None):
        self.agg(self.model, "avg")
        if tracker is not None:
            tracker.record_batch_agg()
        loss = super().step(closure)
        if tracker is not None:
            tracker.record_batch_opt_step()
        return loss


class CentralizedSparsifiedSGD(SparsifiedSGD):
    """Each rank sends some of what its memory holds; all ranks apply the sum, or with average_world the mean."""

    def __init__(
        self, params=None, lr=None, weight_decay=0, sparse_grad_size=10, random_sparse=False, average_world=True
    ):
        super().__init__(params, lr, weight_decay, sparse_grad_size, random_sparse)
        self.average_world = average_world

    def _together(self, size, indices, values):
        world = torch.distributed.get_world_size()
        indices, values = get_backend_tensor(indices), get_backend_tensor(values)
        all_indices = [torch.empty_like(indices) for _ in range(world)]
        all_values = [torch.empty_like(values) for _ in range(world)]
        torch.distributed.all_gather(all_indices, indices)
        torch.distributed.all_gather(all_values, values)
        sum_of_all = torch.zeros(size, dtype=values.dtype, device=values.device)
        sum_of_all.index_add_(0, torch.cat(all_indices), torch.cat(all_values))
        return sum_of_all / world if self.average_world else sum_of_all


def _given(lr):
    if lr is None:
        raise ValueError("the learning rate lr is not given")
    return lr
