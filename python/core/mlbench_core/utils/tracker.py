"""The Tracker of mlbench with the arguments and the further calls of mlbench_core's."""

import mlbench

from mlbench_core.utils.log_metrics import forget_sink, sink_for


class AverageMeter:
    """The last value, the sum, and the mean."""

    def __init__(self):
        self.reset()

    def reset(self):
        self.val = self.avg = self.sum = self.count = 0

    def update(self, val, n=1):
        """Adds a value that stands for n samples."""
        self.val = val
        if n:  # NaN times 0 is NaN
            self.sum += val * n
            self.count += n
            self.avg = self.sum / self.count


class Tracker(mlbench.Tracker):
    """What its calls are: mlbench.Tracker. The steps of a category may be a list, one name, or None for the usual ones.
    The goal may be a factory of mlbench_core.evaluation.goals that was not called."""

    def __init__(
        self,
        metrics,
        run_id,
        rank,
        goal=None,
        communication_steps=None,
        compute_steps=None,
        metrics_steps=None,
        preprocess_steps=None,
        minimize=False,
    ):
        given = {
            "communication_steps": communication_steps,
            "compute_steps": compute_steps,
            "metrics_steps": metrics_steps,
            "preprocess_steps": preprocess_steps,
        }
        steps = {name: [one] if isinstance(one, str) else one for name, one in given.items() if one is not None}
        super().__init__(metrics, run_id, rank, goal, minimize=minimize, sink=sink_for(run_id, rank), **steps)

    @property
    def primary_metric(self):
        """The metric that decides which epoch is the best."""
        return self.metrics[0] if self.metrics else None

    def get_total_val_time(self):
        return sum(self.validation_times)

    def close(self, timeout=None):
        super().close(timeout)
        forget_sink(self.run_id, self.rank)

    def __str__(self):
        prefix = "train_" if self.is_training else "val_"
        names = ["loss", *(metric.name for metric in self.metrics)]
        return " | ".join("%s %.3g" % (name, self.mean(prefix + name)) for name in names)
