"""A script of the shape of MLBench's task 2a (epsilon-logistic-regression-all-reduce): the same calls of mlbench_core
with the same arguments."""

import json
import os
import time

import torch.distributed as dist
from torch.optim.lr_scheduler import ReduceLROnPlateau
from torch.utils.data import DataLoader

from mlbench_core.controlflow.pytorch import (
    compute_train_batch_metrics,
    prepare_batch,
    record_train_batch_stats,
    record_validation_stats,
    validation_round,
)
from mlbench_core.controlflow.pytorch.checkpoints_evaluation import CheckpointsEvaluationControlFlow
from mlbench_core.dataset.linearmodels.pytorch.dataloader import LMDBDataset
from mlbench_core.dataset.util.pytorch import partition_dataset_by_rank
from mlbench_core.evaluation.goals import task2_time_to_accuracy_goal, task2_time_to_accuracy_light_goal
from mlbench_core.evaluation.pytorch.criterion import BCELossRegularized
from mlbench_core.evaluation.pytorch.metrics import DiceCoefficient, F1Score, TopKAccuracy
from mlbench_core.models.pytorch.linear_models import LogisticRegression
from mlbench_core.optim.pytorch.centralized import CentralizedSGD
from mlbench_core.utils import Tracker
from mlbench_core.utils.pytorch import initialize_backends
from mlbench_core.utils.pytorch.checkpoint import Checkpointer, CheckpointFreq
from mlbench_core.utils.task_args import task_main


def train_loop(
    run_id, dataset_dir, ckpt_run_dir, output_dir, validation_only=False, use_cuda=False, light_target=False
):
    train_epochs = 20
    batch_size = 100
    dtype = "fp32"

    rank = dist.get_rank()
    world_size = dist.get_world_size()

    lr = 4
    model = LogisticRegression(2000)
    loss_function = BCELossRegularized(l1=0.0, l2=0.0000025, model=model)
    optimizer = CentralizedSGD(
        world_size=world_size,
        model=model,
        lr=lr * min(16, world_size),
        use_cuda=use_cuda,
        by_layer=False,
        agg_grad=False,
    )
    metrics = [TopKAccuracy(), F1Score(), DiceCoefficient()]

    train_set = LMDBDataset(name="epsilon", data_type="train", root=dataset_dir)
    val_set = LMDBDataset(name="epsilon", data_type="test", root=dataset_dir)

    train_set = partition_dataset_by_rank(train_set, rank, world_size)
    val_set = partition_dataset_by_rank(val_set, rank, world_size)
    options = dict(batch_size=batch_size, num_workers=2, pin_memory=use_cuda, drop_last=False)
    train_loader = DataLoader(train_set, shuffle=True, **options)
    val_loader = DataLoader(val_set, shuffle=False, **options)

    scheduler = ReduceLROnPlateau(
        optimizer.optimizer,
        factor=0.75,
        patience=0,
        verbose=True,
        threshold_mode="abs",
        threshold=0.01,
        min_lr=lr,
    )
    checkpointer = Checkpointer(ckpt_run_dir=ckpt_run_dir, rank=rank, freq=CheckpointFreq.NONE)

    if validation_only:
        cecf = CheckpointsEvaluationControlFlow(
            ckpt_dir=ckpt_run_dir,
            rank=rank,
            world_size=world_size,
            checkpointer=checkpointer,
            model=model,
            epochs=train_epochs,
            loss_function=loss_function,
            metrics=metrics,
            use_cuda=use_cuda,
            dtype="fp32",
            max_batch_per_epoch=None,
        )
        val_stats = cecf.evaluate_by_epochs(val_loader)
        with open(os.path.join(output_dir, "val_stats.json"), "w") as f:
            json.dump(val_stats, f)
        return

    goal = task2_time_to_accuracy_light_goal() if light_target else task2_time_to_accuracy_goal()
    num_batches_per_device_train = len(train_loader)
    tracker = Tracker(metrics, run_id, rank, goal=goal)
    dist.barrier()
    tracker.start()

    for epoch in range(0, train_epochs):
        model.train()
        tracker.train()

        for batch_idx, (data, target) in enumerate(train_loader):
            tracker.batch_start()
            data, target = prepare_batch(data, target, dtype=dtype, transform_target_dtype=False, use_cuda=use_cuda)
            tracker.record_batch_load()
            optimizer.zero_grad()
            tracker.record_batch_init()
            output = model(data)
            tracker.record_batch_fwd_pass()
            loss = loss_function(output, target)
            tracker.record_batch_comp_loss()
            loss.backward()
            tracker.record_batch_backprop()
            optimizer.step(tracker=tracker)
            metrics_results = compute_train_batch_metrics(output, target, metrics)
            tracker.record_batch_comp_metrics()
            tracker.batch_end()
            record_train_batch_stats(
                batch_idx, loss.item(), output, metrics_results, tracker, num_batches_per_device_train
            )

        tracker.epoch_end()
        metrics_values, loss = validation_round(
            val_loader,
            model=model,
            loss_function=loss_function,
            metrics=metrics,
            dtype=dtype,
            tracker=tracker,
            transform_target_type=False,
            use_cuda=use_cuda,
            max_batches=None,
        )
        scheduler.step(loss)
        is_best = record_validation_stats(metrics_values=metrics_values, loss=loss, tracker=tracker, rank=rank)
        checkpointer.save(tracker, model, optimizer, scheduler, tracker.current_epoch, is_best)

        if tracker.goal_reached:
            print("Goal Reached!")
            dist.barrier()
            time.sleep(10)
            return


def main(
    run_id,
    dataset_dir,
    ckpt_run_dir,
    output_dir,
    rank,
    hosts,
    backend,
    validation_only=False,
    gpu=False,
    light_target=False,
):
    with initialize_backends(
        comm_backend=backend,
        hosts=hosts,
        rank=rank,
        logging_level="INFO",
        logging_file=os.path.join(output_dir, "mlbench.log"),
        use_cuda=gpu,
        seed=42,
        cudnn_deterministic=False,
        ckpt_run_dir=ckpt_run_dir,
        delete_existing_ckpts=not validation_only,
    ):
        train_loop(
            run_id, dataset_dir, ckpt_run_dir, output_dir, validation_only, use_cuda=gpu, light_target=light_target
        )


if __name__ == "__main__":
    task_main(main)
