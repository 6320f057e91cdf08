"""Aggregation over all ranks by all-reduce, exact or by power iteration."""

import torch
import torch.distributed as dist

from mlbench_core.aggregation.pytorch.aggregation import Aggregation
from mlbench_core.utils.pytorch.utils import orthogonalize, pack_tensors, unpack_tensors

AVG_WORLD = "avg_world"
AVG_CUSTOM = "avg_custom"
ALLREDUCE_AGGREGATION_OPS = [AVG_WORLD, AVG_CUSTOM]


class AllReduceAggregation(Aggregation):
    """The sum over ranks, divided by the number of ranks (AVG_WORLD) or by `denom` (AVG_CUSTOM). `divide_before`
    divides first, so that a sum of 16-bit numbers does not overflow."""

    def __init__(self, world_size, divide_before=False, use_cuda=False):
        super().__init__(use_cuda)
        self.world_size, self.divide_before = world_size, divide_before

    def _agg(self, data, op, denom=None):
        if op not in ALLREDUCE_AGGREGATION_OPS:
            raise ValueError("op is %r; expected one of: %s" % (op, ", ".join(ALLREDUCE_AGGREGATION_OPS)))
        if op == AVG_CUSTOM and not denom:
            raise ValueError("op avg_custom wants a denom that is not zero")
        divisor = self.world_size if op == AVG_WORLD else denom
        if self.divide_before:
            data = data.div_(divisor)
        if self.world_size > 1:
            data = self._reduce(data)
        return data if self.divide_before else data.div_(divisor)

    def _reduce(self, data):
        dist.all_reduce(data)
        if data.is_cuda:
            torch.cuda.synchronize()
        return data


class AllReduceAggregationHVD(AllReduceAggregation):
    """The same through Horovod, which the script has started (hvd.init())."""

    def _reduce(self, data):
        import horovod.torch as hvd

        return hvd.allreduce(data, op=hvd.Sum)


class PowerAggregation(Aggregation):
    """Mean of gradients, each matrix as a product of two of `rank` columns (PowerSGD). What the product lacks is added
    to the next gradient. Vectors are averaged as they are. `reuse_query` begins with the columns of the step before,
    else with random ones, the same on all ranks."""

    def __init__(self, model, use_cuda=False, reuse_query=False, world_size=None, rank=1):
        super().__init__(use_cuda)
        self.reuse_query, self.rank = reuse_query, rank
        self.world_size = dist.get_world_size() if world_size is None else world_size
        self._memory = {parameter: torch.zeros_like(parameter.data) for parameter in model.parameters()}
        self._queries = {}
        self._random = torch.Generator().manual_seed(1)

    def agg_model(self, by_layer=False):
        raise NotImplementedError("PowerAggregation is of gradients alone")

    def _gradients_at_once(self, model, op="avg", denom=None):
        self._average([parameter for parameter in model.parameters() if parameter.grad is not None], op)

    def _gradients_by_layer(self, model, op="avg", denom=None):
        for parameter in model.parameters():
            if parameter.grad is not None:
                self._average([parameter], op)

    def _average(self, parameters, op):
        if op not in ("avg", AVG_WORLD):
            raise ValueError("op is %r; expected avg" % op)
        vectors = [parameter.grad.data for parameter in parameters if parameter.dim() < 2]
        for vector, mean in zip(vectors, self._mean(vectors)):
            vector.copy_(mean)
        matrices = [parameter for parameter in parameters if parameter.dim() >= 2]
        wanted = [(one.grad.data + self._memory[one]).flatten(1) for one in matrices]
        left = self._mean([matrix @ self._query(one, matrix) for one, matrix in zip(matrices, wanted)])
        for columns in left:
            orthogonalize(columns)
        right = self._mean([matrix.t() @ columns for matrix, columns in zip(wanted, left)])
        for one, matrix, rows, columns in zip(matrices, wanted, left, right):
            self._queries[one] = columns
            product = rows @ columns.t()
            self._memory[one].copy_((matrix - product).view_as(one))
            one.grad.data.copy_(product.view_as(one))

    def _query(self, parameter, matrix):
        if not (self.reuse_query and parameter in self._queries):
            shape = matrix.size(1), min(*matrix.shape, self.rank)
            self._queries[parameter] = torch.randn(shape, generator=self._random).to(matrix)
        return self._queries[parameter]

    def _mean(self, tensors):
        if not tensors:
            return []
        device = tensors[0].device
        packed, indices, sizes = pack_tensors(tensors, self.use_cuda)
        if self.world_size > 1:
            dist.all_reduce(packed)
        return [one.to(device) for one in unpack_tensors(packed.div_(self.world_size), indices, sizes)]
