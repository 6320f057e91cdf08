"""Goals of MLBench's tasks. A factory may be given to a Tracker called or uncalled: MLBench's tutorial does the latter,
and then means the factory's usual target."""

import functools

from mlbench import goals

__all__ = [
    "task1_time_to_accuracy_goal",
    "task1_time_to_accuracy_light_goal",
    "task2_time_to_accuracy_goal",
    "task2_time_to_accuracy_light_goal",
    "task3_time_to_perplexity_goal",
    "task3_time_to_perplexity_light_goal",
    "task4_time_to_bleu_goal",
    "time_to_accuracy_goal",
]


class _Factory:
    """Called as a factory is, it makes a goal. It also is the goal of its usual target: a Tracker calls it with the
    name of a value, the value and itself, and reads `metric`, `split` and `target`."""

    def __init__(self, make):
        functools.update_wrapper(self, make)
        self._make = make
        self._goal = make()
        self.metric, self.split, self.target = self._goal.metric, self._goal.split, self._goal.target

    def __call__(self, *arguments, **options):
        return self._goal(*arguments) if len(arguments) == 3 else self._make(*arguments, **options)


time_to_accuracy_goal = goals.time_to_accuracy_goal
task1_time_to_accuracy_goal = _Factory(goals.task1_time_to_accuracy_goal)
task1_time_to_accuracy_light_goal = _Factory(goals.task1_time_to_accuracy_light_goal)
task2_time_to_accuracy_goal = _Factory(goals.task2_time_to_accuracy_goal)
task2_time_to_accuracy_light_goal = _Factory(goals.task2_time_to_accuracy_light_goal)
task3_time_to_perplexity_light_goal = _Factory(goals.task3_time_to_perplexity_light_goal)


@_Factory
def task3_time_to_perplexity_goal(threshold=70):
    """Perplexity over the whole validation set."""
    return goals.time_to_perplexity_goal(threshold)


@_Factory
def task4_time_to_bleu_goal(threshold=24):
    """BLEU over the whole validation set: 24 for task 4a, 25 for 4b, 20 light."""
    return goals.time_to_bleu_goal(threshold)
