"""Losses with a penalty on the parameters, and one with smoothed labels."""

import torch.nn.functional as F
from torch import nn


class _Regularized(nn.Module):
    """The loss and l1 * |w|_1 + l2 / 2 * |w|_2^2 over all parameters of the model."""

    def __init__(self, weight=None, size_average=None, reduce=None, l1=0.0, l2=0.0, model=None, reduction="mean"):
        super().__init__()
        if size_average is not None or reduce is not None:
            raise ValueError("size_average and reduce: PyTorch has replaced these by reduction")
        self.register_buffer("weight", weight)
        self.l1, self.l2, self.reduction = l1, l2, reduction
        self._parameters_of = None if model is None else model.parameters

    def penalty(self):
        total = 0.0
        if self._parameters_of is not None:
            for parameter in self._parameters_of():
                total = total + self.l1 * parameter.abs().sum() + self.l2 / 2 * parameter.square().sum()
        return total


class BCELossRegularized(_Regularized):
    """Binary cross-entropy of probabilities."""

    def forward(self, output, target):
        loss = F.binary_cross_entropy(output, target.to(output.dtype), weight=self.weight, reduction=self.reduction)
        return loss + self.penalty()


class MSELossRegularized(_Regularized):
    """Mean squared error."""

    def forward(self, output, target):
        return F.mse_loss(output, target, reduction=self.reduction) + self.penalty()


class LabelSmoothing(nn.Module):
    """Sum over the tokens that are no padding of (1 - s) * NLL + s * the mean negative log-probability."""

    def __init__(self, padding_idx, smoothing=0.0):
        super().__init__()
        self.padding_idx, self.smoothing = padding_idx, smoothing

    def forward(self, output, target):
        negative = -F.log_softmax(output.float(), dim=-1)
        likelihood = negative.gather(-1, target.unsqueeze(-1)).squeeze(-1)
        loss = (1 - self.smoothing) * likelihood + self.smoothing * negative.mean(-1)
        return loss[target != self.padding_idx].sum()
