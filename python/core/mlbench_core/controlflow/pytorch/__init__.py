from mlbench_core.controlflow.pytorch.controlflow import (
    compute_train_batch_metrics,
    record_train_batch_stats,
    record_validation_stats,
    validation_round,
)
from mlbench_core.controlflow.pytorch.helpers import convert_dtype, iterate_dataloader, prepare_batch

__all__ = [
    "compute_train_batch_metrics",
    "convert_dtype",
    "iterate_dataloader",
    "prepare_batch",
    "record_train_batch_stats",
    "record_validation_stats",
    "validation_round",
]
