"""SGD among neighbours."""

import torch

from mlbench_core.aggregation.pytorch.decentralized import DecentralizedAggregation

__all__ = ["DecentralizedSGD"]


class DecentralizedSGD(torch.optim.SGD):
    """A step of torch.optim.SGD on this rank, then the mean of its weights and those of its neighbours."""

    def __init__(
        self,
        rank=None,
        neighbors=None,
        model=None,
        lr=None,
        momentum=0,
        dampening=0,
        weight_decay=0,
        nesterov=False,
        average_world=True,
        use_cuda=False,
        by_layer=False,
    ):
        if rank is None or not neighbors or model is None or lr is None or not average_world:
            raise ValueError("DecentralizedSGD wants rank, neighbors, model and lr, and averages")
        super().__init__(
            model.parameters(),
            lr=lr,
            momentum=momentum,
            dampening=dampening,
            weight_decay=weight_decay,
            nesterov=nesterov,
        )
        self.model = model
        self.agg = DecentralizedAggregation(rank, neighbors, use_cuda).agg_model(by_layer)

    def step(self, closure=None, tracker=None):
        loss = super().step(closure)
        if tracker is not None:
            tracker.record_batch_opt_step()
        self.agg(self.model, "avg_world")
        if tracker is not None:
            tracker.record_batch_agg()
        return loss
