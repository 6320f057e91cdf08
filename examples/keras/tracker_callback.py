"""Tells mlbench what keras.Model.fit() does: steps and their times, losses, the accuracy, and when the goal is reached."""

import keras

from mlbench import record_validation_stats

BATCHES_PER_RECORD = 25


class TrackerCallback(keras.callbacks.Callback):
    """For fit() with validation data, of a model whose metric "accuracy" is the fraction of right samples.

    The tracker's one metric is TopKAccuracy(1). A step of Keras is one call of TensorFlow, from the input to the update: all
    of it is booked as `backprop`. `batch_size` and `validation_samples` are those of this rank; `sum_over_ranks` adds up a
    list of numbers, so that the accuracy is that of all ranks. All of them end after the epoch that reaches the goal.
    """

    def __init__(self, tracker, batch_size, validation_samples, sum_over_ranks=list):
        super().__init__()
        self.tracker, self.batch_size, self.validation_samples = tracker, batch_size, validation_samples
        self.sum_over_ranks = sum_over_ranks
        self.unreported, self.loss = 0, 0.0

    def on_train_begin(self, logs=None):
        steps = self.model.steps_per_execution
        if steps != 1:
            raise ValueError("steps_per_execution is %d; expected 1, so that each step has its time" % steps)
        self.tracker.start()

    def on_epoch_begin(self, epoch, logs=None):
        self.tracker.train()

    def on_train_batch_begin(self, batch, logs=None):
        self.tracker.batch_start()

    def on_train_batch_end(self, batch, logs=None):
        self.loss = float(logs["loss"])  # the mean of the epoch so far; reading it waits for the step
        self.tracker.record_batch_backprop()
        self.tracker.batch_end()
        self.unreported += 1
        if self.unreported == BATCHES_PER_RECORD:
            self._report()

    def on_test_begin(self, logs=None):
        """The batches of the epoch are over."""
        if self.unreported:
            self._report()
        self.tracker.record_loss(self.loss, log_to_api=True)
        self.tracker.epoch_end()
        self.tracker.validation()
        self.tracker.validation_start()

    def on_test_end(self, logs=None):
        samples = self.validation_samples
        own = [samples * float(logs["loss"]), samples * float(logs["accuracy"]), samples]
        loss, right, samples = self.sum_over_ranks(own)
        self.tracker.validation_end()
        [metric] = self.tracker.metrics
        values = {metric.name: 100 * right / samples}
        record_validation_stats(values, float(logs["loss"]), loss / samples, [metric], self.tracker)

    def on_epoch_end(self, epoch, logs=None):
        if self.tracker.goal_reached:
            self.model.stop_training = True

    def _report(self):
        samples = self.unreported * self.batch_size
        self.tracker.log(samples=samples, lr=float(self.model.optimizer.learning_rate))
        self.unreported = 0
