"""Tests of mlbench_core's paths that need PyTorch. Ranks are processes that meet through Gloo."""

import json
import math
import multiprocessing
import os
import random
import sys
import tempfile
import traceback
import unittest
import warnings

os.environ["OMP_NUM_THREADS"] = "1"
FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(FOLDER, "..", ".."), os.path.join(FOLDER, "..")]

try:
    import torch
    import torch.distributed as dist

    import mlbench
    from mlbench_core.aggregation.pytorch.centralized import (
        AVG_CUSTOM,
        AVG_WORLD,
        AllReduceAggregation,
        PowerAggregation,
    )
    from mlbench_core.controlflow.pytorch import (
        compute_train_batch_metrics,
        prepare_batch,
        record_train_batch_stats,
        record_validation_stats,
        validation_round,
    )
    from mlbench_core.controlflow.pytorch.checkpoints_evaluation import CheckpointsEvaluationControlFlow
    from mlbench_core.dataset.imagerecognition.pytorch import CIFAR10V1
    from mlbench_core.dataset.linearmodels.pytorch.dataloader import LMDBDataset
    from mlbench_core.dataset.util.pytorch import partition_dataset_by_rank
    from mlbench_core.dataset.util.pytorch.partition import DataPartitioner
    from mlbench_core.evaluation.goals import task1_time_to_accuracy_goal
    from mlbench_core.evaluation.pytorch import criterion, metrics
    from mlbench_core.lr_scheduler.pytorch import lr as schedules
    from mlbench_core.models.pytorch.linear_models import LinearRegression, LogisticRegression
    from mlbench_core.models.pytorch.resnet import ResNetCIFAR
    from mlbench_core.optim.pytorch import get_optimizer
    from mlbench_core.optim.pytorch.centralized import (
        CentralizedAdam,
        CentralizedSGD,
        CentralizedSparsifiedSGD,
        CustomCentralizedOptimizer,
        PowerSGD,
    )
    from mlbench_core.optim.pytorch.decentralized import DecentralizedSGD
    from mlbench_core.optim.pytorch.optim import SignSGD, SparsifiedSGD
    from mlbench_core.utils import Tracker
    from mlbench_core.utils.pytorch import Timeit, initialize_backends
    from mlbench_core.utils.pytorch.checkpoint import Checkpointer, CheckpointFreq
    from mlbench_core.utils.pytorch.helpers import config_path
except ImportError as missing:
    print("SKIPPED: missing capability: PyTorch (%s)" % missing)
    sys.exit(77)


def on_ranks(count, work):
    """Runs work(rank, folder) on `count` ranks that are connected, and returns what each gave."""
    context = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as folder:
        answers = context.Queue()

        def rank_main(rank):
            try:
                store = dist.FileStore(os.path.join(folder, "store"), count)
                dist.init_process_group("gloo", store=store, rank=rank, world_size=count)
                answers.put((rank, work(rank, folder), None))
                dist.barrier()
            except BaseException:
                answers.put((rank, None, traceback.format_exc()))

        ranks = [context.Process(target=rank_main, args=(rank,)) for rank in range(count)]
        for rank in ranks:
            rank.start()
        got = dict((rank, (answer, failure)) for rank, answer, failure in (answers.get(timeout=300) for _ in ranks))
        for rank in ranks:
            rank.join(30)
            rank.kill()
    failures = [failure for _, failure in got.values() if failure]
    if failures:
        raise AssertionError("\n".join(failures))
    return [got[rank][0] for rank in range(count)]


def model_of(*values):
    """One weight row, and a gradient for it."""
    model = torch.nn.Linear(len(values), 1, bias=False)
    model.weight.data = torch.tensor([values], dtype=torch.float32)
    return model


def weights(model):
    return [round(value, 6) for value in model.weight.data.flatten().tolist()]


def give_gradient(model, *values):
    model.weight.grad = torch.tensor(values, dtype=torch.float32).view_as(model.weight)


class StepsListed:
    """A tracker that lists its stamps."""

    def __init__(self):
        self.stamps = []

    def record_batch_agg(self):
        self.stamps.append("agg")

    def record_batch_opt_step(self):
        self.stamps.append("opt_step")


