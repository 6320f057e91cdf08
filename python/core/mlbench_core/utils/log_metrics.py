"""Values that a script reports without a Tracker."""

import atexit
import os
import time

from mlbench.sink import sink_of

_sinks = {}


def sink_for(run_id, rank):
    """Where the records of a rank go: one sink for the Tracker and LogMetrics, since a master counts a rank's
    records."""
    key = (str(run_id), int(rank))
    if key not in _sinks:
        _sinks[key] = sink_of(os.environ, run_id, int(rank))
        atexit.register(_sinks[key].close)
    return _sinks[key]


def forget_sink(run_id, rank):
    """To be called when the sink was closed."""
    _sinks.pop((str(run_id), int(rank)), None)


class LogMetrics:
    @staticmethod
    def log(run_id, rank, epoch, metric_name, value):
        """Reports a number or a text under the name. Without a run nothing happens."""
        record = {"rank": int(rank), "step": 0, "time": time.time_ns() / 1e9, "epoch": int(epoch), "values": {}}
        if isinstance(value, str):
            record["text"] = {metric_name: value}
        else:
            record["values"] = {metric_name: float(value.item() if hasattr(value, "item") else value)}
        sink_for(run_id, rank).write(record)
