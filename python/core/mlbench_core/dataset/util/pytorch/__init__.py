from mlbench_core.dataset.util.pytorch.partition import partition_dataset_by_rank

__all__ = ["partition_dataset_by_rank"]