class OptimizerTest(unittest.TestCase):
    def test_gradients_are_averaged_before_the_step(self):
        def work(rank, _):
            results = []
            for by_layer in (False, True):
                model, tracker = model_of(1, 2), StepsListed()
                optimizer = CentralizedSGD(world_size=2, model=model, lr=0.5, momentum=0.9, by_layer=by_layer)
                give_gradient(model, 2.0 * rank, 4)
                optimizer.step(tracker=tracker)
                optimizer.zero_grad()
                results.append((weights(model), tracker.stamps, optimizer.param_groups[0]["lr"]))
            return results

        for results in on_ranks(2, work):
            self.assertEqual(results, [([0.5, 0.0], ["agg", "opt_step"], 0.5)] * 2)

    def test_weights_are_averaged_at_the_start_and_after_the_step(self):
        def work(rank, _):
            model, tracker = model_of(2.0 * rank), StepsListed()
            optimizer = CentralizedSGD(world_size=2, model=model, lr=1, agg_grad=False)
            start = weights(model)
            give_gradient(model, 2.0 * rank)
            optimizer.step(tracker=tracker)
            return start, weights(model), tracker.stamps

        for result in on_ranks(2, work):
            self.assertEqual(result, ([1.0], [0.0], ["opt_step", "agg"]))

    def test_one_rank_exchanges_nothing(self):
        model, tracker = model_of(1), StepsListed()
        give_gradient(model, 1)
        CentralizedAdam(world_size=1, model=model, lr=0.1).step(tracker=tracker)
        self.assertEqual((weights(model), tracker.stamps), ([0.9], ["opt_step"]))

    def test_any_optimizer_with_clipping_and_a_denominator(self):
        def work(rank, _):
            model = model_of(0, 0)
            sgd = torch.optim.SGD(model.parameters(), lr=1)
            optimizer = CustomCentralizedOptimizer(model, 2, sgd, average_custom=True, grad_clip=1.0)
            give_gradient(model, 6, 8)
            optimizer.step(denom=torch.tensor(2.0 + rank * 0))
            return weights(model)

        self.assertEqual(on_ranks(2, work), [[-0.6, -0.8]] * 2)
        with self.assertRaisesRegex(ValueError, "either average_world or average_custom"):
            CustomCentralizedOptimizer(model_of(0), 2, None)

    def test_neighbours_average_their_weights(self):
        def work(rank, _):
            model = model_of(3.0 * rank)
            neighbors = [(rank + 1) % 3, (rank + 2) % 3] if rank == 0 else [0]
            optimizer = DecentralizedSGD(rank=rank, neighbors=neighbors, model=model, lr=1)
            give_gradient(model, 0)
            optimizer.step()
            return weights(model)

        self.assertEqual(on_ranks(3, work), [[3.0], [1.5], [3.0]])

    def test_power_iteration_is_exact_for_matrices_of_its_rank(self):
        def work(rank, _):
            results = []
            for by_layer in (False, True):
                model = torch.nn.Linear(3, 2)
                optimizer = PowerSGD(model=model, lr=1, by_layer=by_layer, reuse_query=True, rank=1)
                for _ in range(3):
                    before = model.weight.detach().clone(), model.bias.detach().clone()
                    model.weight.grad = torch.tensor([[1.0], [2.0]]) @ torch.tensor([[1.0, 2.0, 3.0]]) * (rank + 1)
                    model.bias.grad = torch.tensor([4.0, 0.0]) * rank
                    optimizer.step()
                results.append([[round(x, 4) for x in (b - a.detach()).flatten().tolist()]
                                for b, a in zip(before, (model.weight, model.bias))])  # fmt: skip
            return results

        for results in on_ranks(2, work):
            self.assertEqual(results, [[[1.5, 3.0, 4.5, 3.0, 6.0, 9.0], [2.0, 0.0]]] * 2)

    def test_power_iteration_keeps_what_it_did_not_send(self):
        model = torch.nn.Linear(4, 4, bias=False)
        aggregation = PowerAggregation(model, world_size=1, rank=1)
        gradient, sent = torch.randn(4, 4, generator=torch.Generator().manual_seed(5)), torch.zeros(4, 4)
        steps = 200
        for _ in range(steps):
            model.weight.grad = gradient.clone()
            aggregation.agg_grad()(model, "avg")
            sent += model.weight.grad
        self.assertLess((sent / steps - gradient).norm(), 0.05 * gradient.norm())

    def test_sparsified_steps_lose_nothing(self):
        for random_sparse in (False, True):
            model = model_of(*[0.0] * 6)
            optimizer = SparsifiedSGD(model.parameters(), lr=1, sparse_grad_size=2, random_sparse=random_sparse)
            changed = []
            for _ in range(100):
                before = model.weight.detach().clone()
                give_gradient(model, *range(1, 7))
                optimizer.step()
                changed.append(int((model.weight != before).sum()))
                optimizer.update_estimated_weights(len(changed) - 1, 2)
            self.assertEqual(set(changed), {2})
            memory = optimizer.state[model.weight]["memory"]
            self.assertEqual((memory - model.weight.data).flatten().tolist(), [100.0 * i for i in range(1, 7)])
            [estimated] = optimizer.get_estimated_weights()
            self.assertTrue(bool((estimated < 0).all() and (estimated > model.weight.data - 1e-3).all()))

    def test_sparsified_steps_of_all_ranks(self):
        def work(rank, _):
            torch.manual_seed(rank)
            model = model_of(0, 0, 0, 0)
            optimizer = CentralizedSparsifiedSGD(model.parameters(), lr=1, sparse_grad_size=4, random_sparse=True)
            give_gradient(model, 2, 4, 6, 8.0 * rank)
            optimizer.step()
            return weights(model)

        self.assertEqual(on_ranks(2, work), [[-2.0, -4.0, -6.0, -4.0]] * 2)

    def test_signs(self):
        model = model_of(1, 1, 1)
        optimizer = SignSGD(model.parameters(), lr=0.25)
        give_gradient(model, 5, -0.001, 0)
        optimizer.step()
        self.assertEqual(weights(model), [0.75, 1.25, 1.0])

    def test_optimizers_by_name(self):
        self.assertIsInstance(get_optimizer("sign_sgd", params=model_of(1).parameters(), lr=1), SignSGD)
        with self.assertRaisesRegex(ValueError, "expected one of: centralized_adam"):
            get_optimizer("sgd")


