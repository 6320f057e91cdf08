from mlbench_core.utils.tracker import AverageMeter, Tracker

__all__ = ["AverageMeter", "Tracker"]
