from mlbench_core.optim.pytorch.centralized import (
    CentralizedAdam,
    CentralizedSGD,
    CentralizedSparsifiedSGD,
    CustomCentralizedOptimizer,
    GenericCentralizedOptimizer,
    PowerSGD,
)
from mlbench_core.optim.pytorch.decentralized import DecentralizedSGD
from mlbench_core.optim.pytorch.optim import SignSGD, SparsifiedSGD

__all__ = [
    "CentralizedAdam",
    "CentralizedSGD",
    "CentralizedSparsifiedSGD",
    "CustomCentralizedOptimizer",
    "DecentralizedSGD",
    "GenericCentralizedOptimizer",
    "PowerSGD",
    "SignSGD",
    "SparsifiedSGD",
    "get_optimizer",
    "optimizers",
]

optimizers = {
    "centralized_adam": CentralizedAdam,
    "centralized_sgd": CentralizedSGD,
    "centralized_sparsified_sgd": CentralizedSparsifiedSGD,
    "decentralized_sgd": DecentralizedSGD,
    "power_sgd": PowerSGD,
    "sign_sgd": SignSGD,
    "sparsified_sgd": SparsifiedSGD,
}


def get_optimizer(optimizer, **options):
    """The optimizer of that name."""
    if optimizer not in optimizers:
        raise ValueError("the optimizer is %r; expected one of: %s" % (optimizer, ", ".join(optimizers)))
    return optimizers[optimizer](**options)