class AggregationTest(unittest.TestCase):
    def test_operations(self):
        def work(rank, _):
            results = []
            for options, op, denom in (({}, AVG_WORLD, None), ({"divide_before": True}, AVG_CUSTOM, 4)):
                model = model_of(2.0 * rank, 4)
                AllReduceAggregation(2, **options).agg_model()(model, op, denom)
                results.append(weights(model))
            return results

        self.assertEqual(on_ranks(2, work), [[[1.0, 4.0], [0.5, 2.0]]] * 2)
        with self.assertRaisesRegex(ValueError, "expected one of: avg_world, avg_custom"):
            AllReduceAggregation(1).agg_model()(model_of(1), "max")
        with self.assertRaisesRegex(ValueError, "denom"):
            AllReduceAggregation(1).agg_model()(model_of(1), AVG_CUSTOM)


class ScheduleTest(unittest.TestCase):
    def rates(self, name, count, lr=1.0, **options):
        optimizer = torch.optim.SGD(model_of(1).parameters(), lr=lr)
        schedule = getattr(schedules, name)(optimizer, **options)
        rates = []
        for _ in range(count):
            rates.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            schedule.step()
        stored = schedule.state_dict()
        again = getattr(schedules, name)(torch.optim.SGD(model_of(1).parameters(), lr=lr), **options)
        again.load_state_dict(stored)
        self.assertEqual(again.last_epoch, count)
        return rates

    def check(self, name, expected, **options):
        for seen, wanted in zip(self.rates(name, len(expected), **options), expected):
            self.assertAlmostEqual(seen, wanted, places=6, msg=name)

    def test_values_computed_by_hand(self):
        self.check("LRLinearWarmUp", [1, 2, 3, 3], init_lr=1, scaled_lr=3, warmup_duration=2)
        self.check("LRLinearWarmUp", [3, 3], init_lr=1, scaled_lr=3, warmup_duration=0)
        self.check("MultiStepLRLinearWarmUp", [0, 1, 2, 1, 1, 0.5], gamma=0.5, milestones=[3, 5], scaled_lr=2,
                   warmup_duration=2)  # fmt: skip
        self.check("SQRTTimeDecayLRWithWarmup", [0, 1, 2, 3, 4, 4 * math.sqrt(0.8)], base_lr=4, warmup_init_lr=0,
                   warmup_steps=4)  # fmt: skip
        self.check("PolyDecayLRLinearWarmup", [0, 4, 2.25, 1, 1], init_lr=0, scaled_lr=4, warmup_duration=1,
                   decay_steps=2, min_lr=1)  # fmt: skip
        self.check("ExponentialWarmupMultiStepLR", [0.01, 0.1, 1, 1, 0.5, 0.5, 0.25, 0.25], iterations=8,
                   warmup_steps=2, remain_steps=0.5, decay_interval=2, decay_steps=2)  # fmt: skip
        self.check("ExponentialWarmupMultiStepLR", [1, 1, 0.5, 0.25, 0.25], iterations=4, remain_steps=2, decay_steps=2)
        self.check("SparsifiedSGDLR", [2, 2, 1], gamma=1, l2_coef=0.5, shifting_param=0)
        self.check("TimeDecayLR", [1, 2 / 3, 0.5], lr=2.0, beta=2)
        self.check("SQRTTimeDecayLR", [2, 2, math.sqrt(2)], lr=2.0)

    def test_milestones_come_after_the_warm_up(self):
        for milestones in ([2, 1], [1]):
            with self.assertRaisesRegex(ValueError, "milestones"):
                self.rates("MultiStepLRLinearWarmUp", 1, gamma=1, milestones=milestones, scaled_lr=1, warmup_duration=1)

    def plateau(self, **options):
        optimizer = torch.optim.SGD(model_of(1).parameters(), lr=9)
        options = dict(dict(warmup_init_lr=1, scaled_lr=4, factor=0.5, patience=0, min_lr=1), **options)
        return schedules.ReduceLROnPlateauWithWarmup(optimizer, **options), optimizer.param_groups[0]

    def test_a_plateau_after_a_warm_up_by_epochs(self):
        schedule, group = self.plateau(warmup_epochs=3)
        rates = [group["lr"]]
        for loss in (1, 1, 1, 1, 1, 1):
            schedule.step(loss)
            rates.append(group["lr"])
        self.assertEqual(rates, [1, 2, 3, 4, 4, 2, 1])

    def test_a_plateau_after_a_warm_up_by_batches_or_none(self):
        schedule, group = self.plateau(warmup_epochs=1, batches_per_epoch=2)
        schedule.batch_step()
        self.assertEqual(group["lr"], 2.5)
        schedule.step(1)  # does not warm up: batches do
        self.assertEqual(group["lr"], 2.5)
        schedule.batch_step()
        schedule.batch_step()
        self.assertEqual(group["lr"], 4)
        self.assertEqual(self.plateau(warmup_epochs=0)[1]["lr"], 4)


