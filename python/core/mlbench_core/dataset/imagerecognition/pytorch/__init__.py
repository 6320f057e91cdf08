from mlbench_core.dataset.imagerecognition.pytorch.dataloader import CIFAR10V1
from mlbench_core.dataset.util.pytorch.partition import partition_dataset_by_rank

__all__ = ["CIFAR10V1", "partition_dataset_by_rank"]
