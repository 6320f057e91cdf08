"""How gradients or weights of a model are put together over ranks: at once as one vector, or layer by layer."""

from mlbench_core.utils.pytorch.utils import pack_tensors, unpack_tensors


class Aggregation:
    """A subclass says how one tensor is put together (_agg). What agg_grad() and agg_model() return is called as
    aggregate(model, op, denom=None) and changes the model in place. A parameter without a gradient takes no part, so
    that all ranks must have the gradients of the same parameters."""

    def __init__(self, use_cuda=False):
        self.use_cuda = use_cuda

    def agg_model(self, by_layer=False):
        return self._weights_by_layer if by_layer else self._weights_at_once

    def agg_grad(self, by_layer=False):
        return self._gradients_by_layer if by_layer else self._gradients_at_once

    def _agg(self, data, op, denom=None):
        """Returns the tensor put together; may change the given one."""
        raise NotImplementedError

    @staticmethod
    def _weights(model):
        return [parameter.data for parameter in model.parameters()]

    @staticmethod
    def _gradients(model):
        return [parameter.grad.data for parameter in model.parameters() if parameter.grad is not None]

    def _weights_at_once(self, model, op, denom=None):
        self._at_once(self._weights(model), op, denom)

    def _gradients_at_once(self, model, op, denom=None):
        self._at_once(self._gradients(model), op, denom)

    def _weights_by_layer(self, model, op, denom=None):
        self._by_layer(self._weights(model), op, denom)

    def _gradients_by_layer(self, model, op, denom=None):
        self._by_layer(self._gradients(model), op, denom)

    def _at_once(self, tensors, op, denom):
        packed, indices, sizes = pack_tensors(tensors, self.use_cuda)
        together = self._agg(packed, op, denom)
        for tensor, part in zip(tensors, unpack_tensors(together, indices, sizes)):
            tensor.copy_(part)

    def _by_layer(self, tensors, op, denom):
        for tensor in tensors:
            tensor.copy_(self._agg(tensor if self.use_cuda else tensor.cpu(), op, denom))
