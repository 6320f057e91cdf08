"""The metrics of mlbench, called and updated as those of mlbench_core: values are tensors."""

import mlbench
import torch
import torch.nn.functional as F

from mlbench_core.utils.pytorch.distributed import global_average

__all__ = ["BLEUScore", "DiceCoefficient", "F1Score", "Perplexity", "TopKAccuracy"]


class _Tensors:
    """update(output, target) and update(loss, output, target) add counts, whose sums give the exact value over all
    samples. update(value, size) adds a value that stands for `size` samples, and average() is then their mean."""

    def reset(self):
        super().reset()
        self._sum = self._size = 0.0

    def __call__(self, *arguments):
        return torch.tensor(super().__call__(*arguments))

    def update(self, *arguments):
        if len(arguments) == 2 and isinstance(arguments[1], int):
            self._sum += float(arguments[0]) * arguments[1]
            self._size += arguments[1]
        else:
            super().update(*arguments)

    def average(self):
        if self._size:
            return global_average(self._sum, self._size)
        return torch.tensor(super().average(), dtype=torch.float64)


class TopKAccuracy(_Tensors, mlbench.TopKAccuracy):
    __doc__ = mlbench.TopKAccuracy.__doc__


class F1Score(_Tensors, mlbench.F1Score):
    __doc__ = mlbench.F1Score.__doc__


class DiceCoefficient(_Tensors, mlbench.DiceCoefficient):
    __doc__ = mlbench.DiceCoefficient.__doc__


class BLEUScore(_Tensors, mlbench.BLEUScore):
    __doc__ = mlbench.BLEUScore.__doc__


class Perplexity(_Tensors, mlbench.Perplexity):
    """exp of the mean cross-entropy: that of the loss, or without one of output and target."""

    def counts(self, loss, output, target):
        return super().counts(F.cross_entropy(output, target) if loss is None else loss, output, target)
