"""Goals: a factory returns what a Tracker calls with every value. It answers None, or, when the goal is met, MLBench's
result."""

import json
import math
import os


def _result(opening, tracker):
    text = "%s reached in %.3f seconds" % (opening, tracker.get_total_train_time())
    for name, seconds in (
        ("Compute", tracker.get_total_compute_time()),
        ("Communication", tracker.get_total_communication_time()),
        ("Metrics Computation", tracker.get_total_metrics_time()),
        ("Pre-processing", tracker.get_total_preprocess_time()),
    ):
        if seconds > 0:
            text += ", %s: %s seconds" % (name, repr(seconds))
    return text


def _goal(metric, target, met, opening, split="test"):
    recorded = ("val_global_" if split == "test" else "train_") + metric

    def goal(name, value, tracker):
        reached = name == recorded and math.isfinite(value) and met(value)
        return _result(opening, tracker) if reached else None

    # What the run's record says about its goal.
    goal.metric, goal.split, goal.target = metric, split, target
    return goal


def declared_goal(environment=None):
    """The goal that `mlbench run --task TASK -- COMMAND` declares, and by which the run is judged. None without one."""
    text = (os.environ if environment is None else environment).get("MLBENCH_GOAL", "")
    if not text:
        return None
    declared = json.loads(text)
    metric, split, target = declared["metric"], declared["split"], declared["target"]
    higher = declared["higher_is_better"]
    opening = "%s %s of %g" % ("Validation" if split == "test" else "Training", metric, target)
    return _goal(metric, target, lambda value: value >= target if higher else value <= target, opening, split)


def time_to_accuracy_goal(threshold):
    """Top-1 accuracy over the whole validation set, in percent."""
    opening = "%g%% Top 1 Validation Accuracy" % threshold
    return _goal("Prec@1", threshold, lambda value: value >= threshold, opening)


def time_to_perplexity_goal(threshold):
    opening = "Validation Perplexity of %g" % threshold
    return _goal("Perplexity", threshold, lambda value: value <= threshold, opening)


def time_to_bleu_goal(threshold):
    opening = "Validation BLEU-Score of %g" % threshold
    return _goal("BLEU-Score", threshold, lambda value: value >= threshold, opening)


def task1_time_to_accuracy_goal():
    return time_to_accuracy_goal(80)


def task1_time_to_accuracy_light_goal():
    return time_to_accuracy_goal(70)


def task2_time_to_accuracy_goal():
    return time_to_accuracy_goal(89)


def task2_time_to_accuracy_light_goal():
    return time_to_accuracy_goal(80)


def task3_time_to_perplexity_goal():
    return time_to_perplexity_goal(70)


def task3_time_to_perplexity_light_goal():
    return time_to_perplexity_goal(90)


def task4_time_to_bleu_goal(threshold=24):
    """24 for task 4a, 25 for 4b, light 20."""
    return time_to_bleu_goal(threshold)