class PartitionTest(unittest.TestCase):
    def test_the_parts_are_the_whole(self):
        def work(rank, _):
            random.seed(rank)  # rank 0 decides
            part = partition_dataset_by_rank(list(range(100, 110)), rank, 3)
            return [part[i] for i in range(len(part))]

        parts = on_ranks(3, work)
        self.assertEqual(sorted(sum(parts, [])), list(range(100, 110)))
        self.assertNotEqual(sum(parts, []), list(range(100, 110)))
        self.assertEqual(sorted(map(len, parts)), [3, 3, 4])

    def test_fractions(self):
        parts = DataPartitioner(list(range(49)), 0, False, [1 / 49] * 49).partitions
        self.assertEqual(parts, [[i] for i in range(49)])
        parts = DataPartitioner(list(range(10)), 0, False).partitions
        self.assertEqual(parts, [[0, 1, 2, 3, 4, 5, 6], [7, 8], [9]])
        with self.assertRaisesRegex(ValueError, "expected uniform"):
            partition_dataset_by_rank([1], 0, 1, distribution="normal")


class MetricTest(unittest.TestCase):
    def test_values_are_tensors_and_exact(self):
        metric = metrics.TopKAccuracy(1)
        output, target = torch.tensor([[0.1, 0.9], [0.8, 0.2], [0.3, 0.7]]), torch.tensor([1, 1, 1])
        self.assertAlmostEqual(metric(output, target).item(), 200 / 3, places=4)
        self.assertAlmostEqual(metric(None, output, target).item(), 200 / 3, places=4)
        metric.update(output, target)
        metric.update(output[:1], target[:1])
        self.assertEqual(metric.average().item(), 75.0)
        metric.reset()
        metric.update(torch.tensor(50.0), 1)
        metric.update(100.0, 3)
        self.assertEqual(metric.average().item(), 87.5)

    def test_perplexity_of_a_batch(self):
        output, target = torch.tensor([[1.0, 0.0], [0.0, 2.0]]), torch.tensor([0, 0])
        loss = torch.nn.functional.cross_entropy(output, target)
        self.assertAlmostEqual(metrics.Perplexity()(output, target).item(), math.exp(loss), places=4)
        self.assertAlmostEqual(metrics.Perplexity()(loss, output, target).item(), math.exp(loss), places=4)


