"""Checkpoints of a script, which hold plain data alone: reading one runs no code of its file."""

import enum
import json
import os
import re
import types
import warnings

import mlbench
import torch

from mlbench_core.utils.tracker import Tracker


class CheckpointFreq(enum.IntEnum):
    ALL = 1
    BEST = 2
    NONE = 3


class Checkpointer:
    """Writes EPOCH_RANK.pth.tar after each epoch (ALL), and model_best.pth.tar of rank 0 after the best (ALL, BEST).
    With `save_stats` also EPOCH_RANK.json: times, counts and means of the tracker."""

    def __init__(self, ckpt_run_dir, rank, freq=CheckpointFreq.BEST, save_stats=True):
        self.dirname, self.rank, self.freq, self.save_stats = ckpt_run_dir, rank, CheckpointFreq(freq), save_stats

    def save(self, tracker, model, optimizer, scheduler, epoch, is_best):
        name = "%d_%d" % (epoch, self.rank)
        if self.save_stats:
            with _replacing(os.path.join(self.dirname, name + ".json")) as path:
                with open(path, "w", encoding="utf-8") as file:
                    json.dump(tracker.state_dict(), file)
        best = is_best and self.rank == 0
        if self.freq == CheckpointFreq.NONE or (self.freq == CheckpointFreq.BEST and not best):
            return
        state = {
            "tracker": _packed(_tracker_state(tracker)),
            "model": model.state_dict(),
            "optimizer": _packed(optimizer.state_dict()),
            "scheduler": _packed(scheduler.state_dict()),
            "freq": int(self.freq),
        }
        names = [name + ".pth.tar"] if self.freq == CheckpointFreq.ALL else []
        for file in [*names, *(["model_best.pth.tar"] if best else [])]:
            with _replacing(os.path.join(self.dirname, file)) as path:
                torch.save(state, path)

    @staticmethod
    def load(ckpt_run_dir, rank, model, optimizer, scheduler, tracker=None):
        """Puts the newest checkpoint of the rank into what is given. Returns (checkpointer, model, optimizer,
        scheduler, tracker). A tracker that is not given is made anew: with a goal of mlbench_core, and with no
        other."""
        epochs = _epochs(ckpt_run_dir, rank)
        state = _read(ckpt_run_dir, rank, epochs[-1] if epochs else 0)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(_unpacked(state["optimizer"]))
        scheduler.load_state_dict(_unpacked(state["scheduler"]))
        saved = _unpacked(state["tracker"])
        if tracker is None:
            tracker = _made_tracker(saved)
        tracker.load_state_dict(saved["state"])
        return Checkpointer(ckpt_run_dir, rank, state["freq"]), model, optimizer, scheduler, tracker

    @staticmethod
    def load_model_by_epoch(ckpt_run_dir, rank, epoch, model):
        """Puts the model of that epoch into the one that is given, and returns it."""
        model.load_state_dict(_read(ckpt_run_dir, rank, epoch)["model"])
        return model

    @staticmethod
    def checkpoint_exists(ckpt_run_dir, rank, epoch):
        """FileNotFoundError where it does not."""
        _path(ckpt_run_dir, rank, epoch)


def saved_epochs(ckpt_run_dir, rank):
    """The epochs of which this rank has a checkpoint, in order."""
    return _epochs(ckpt_run_dir, rank)


def _epochs(folder, rank):
    found = (re.fullmatch(r"(\d+)_%d\.pth\.tar" % rank, name) for name in os.listdir(folder))
    return sorted(int(match[1]) for match in found if match)


def _path(folder, rank, epoch):
    path = os.path.join(folder, "%d_%d.pth.tar" % (epoch, rank))
    if not os.path.isfile(path):
        raise FileNotFoundError("there is no checkpoint %s of rank %d" % (path, rank))
    return path


def _read(folder, rank, epoch):
    return torch.load(_path(folder, rank, epoch), map_location="cpu", weights_only=True)


_FLOAT = "a float, in hexadecimal digits"


def _packed(state):
    """Without a float: PyTorch 1.13 refuses floats in files that may run no code."""
    if isinstance(state, float):
        return {_FLOAT: state.hex()}
    if isinstance(state, dict):
        return {key: _packed(value) for key, value in state.items()}
    return type(state)(map(_packed, state)) if isinstance(state, (list, tuple)) else state


def _unpacked(state):
    if isinstance(state, dict):
        if list(state) == [_FLOAT]:
            return float.fromhex(state[_FLOAT])
        return {key: _unpacked(value) for key, value in state.items()}
    return type(state)(map(_unpacked, state)) if isinstance(state, (list, tuple)) else state


class _replacing:
    """A path beside the given one, which takes its place when all went well: no half a file is ever read."""

    def __init__(self, path):
        self._path, self._written = path, "%s.%d.part" % (path, os.getpid())

    def __enter__(self):
        return self._written

    def __exit__(self, failure, *more):
        if failure is None:
            os.replace(self._written, self._path)
        elif os.path.exists(self._written):
            os.unlink(self._written)


_GOALS = {
    "Prec@1": mlbench.goals.time_to_accuracy_goal,
    "Perplexity": mlbench.goals.time_to_perplexity_goal,
    "BLEU-Score": mlbench.goals.time_to_bleu_goal,
}


def _tracker_state(tracker):
    goal = None
    if getattr(tracker.goal, "metric", None) in _GOALS:
        goal = [tracker.goal.metric, tracker.goal.target]
    elif tracker.goal is not None:
        warnings.warn("the goal of this tracker is the script's own: load() needs the argument tracker", stacklevel=3)
    return {
        "state": tracker.state_dict(),
        "run_id": tracker.run_id,
        "rank": tracker.rank,
        "minimize": tracker.minimize,
        "metrics": [metric.name for metric in tracker.metrics],
        "goal": goal,
    }


def _made_tracker(saved):
    goal = _GOALS[saved["goal"][0]](saved["goal"][1]) if saved["goal"] else None
    metrics = [types.SimpleNamespace(name=name) for name in saved["metrics"]]
    return Tracker(metrics, saved["run_id"], saved["rank"], goal, minimize=saved["minimize"])
