"""The tracker of a training script: what it measures, and the calls by which the script says where it is."""

import atexit
import copy
import math
import os
import time

from mlbench.sink import sink_of


class _Mean:
    def __init__(self):
        self.sum, self.count = 0.0, 0

    def update(self, value, n=1):
        if n:  # NaN times 0 is NaN
            self.sum += value * n
            self.count += n

    @property
    def value(self):
        return self.sum / self.count if self.count else 0.0


class Tracker:
    """Call, in this order:

        start()                                once
        train()                                before an epoch's batches
        batch_start(), record_batch_X(), batch_end()      per batch: each stamp books the time since the one before
        record_loss(), record_metric(), record_stat()     whenever there is a value
        log(samples=, lr=, grad_norm=)         between batches, every so many
        epoch_end()                            after the batches
        validation(), validation_start(), ..., validation_end()

    Times run on a monotonic clock. Only what lies between batch_start() and batch_end() is training time.

    `goal` is what a factory of mlbench.goals returned; it sees every value that is recorded, on every rank, and
    `goal_reached` stays True once it is met. Rank 0 then reports MLBench's result and its totals. A value that is not
    finite meets no goal of mlbench.goals, and is never the best.

    Records go where the environment of the run says (mlbench.sink); `environment` and `sink` are for tests.
    """

    def __init__(
        self,
        metrics,
        run_id,
        rank,
        goal=None,
        communication_steps=("agg",),
        compute_steps=("fwd_pass", "comp_loss", "backprop", "opt_step"),
        metrics_steps=("comp_metrics",),
        preprocess_steps=("batch_load",),
        minimize=False,
        environment=None,
        sink=None,
    ):
        self.metrics = list(metrics)
        self.run_id = run_id
        self.rank = int(rank)
        self.goal = goal
        self.minimize = minimize
        self.goal_reached = False
        self.goal_result = None
        self.current_epoch = 0
        self.current_batch = 0
        self.best_epoch = 0
        self.best_metric_value = None
        self.is_training = True
        self.validation_times = []
        self._is_best = False
        self._categories = {
            "communication": set(communication_steps),
            "compute": set(compute_steps),
            "metrics": set(metrics_steps),
            "preprocess": set(preprocess_steps),
        }
        self._steps = None  # of the current batch: (name, stamp)
        self._validation_began = None
        self._epoch_times = {}
        self._total_times = {}
        self._train_time = self._epoch_train_time = 0.0
        self._samples, self._logged_at = 0, 0.0
        self._means = {}
        self._sink = sink or sink_of(os.environ if environment is None else environment, run_id, self.rank)
        atexit.register(self.close)

    # ---- where the script is ----------------------------------------------------------------------------------------

    def start(self):
        self.start_time = time.monotonic()

    def train(self):
        self.is_training = True

    def validation(self):
        self.is_training = False

    def validation_start(self):
        self._validation_began = time.monotonic()

    def validation_end(self):
        if self._validation_began is None:
            raise RuntimeError("validation_end() without validation_start()")
        self.validation_times.append(time.monotonic() - self._validation_began)
        self._validation_began = None

    def batch_start(self):
        self._steps = [("start", time.monotonic())]

    def record_batch_step(self, name):
        """Books the time since the last stamp under this name."""
        if self._steps is None:
            raise RuntimeError("record_batch_step('%s') without batch_start()" % name)
        self._steps.append((name, time.monotonic()))

    def record_batch_load(self):
        self.record_batch_step("batch_load")

    def record_batch_init(self):
        self.record_batch_step("init")

    def record_batch_fwd_pass(self):
        self.record_batch_step("fwd_pass")

    def record_batch_comp_loss(self):
        self.record_batch_step("comp_loss")

    def record_batch_backprop(self):
        self.record_batch_step("backprop")

    def record_batch_agg(self):
        self.record_batch_step("agg")

    def record_batch_opt_step(self):
        self.record_batch_step("opt_step")

    def record_batch_comp_metrics(self):
        self.record_batch_step("comp_metrics")

    def batch_end(self):
        self.record_batch_step("end")
        for (_, before), (name, stamp) in zip(self._steps, self._steps[1:]):
            self._epoch_times[name] = self._epoch_times.get(name, 0.0) + stamp - before
        self._epoch_train_time += self._steps[-1][1] - self._steps[0][1]
        self._steps = None
        self.current_batch += 1

    def epoch_end(self):
        values = {"CumulativeTrainTimeEpoch": self._epoch_train_time, **self._epoch_times}
        self._train_time += self._epoch_train_time
        for name, seconds in self._epoch_times.items():
            self._total_times[name] = self._total_times.get(name, 0.0) + seconds
        self._epoch_times, self._epoch_train_time, self._means = {}, 0.0, {}
        self._write(values)
        self.current_epoch += 1

    def log(self, samples=None, lr=None, grad_norm=None):
        """What the script did since the last call, one record; every so many batches are enough.

        `samples` are those that this rank took in its batches since then: with the train clock they give the run's
        throughput. `lr` and `grad_norm` are the learning rate and the norm of the gradient now.
        """
        values = {}
        if samples is not None:
            self._samples += int(samples)
            now = self.get_total_train_time()
            if now > self._logged_at:
                values["samples_per_s"] = samples / (now - self._logged_at)
            self._logged_at = now
        if lr is not None:
            values["lr"] = self._number(lr)
        if grad_norm is not None:
            values["gradient_norm"] = self._number(grad_norm)
        self._write(values)

    # ---- values -----------------------------------------------------------------------------------------------------

    def record_loss(self, value, n=1, log_to_api=False):
        """The loss; with n > 1 the value stands for n samples (or batches) of the epoch's mean."""
        self.record_stat("loss", value, n, log_to_api)

    def record_metric(self, metric, value, n=1, log_to_api=False):
        """A value of one of the metrics. The first metric given decides which epoch is the best."""
        self.record_stat(metric.name, value, n, log_to_api)
        if not self.is_training and self.metrics and metric.name == self.metrics[0].name:
            self._judge(self._number(value))

    def record_stat(self, name, value, n=1, log_to_api=False):
        """Any value; `log_to_api` reports it. Its name gets the prefix train_ or val_ of where the script is."""
        name = ("train_" if self.is_training else "val_") + name
        value = self._number(value)
        self._means.setdefault(name, _Mean()).update(value, n)
        if log_to_api:
            self._write({name: value})
        if self.goal is None or self.goal_reached:
            return
        result = self.goal(name, value, self)
        if result is not None:
            self.goal_reached, self.goal_result = True, result
            if self.rank == 0:
                self._report_goal(result, value)

    def mean(self, name):
        """The mean of a value (with its prefix) over the epoch so far; 0 without one."""
        return self._means[name].value if name in self._means else 0.0

    def is_best(self):
        """Whether the last validation was the best so far."""
        return self._is_best

    # ---- times ------------------------------------------------------------------------------------------------------

    def get_total_train_time(self):
        return self._train_time + self._epoch_train_time

    def get_total_communication_time(self):
        return self._category("communication")

    def get_total_compute_time(self):
        return self._category("compute")

    def get_total_metrics_time(self):
        return self._category("metrics")

    def get_total_preprocess_time(self):
        return self._category("preprocess")

    def close(self, timeout=None):
        """Sends what is left. Called at the end of the script by itself."""
        atexit.unregister(self.close)
        self._sink.close(timeout)

    # ---- for a script that goes on later ----------------------------------------------------------------------------

    _STATE = (
        "is_training",
        "goal_reached",
        "goal_result",
        "current_epoch",
        "current_batch",
        "best_epoch",
        "best_metric_value",
        "_is_best",
        "_epoch_times",
        "_total_times",
        "_train_time",
        "_epoch_train_time",
        "_samples",
        "_logged_at",
        "validation_times",
    )

    def state_dict(self):
        """Times, counts and the best value, as numbers, texts, lists and dictionaries alone. The goal and the metrics are
        the script's own, and not in it."""
        state = {name.lstrip("_"): copy.copy(getattr(self, name)) for name in self._STATE}
        state["means"] = {name: [mean.sum, mean.count] for name, mean in self._means.items()}
        return state

    def load_state_dict(self, state):
        """Goes on from what state_dict() gave."""
        for name in self._STATE:
            setattr(self, name, copy.copy(state[name.lstrip("_")]))
        self._means = {}
        for name, (total, count) in state["means"].items():
            self._means[name] = mean = _Mean()
            mean.sum, mean.count = total, count

    # ---- within -----------------------------------------------------------------------------------------------------

    @staticmethod
    def _number(value):
        return float(value.item() if hasattr(value, "item") else value)

    def _times(self):
        times = dict(self._total_times)
        for name, seconds in self._epoch_times.items():
            times[name] = times.get(name, 0.0) + seconds
        return times

    def _category(self, name):
        return sum(seconds for step, seconds in self._times().items() if step in self._categories[name])

    def _judge(self, value):
        best = self.best_metric_value
        better = best is None or (value < best if self.minimize else value > best)
        self._is_best = better and math.isfinite(value)
        if self._is_best:
            self.best_metric_value, self.best_epoch = value, self.current_epoch

    def _report_goal(self, result, value):
        total = self.get_total_train_time()
        values = {"TotalCumulativeTrainTime": total, "global_cum_CumulativeTrainTimeEpoch": total}
        values.update({"global_cum_" + name: seconds for name, seconds in sorted(self._times().items())})
        more = {"text": {"TaskResult": result}}
        if hasattr(self.goal, "metric"):
            goal = {"metric": self.goal.metric, "split": self.goal.split, "target": self.goal.target, "value": value}
            more["goal"] = goal
        self._write(values, more)

    def _write(self, values, more=None):
        record = {
            "rank": self.rank,
            "step": self.current_batch,
            "time": time.time_ns() / 1e9,
            "epoch": self.current_epoch,
            "train_s": self.get_total_train_time(),
            "samples": self._samples,
            "values": values,
            **(more or {}),
        }
        self._sink.write(record)