class LossTest(unittest.TestCase):
    def test_penalties(self):
        model = model_of(3, -4)
        plain = torch.nn.functional.binary_cross_entropy(torch.tensor([0.25]), torch.tensor([1.0])).item()
        loss = criterion.BCELossRegularized(l1=0.5, l2=0.2, model=model)(torch.tensor([0.25]), torch.tensor([1]))
        self.assertAlmostEqual(loss.item(), plain + 0.5 * 7 + 0.1 * 25, places=5)
        loss.backward()
        self.assertEqual([round(g, 5) for g in model.weight.grad.flatten().tolist()], [1.1, -1.3])
        squared = criterion.MSELossRegularized(l2=0.2, model=model)(torch.tensor([1.0]), torch.tensor([3.0]))
        self.assertAlmostEqual(squared.item(), 4 + 2.5, places=5)

    def test_smoothed_labels(self):
        output, target = torch.tensor([[1.0, 2.0, 0.5], [0.0, 0.0, 3.0], [9.0, 9.0, 9.0]]), torch.tensor([1, 2, 0])
        logs = torch.log_softmax(output, 1)
        expected = -sum(0.9 * logs[i, target[i]] + 0.1 * logs[i].mean() for i in range(2))
        loss = criterion.LabelSmoothing(padding_idx=0, smoothing=0.1)(output, target)
        self.assertAlmostEqual(loss.item(), expected.item(), places=5)


class ModelTest(unittest.TestCase):
    def test_parameters_and_shapes(self):
        for version, expected in ((1, 272_474), (2, 272_378)):
            model = ResNetCIFAR(20, False, 10, version=version)
            self.assertEqual(sum(one.numel() for one in model.parameters()), expected)
            self.assertEqual(model(torch.zeros(2, 3, 32, 32)).shape, (2, 10))
        self.assertEqual(sum(one.numel() for one in LogisticRegression(2000).parameters()), 2000)
        self.assertEqual(LogisticRegression(3)(torch.zeros(2, 3)).tolist(), [[0.5], [0.5]])
        self.assertEqual(LinearRegression(3)(torch.zeros(2, 3)).tolist(), [[0.0], [0.0]])
        with self.assertRaisesRegex(ValueError, "6n"):
            ResNetCIFAR(21)


class DataTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(text)

    def test_images(self):
        record = bytes([7]) + bytes([255]) * 1024 + bytes([0]) * 2048
        for i in range(1, 6):
            self.write("cifar-10/cifar-10-batches-bin/data_batch_%d.bin" % i, record)
        self.write("cifar-10/cifar-10-batches-bin/test_batch.bin", record * 2)
        images = CIFAR10V1(self.folder, train=False)
        image, label = images[1]
        self.assertEqual((len(images), label, image.shape), (2, 7, (3, 32, 32)))
        self.assertAlmostEqual(image[0, 0, 0].item(), (1 - 0.4914) / 0.2023, places=4)
        self.assertAlmostEqual(image[2, 31, 31].item(), -0.4465 / 0.2010, places=4)
        trained = CIFAR10V1(self.folder, train=True)
        torch.manual_seed(1)
        margins = {int((trained[0][0][0] < 0).sum()) for _ in range(20)}
        self.assertEqual(len(trained), 5)
        self.assertGreater(len(margins), 3)
        with self.assertRaisesRegex(FileNotFoundError, "mlbench data fetch cifar-10"):
            CIFAR10V1(os.path.join(self.folder, "nowhere"), download=True)
        self.write("cifar-10/cifar-10-batches-bin/test_batch.bin", record[:-1])
        with self.assertRaisesRegex(ValueError, "records of 3073 bytes"):
            CIFAR10V1(self.folder, train=False)

    def test_rows(self):
        self.write("australian_train", b"-1 1:0.5 14:-2\n1 2:1e-1\n")
        rows = LMDBDataset("australian", "train", self.folder)
        self.assertEqual(len(rows), 2)
        self.assertEqual(rows[0][0].tolist(), [0.5] + [0.0] * 12 + [-2.0])
        self.assertEqual((rows[0][1].tolist(), rows[1][1].tolist()), ([0], [1]))
        for text, said in (
            (b"1 15:1\n", "line 1: an index"),
            (b"1 1:1\n3 1:1\n", "line 2: the label"),
            (b"1 1:x\n", "line 1: could not convert"),
            (b"", "no line"),
        ):
            self.write("australian_train", text)
            with self.assertRaisesRegex(ValueError, said):
                LMDBDataset("australian", "train", self.folder)
        with self.assertRaisesRegex(FileNotFoundError, "epsilon_test or epsilon_normalized.t"):
            LMDBDataset("epsilon", "test", self.folder)
        with self.assertRaisesRegex(ValueError, "expected one of: australian"):
            LMDBDataset("rcv1", "train", self.folder)


class ControlFlowTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        os.environ["MLBENCH_RUN_DIR"] = self.folder
        self.addCleanup(os.environ.pop, "MLBENCH_RUN_DIR")
        self.metrics = [metrics.TopKAccuracy(1)]
        self.tracker = Tracker(self.metrics, "7", 0, goal=task1_time_to_accuracy_goal)
        self.addCleanup(self.tracker.close)
        outputs = torch.tensor([[0.9, 0.1], [0.2, 0.8], [0.7, 0.3], [0.6, 0.4]])
        self.loader = [(outputs[:3], torch.tensor([0, 1, 0])), (outputs[3:], torch.tensor([1]))]

    def values(self):
        with open(os.path.join(self.folder, "metrics", "rank-0.jsonl"), encoding="utf-8") as file:
            return [json.loads(line)["values"] for line in file]

    def round(self, *arguments, **options):
        loss = torch.nn.functional.cross_entropy
        return validation_round(self.loader, torch.nn.Identity(), loss, self.metrics, *arguments, **options)

    def test_validation_as_of_version_3(self):
        values, loss = self.round(dtype="fp32", tracker=self.tracker, transform_target_type=False, max_batches=None)
        self.assertEqual((values[self.metrics[0]], values["Prec@1"]), (75.0, 75.0))
        self.assertFalse(os.path.exists(os.path.join(self.folder, "metrics", "rank-0.jsonl")) and self.values())
        self.assertEqual(len(self.tracker.validation_times), 1)
        self.assertTrue(record_validation_stats(values, loss, tracker=self.tracker, rank=0))
        recorded = {name: value for one in self.values() for name, value in one.items()}
        self.assertEqual(sorted(recorded), ["val_Prec@1", "val_global_Prec@1", "val_global_loss", "val_loss"])
        self.assertEqual(recorded["val_global_Prec@1"], 75.0)
        self.assertAlmostEqual(recorded["val_global_loss"], loss)
        self.assertFalse(record_validation_stats({"Prec@1": 74.0}, loss, self.tracker))
        self.assertFalse(record_validation_stats(values, loss))
        self.assertFalse(self.tracker.goal_reached)

    def test_validation_as_before_version_3(self):
        values, _ = self.round("7", 0, "fp32", transform_target_type=None, use_cuda=False, max_batch_per_epoch=1,
                               tracker=self.tracker)  # fmt: skip
        self.assertEqual(float(values["Prec@1"]), 100.0)
        self.assertTrue(self.tracker.goal_reached)
        self.assertIn({"val_global_Prec@1": 100.0}, self.values())
        with self.assertRaisesRegex(TypeError, "expected dtype, tracker"):
            self.round("fp32", tracer=self.tracker)

    def test_training_batches(self):
        output, target = self.loader[0]
        for i in range(27):
            values = compute_train_batch_metrics(output, target, self.metrics)
            record_train_batch_stats(i, 0.5, output, values, self.tracker, 27)
        record_train_batch_stats(0, 0.25, output, target, self.metrics, self.tracker, 27)
        losses = [one["train_loss"] for one in self.values() if "train_loss" in one]
        self.assertEqual(losses, [0.5, 0.5, 0.5, 0.25])  # of the batches 0, 25, 26, and 0
        data, target = prepare_batch(output, target, "fp64", transform_target_dtype=True)
        self.assertEqual((data.dtype, target.dtype), (torch.float64, torch.float64))
        with self.assertRaisesRegex(ValueError, "expected one of: fp16, fp32, fp64"):
            prepare_batch(output, target, "int8")


