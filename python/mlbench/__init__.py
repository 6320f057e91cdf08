"""Reports a training script's progress to mlbench. Needs nothing but Python; PyTorch is used where the script has it."""

from mlbench.controlflow import record_train_batch_stats, record_validation_stats, validation_round
from mlbench.goals import (
    declared_goal,
    task1_time_to_accuracy_goal,
    task1_time_to_accuracy_light_goal,
    task2_time_to_accuracy_goal,
    task2_time_to_accuracy_light_goal,
    task3_time_to_perplexity_goal,
    task3_time_to_perplexity_light_goal,
    task4_time_to_bleu_goal,
    time_to_accuracy_goal,
)
from mlbench.metrics import BLEUScore, DiceCoefficient, F1Score, Perplexity, TopKAccuracy
from mlbench.predictions import write_predictions
from mlbench.tracker import Tracker

__all__ = [
    "BLEUScore",
    "DiceCoefficient",
    "F1Score",
    "Perplexity",
    "TopKAccuracy",
    "Tracker",
    "declared_goal",
    "record_train_batch_stats",
    "record_validation_stats",
    "task1_time_to_accuracy_goal",
    "task1_time_to_accuracy_light_goal",
    "task2_time_to_accuracy_goal",
    "task2_time_to_accuracy_light_goal",
    "task3_time_to_perplexity_goal",
    "task3_time_to_perplexity_light_goal",
    "task4_time_to_bleu_goal",
    "time_to_accuracy_goal",
    "validation_round",
    "write_predictions",
]
