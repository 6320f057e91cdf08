"""Where records go: a file in the run's folder, or the master. A record is one JSON line:

    {"rank": 0, "step": 25, "time": 1763720000.000456, "epoch": 0, "train_s": 1.25, "samples": 3200,
     "values": {"train_loss": 0.51}, "text": {"TaskResult": "80% Top 1 ..."}, "goal": {"metric": "Prec@1", ...}}

`time` is in seconds since 1970, and orders nothing: the order is that of the lines. `train_s` is the train clock, and
`samples` what log() was told on this rank, both since the beginning. `text` and `goal` are there only
when the goal was reached. What is no number (NaN) is null.
"""

import gzip
import http.client
import json
import logging
import math
import os
import queue
import ssl
import threading
import time
import urllib.parse

_log = logging.getLogger("mlbench")


class NullSink:
    """Without a run there is nobody to tell."""

    def write(self, record):
        pass

    def close(self, timeout=None):
        pass


class FileSink:
    """Appends to RUN_DIR/metrics/rank-R.jsonl; each record is handed to the kernel before write() returns."""

    def __init__(self, run_dir, rank):
        folder = os.path.join(run_dir, "metrics")
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, "rank-%d.jsonl" % rank)
        self._file = open(path, "ab", buffering=0)  # noqa: SIM115 (lives as long as the sink)

    def write(self, record):
        if self._file is not None:
            self._file.write(_line(record))

    def close(self, timeout=None):
        if self._file is not None:
            self._file.close()
            self._file = None


def _point(record):
    """What the master takes: numbers alone, the epoch as one of them."""
    point = {key: record[key] for key in ("rank", "step", "time") if key in record}
    point["values"] = dict(record["values"])
    if "epoch" in record:
        point["values"]["epoch"] = record["epoch"]
    return point


class _Busy(Exception):
    """The master may take the batch later."""


class _Refused(Exception):
    """The master never takes the batch."""


class HttpSink:
    """Posts batches to URL/api/v1/runs/RUN_ID/points from a thread of its own: write() never waits for the network.

    A batch is sent again until the master takes it: it knows by their sequences which records it has, so that one that
    arrives twice is counted once. Sequences go on behind the last that the master has of a rank, of whatever start of
    the script; an empty batch asks for it. When the master refuses a batch as wrong, or is away when the script ends,
    that is logged and the records are lost; training goes on in any case.
    """

    MOST_LINES = 5000
    MOST_WAITING = 1_000_000
    MOST_ANSWER_BYTES = 16_000_000

    def __init__(self, url, run_id, token, pause=0.25, timeout=10.0):
        parts = urllib.parse.urlsplit(url if "://" in url else "http://" + url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("MLBENCH_URL is '%s'; expected http://HOST:PORT or https://HOST:PORT" % url)
        self._parts = parts
        self._path = "%s/api/v1/runs/%s/points" % (parts.path.rstrip("/"), urllib.parse.quote(str(run_id), safe=""))
        self._token = token
        self._pause, self._timeout = pause, timeout
        self._waiting = queue.Queue(self.MOST_WAITING)
        self._closing = threading.Event()
        self._deadline = math.inf
        self._connection = None
        self._lost = 0
        self._last = None  # sequence of each rank, as the master names ranks
        self._thread = threading.Thread(target=self._run, name="mlbench", daemon=True)
        self._thread.start()

    def write(self, record):
        try:
            self._waiting.put_nowait(_point(record))
        except queue.Full:
            self._lose(1, "the master does not answer")

    def close(self, timeout=30.0):
        if not self._closing.is_set():
            self._deadline = time.monotonic() + (30.0 if timeout is None else timeout)
            self._closing.set()
            self._thread.join(max(0.0, self._deadline - time.monotonic()) + self._timeout)

    def _lose(self, count, why):
        if self._lost == 0:
            _log.warning("mlbench: records are lost: %s", why)
        self._lost += count

    def _run(self):
        while True:
            batch = self._take()
            if batch:
                self._send(batch)
            elif self._closing.is_set():
                self._disconnect()
                return

    def _take(self):
        batch = []
        try:
            batch.append(self._waiting.get(timeout=0.05 if self._closing.is_set() else self._pause))
            while len(batch) < self.MOST_LINES:
                batch.append(self._waiting.get_nowait())
        except queue.Empty:
            pass
        return batch

    def _send(self, batch):
        try:
            if self._last is None:
                self._last = dict(self._deliver([]).get("last_sequence") or {})
            for record in batch:
                rank = str(record.get("rank", 0))
                record["sequence"] = self._last[rank] = self._last.get(rank, 0) + 1
            self._deliver(batch)
        except _Refused as refused:
            self._lose(len(batch), str(refused))

    def _deliver(self, batch):
        """The master's answer once it has taken the batch. _Refused where it never will."""
        body = gzip.compress(b"".join(map(_line, batch)), compresslevel=1)
        wait = 0.1
        while True:
            try:
                return self._post(body)
            except _Busy as busy:
                if time.monotonic() + wait > self._deadline:
                    raise _Refused(str(busy)) from busy
            self._closing.wait(wait) if not self._closing.is_set() else time.sleep(wait)
            wait = min(wait * 2, 5.0)

    def _post(self, body):
        """The master's answer. _Busy where it may take the batch later, _Refused where it never will."""
        headers = {"Content-Type": "application/x-ndjson", "Content-Encoding": "gzip"}
        if self._token:
            headers["Authorization"] = "Bearer " + self._token
        try:
            if self._connection is None:
                self._connection = self._connect()
            self._connection.request("POST", self._path, body, headers)
            answer = self._connection.getresponse()
            text = answer.read(self.MOST_ANSWER_BYTES).decode("utf-8", "replace")
            if answer.will_close or answer.length:
                self._disconnect()
        except (OSError, http.client.HTTPException) as error:
            self._disconnect()
            raise _Busy(str(error)) from error
        if 200 <= answer.status < 300:
            try:
                return dict(json.loads(text))
            except (TypeError, ValueError) as error:
                raise _Refused("the master's answer is no JSON object: %.200s" % text) from error
        why = "the master answered %d: %.2000s" % (answer.status, text)
        raise _Busy(why) if answer.status in (408, 429) or answer.status >= 500 else _Refused(why)

    def _connect(self):
        host, port = self._parts.hostname, self._parts.port
        if self._parts.scheme == "https":
            context = ssl.create_default_context()
            return http.client.HTTPSConnection(host, port, timeout=self._timeout, context=context)
        return http.client.HTTPConnection(host, port, timeout=self._timeout)

    def _disconnect(self):
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _finite(value):
    """A record that is no JSON (NaN) would be refused with its whole batch: null stands for what is not finite."""
    if isinstance(value, dict):
        return {name: _finite(one) for name, one in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _line(record):
    return (json.dumps(_finite(record), separators=(",", ":"), allow_nan=False) + "\n").encode()


def sink_of(environment, run_id, rank):
    """The sink that the environment of a run names: the run's folder (the master reads it), else the master, else none."""
    run_dir = environment.get("MLBENCH_RUN_DIR", "")
    if run_dir:
        return FileSink(run_dir, rank)
    url = environment.get("MLBENCH_URL", "")
    if url:
        token, token_file = "", environment.get("MLBENCH_TOKEN_FILE", "")
        if token_file:
            with open(token_file, encoding="utf-8") as file:
                token = file.read().strip()
        return HttpSink(url, environment.get("MLBENCH_RUN_ID") or run_id, token)
    return NullSink()
