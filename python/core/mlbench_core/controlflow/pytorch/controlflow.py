"""Validation and the records of a batch, with the arguments of mlbench_core 2 and 3."""

import logging
import types

import mlbench

_log = logging.getLogger("mlbench")
_BATCHES_PER_RECORD = 25
_NOW = ("dtype", "tracker", "transform_target_type", "use_cuda", "max_batches")
_BEFORE = ("run_id", "rank", "dtype", "transform_target_type", "use_cuda", "max_batch_per_epoch", "tracker")
_DTYPES = (None, "fp16", "fp32", "fp64")


class _Values(dict):
    """Values by their metrics, which may also be asked for by name."""

    def __missing__(self, name):
        for metric, value in self.items():
            if metric.name == name:
                return value
        raise KeyError(name)


def compute_train_batch_metrics(output, target, metrics):
    """{metric: value} of a batch."""
    return _Values((metric, float(metric(output, target))) for metric in metrics)


def record_train_batch_stats(batch_idx, loss, output, *rest):
    """Hands the loss and the metrics of a training batch to the tracker, which reports every 25th batch and the last.

    `rest` is (values of compute_train_batch_metrics, tracker, batches per epoch), or as before version 3
    (target, metrics, tracker, batches per epoch).
    """
    if len(rest) == 4:
        target, metrics, tracker, batches = rest
        values = compute_train_batch_metrics(output, target, metrics)
    else:
        values, tracker, batches = rest
    report = batch_idx % _BATCHES_PER_RECORD == 0 or batch_idx == batches - 1
    tracker.record_loss(loss, len(output), log_to_api=report)
    for metric, value in values.items():
        tracker.record_metric(metric, value, len(output), log_to_api=report)
    _log.info("Epoch %5.2f Batch %4d: %s", tracker.current_epoch + batch_idx / batches, batch_idx, tracker)


def validation_round(dataloader, model, loss_function, metrics, *arguments, **options):
    """Evaluates the model on the validation set. Returns the values of the metrics and the loss, exact over all ranks.

    The further arguments are (dtype, tracker=None, transform_target_type=False, use_cuda=False, max_batches=None). The
    values are then by metric, and the script records them (record_validation_stats). Before version 3 they were
    (run_id, rank, dtype, transform_target_type=None, use_cuda=False, max_batch_per_epoch=None, tracker=None). The
    values are then by name, and the tracker has them when this function returns.
    """
    before = "run_id" in options or (len(arguments) > 0 and arguments[0] not in _DTYPES)
    given = dict(zip(_BEFORE if before else _NOW, arguments), **options)
    unknown = set(given) - set(_BEFORE) - set(_NOW)
    if unknown or len(arguments) > len(_BEFORE if before else _NOW):
        raise TypeError("validation_round: expected %s; got %s" % (", ".join(_NOW), ", ".join(map(str, given))))
    tracker = given.get("tracker")
    evaluated = dict(
        dtype=given.get("dtype"),
        transform_target_type=bool(given.get("transform_target_type")),
        use_cuda=given.get("use_cuda", False),
        max_batch_per_epoch=given.get("max_batches", given.get("max_batch_per_epoch")),
    )
    if before:
        return mlbench.validation_round(dataloader, model, loss_function, metrics, tracker=tracker, **evaluated)
    if tracker is not None:
        tracker.validation()
        tracker.validation_start()
    values, loss = mlbench.validation_round(dataloader, model, loss_function, metrics, **evaluated)
    if tracker is not None:
        tracker.validation_end()
    return _Values((metric, float(values[metric.name])) for metric in metrics), loss


def record_validation_stats(metrics_values, loss, tracker=None, rank=0):
    """Hands the result of validation_round to the tracker, which looks whether the goal is met; rank 0 reports. Returns
    whether this validation was the best so far."""
    if tracker is None:
        return False
    metrics = [types.SimpleNamespace(name=one) if isinstance(one, str) else one for one in metrics_values]
    values = {metric.name: value for metric, value in zip(metrics, metrics_values.values())}
    mlbench.record_validation_stats(values, loss, loss, metrics, tracker)
    if rank == 0:
        _log.info("Validation: %s", tracker)
    return tracker.is_best()
