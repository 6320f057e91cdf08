"""Validation and the records of a batch, as MLBench's tasks do them."""

import sys

from mlbench.metrics import sum_over_ranks

_BATCHES_PER_RECORD = 25


def _to(value, dtype, use_cuda):
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(value, torch.Tensor):
        return value
    if dtype is not None and value.is_floating_point():
        value = value.to({"fp16": torch.float16, "fp32": torch.float32, "fp64": torch.float64}[dtype])
    return value.cuda() if use_cuda else value


def validation_round(
    dataloader,
    model,
    loss_function,
    metrics,
    dtype=None,
    tracker=None,
    transform_target_type=False,
    use_cuda=False,
    max_batch_per_epoch=None,
):
    """Evaluates the model on this rank's part of the validation set.

    Returns ({metric name: value}, loss), both exact over the samples of all ranks. With a tracker it also takes the
    time and records everything (record_validation_stats): `val_loss` is this rank's own.
    """
    torch = sys.modules.get("torch")
    if tracker is not None:
        tracker.validation()
        tracker.validation_start()
    if hasattr(model, "eval"):
        model.eval()
    loss_sum = samples = 0
    for metric in metrics:
        metric.reset()
    gradients = torch.is_grad_enabled() if torch is not None else None
    try:
        if torch is not None:
            torch.set_grad_enabled(False)
        for index, (data, target) in enumerate(dataloader):
            if max_batch_per_epoch is not None and index >= max_batch_per_epoch:
                break
            data = _to(data, dtype, use_cuda)
            target = _to(target, dtype if transform_target_type else None, use_cuda)
            output = model(data)
            loss = loss_function(output, target)
            if len(target) > 0:  # the mean loss of no sample is NaN
                loss_sum += float(loss) * len(target)
                samples += len(target)
            for metric in metrics:
                metric.update(loss, output, target)
    finally:
        if torch is not None:
            torch.set_grad_enabled(gradients)
        if hasattr(model, "train"):
            model.train()
    if samples == 0:
        raise ValueError("validation_round: the data loader has no batch")
    values = {metric.name: metric.average() for metric in metrics}
    total, count = sum_over_ranks([loss_sum, samples])
    if tracker is not None:
        tracker.validation_end()
        record_validation_stats(values, loss_sum / samples, total / count, metrics, tracker)
    return values, total / count


def record_validation_stats(values, loss, global_loss, metrics, tracker):
    """This rank's loss on every rank; the values over all ranks on rank 0 (every rank looks whether they meet the goal)."""
    first = tracker.rank == 0
    tracker.record_loss(loss, log_to_api=True)
    tracker.record_stat("global_loss", global_loss, log_to_api=first)
    for metric in metrics:
        tracker.record_metric(metric, values[metric.name], log_to_api=first)
        tracker.record_stat("global_" + metric.name, values[metric.name], log_to_api=first)


def record_train_batch_stats(batch_index, loss, output, target, metrics, tracker):
    """The loss and the metrics of a training batch; every 25th batch is reported. Returns {metric name: value}."""
    report = batch_index % _BATCHES_PER_RECORD == 0
    tracker.record_loss(loss, len(target), log_to_api=report)
    values = {}
    for metric in metrics:
        values[metric.name] = metric(loss, output, target)
        tracker.record_metric(metric, values[metric.name], len(target), log_to_api=report)
    return values