class CheckpointTest(unittest.TestCase):
    def parts(self, value, goal=None):
        model = model_of(value)
        optimizer = CentralizedSGD(world_size=1, model=model, lr=0.5, momentum=0.9)
        schedule = schedules.ReduceLROnPlateauWithWarmup(
            optimizer.optimizer, warmup_init_lr=1, scaled_lr=2, warmup_epochs=1
        )
        tracker = Tracker([metrics.TopKAccuracy(1)], "7", 0, goal=goal)
        self.addCleanup(tracker.close)
        return model, optimizer, schedule, tracker

    def save(self, folder, freq, rank=0, best=True, goal=task1_time_to_accuracy_goal):
        model, optimizer, schedule, tracker = self.parts(1.0 + rank, goal)
        give_gradient(model, 1)
        optimizer.step()
        schedule.step(0.5)
        tracker.validation()
        tracker.record_metric(tracker.metrics[0], 60)
        tracker.epoch_end()
        Checkpointer(folder, rank, freq).save(tracker, model, optimizer, schedule, tracker.current_epoch, best)
        return model, optimizer, schedule, tracker

    def test_a_script_goes_on(self):
        with tempfile.TemporaryDirectory() as folder:
            model, optimizer, schedule, tracker = self.save(folder, CheckpointFreq.ALL)
            self.assertEqual(sorted(os.listdir(folder)), ["1_0.json", "1_0.pth.tar", "model_best.pth.tar"])
            with open(os.path.join(folder, "1_0.json"), encoding="utf-8") as file:
                self.assertEqual(json.load(file)["best_metric_value"], 60)
            other = self.parts(0)
            checkpointer, loaded, with_momentum, with_rate, found = Checkpointer.load(folder, 0, *other[:3])
            self.assertEqual((checkpointer.freq, weights(loaded)), (CheckpointFreq.ALL, weights(model)))
            self.assertEqual(with_momentum.state_dict()["state"], optimizer.state_dict()["state"])
            self.assertEqual(with_rate.state_dict(), schedule.state_dict())
            self.assertEqual(found.state_dict(), tracker.state_dict())
            self.assertEqual((found.goal.target, found.metrics[0].name, found.run_id), (80, "Prec@1", "7"))
            found.validation()
            found.record_stat("global_Prec@1", 80)
            self.assertTrue(found.goal_reached)

    def test_the_goal_of_a_script(self):
        with tempfile.TemporaryDirectory() as folder:
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                self.save(folder, CheckpointFreq.ALL, goal=lambda name, value, tracker: None)
            self.assertIn("the goal of this tracker is the script's own", str(said[-1].message))
            *other, tracker = self.parts(0)
            self.assertIs(Checkpointer.load(folder, 0, *other, tracker=tracker)[4], tracker)
            self.assertEqual(tracker.best_metric_value, 60)

    def test_what_is_written(self):
        for freq, rank, best, expected in (
            (CheckpointFreq.BEST, 0, True, ["model_best.pth.tar"]),
            (CheckpointFreq.BEST, 0, False, []),
            (CheckpointFreq.BEST, 1, True, []),
            (CheckpointFreq.ALL, 1, True, ["1_1.pth.tar"]),
            (CheckpointFreq.NONE, 0, True, []),
        ):
            with tempfile.TemporaryDirectory() as folder:
                self.save(folder, freq, rank, best)
                self.assertEqual(sorted(os.listdir(folder)), sorted([*expected, "1_%d.json" % rank]))

    def test_only_checkpoints_are_deleted(self):
        with tempfile.TemporaryDirectory() as folder:
            self.save(folder, CheckpointFreq.ALL)
            os.makedirs(os.path.join(folder, "9_9.pth.tar"))
            for name in ("notes.txt", "1_0.json.part"):
                open(os.path.join(folder, name), "w", encoding="utf-8").close()
            config_path(folder, delete_existing_ckpts=True)
            self.assertEqual(sorted(os.listdir(folder)), ["1_0.json.part", "9_9.pth.tar", "notes.txt"])
            with self.assertRaisesRegex(FileNotFoundError, "there is no checkpoint"):
                Checkpointer.load(folder, 0, *self.parts(0)[:3])
            with self.assertRaises(FileNotFoundError):
                Checkpointer.checkpoint_exists(folder, 0, 1)

    def test_the_mean_model_of_each_epoch_is_evaluated(self):
        def work(rank, folder):
            for epoch in (1, 2):
                model = LogisticRegression(1)
                model.linear.weight.data.fill_((-1.0 if rank else 3.0) * (1 if epoch == 1 else -1))
                optimizer = torch.optim.SGD(model.parameters(), lr=1)
                schedule = schedules.TimeDecayLR(optimizer, beta=1)
                tracker = mlbench.Tracker([], "7", rank, environment={})
                Checkpointer(folder, rank, CheckpointFreq.ALL).save(tracker, model, optimizer, schedule, epoch, False)
            dist.barrier()
            flow = CheckpointsEvaluationControlFlow(
                folder, rank, 2, Checkpointer(folder, rank), LogisticRegression(1), 164, criterion.BCELossRegularized(),
                [metrics.TopKAccuracy(1)], dtype="fp32",
            )  # fmt: skip
            # Rank 0 has two rows, rank 1 one: the value is over all three.
            rows = [(torch.tensor([[1.0], [2.0]]), torch.tensor([[1], [1]]))] if rank == 0 else [
                (torch.tensor([[-1.0]]), torch.tensor([[1]]))]  # fmt: skip
            return flow.evaluate_by_epochs(rows)

        for stats in on_ranks(2, work):
            self.assertEqual([one["epoch"] for one in stats], [1, 2])
            self.assertAlmostEqual(stats[0]["Prec@1"], 200 / 3)
            self.assertAlmostEqual(stats[1]["Prec@1"], 100 / 3)
            loss = sum(math.log1p(math.exp(-x)) for x in (1, 2, -1)) / 3
            self.assertAlmostEqual(stats[0]["loss"], loss, places=5)


class BackendsTest(unittest.TestCase):
    def test_ranks_meet_and_part(self):
        def work(rank, folder):
            dist.destroy_process_group()
            os.environ["MASTER_ADDR"] = "127.0.0.1"
            os.environ["MASTER_PORT"] = str(port)
            log = os.path.join(folder, "log-%d" % rank)
            with initialize_backends("gloo", "a,b", rank, logging_file=log, seed=42, ckpt_run_dir=folder) as (
                own,
                world,
                graph,
            ):
                drawn = torch.rand(1).item(), random.random()
                names = own, world, str(graph), os.environ["WORLD_SIZE"]
            still = dist.is_initialized()
            dist.init_process_group("gloo", store=dist.FileStore(folder + "/second", 2), rank=rank, world_size=2)
            return names, drawn, still, os.path.exists(log)

        import socket

        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        first, second = on_ranks(2, work)
        self.assertEqual((first[0], second[0]), ((0, 2, "cpu", "2"), (1, 2, "cpu", "2")))
        self.assertEqual(first[1:], second[1:])
        self.assertEqual(first[2:], (False, True))

    def test_who_is_not_among_the_hosts(self):
        for hosts, rank, said in (("a,b", 2, "names the ranks 0 to 1"), (None, 0, "WORLD_SIZE is not set")):
            with self.assertRaisesRegex(ValueError, said):
                with initialize_backends("gloo", hosts, rank):
                    self.fail("the ranks met")

    def test_a_watch(self):
        watch = Timeit(5.0)
        watch.pause()
        seen = watch.cumu
        self.assertGreaterEqual(seen, 5.0)
        self.assertEqual(watch.cumu, seen)
        watch.resume()
        self.assertGreaterEqual(watch.cumu, seen)


if __name__ == "__main__":
    unittest.main()
