"""`GET /metrics` of a master with a running run, and the board of Grafana over it.

usage: prometheus_test.py board|prometheus FAKE_WORKER

board       every metric that the board and docs/monitoring.md name is one of the master's, and the other way round
prometheus  Debian's Prometheus takes the metrics, by the configuration in docs/monitoring.md, and answers every query
            of the board; it reads the rule there, too
"""

import contextlib
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

from serving import serving

SOURCES = pathlib.Path(os.environ["MLBENCH_TEST_SOURCE_DIR"])
BOARD = SOURCES / "deploy/grafana/mlbench.json"
PAGE = SOURCES / "docs/monitoring.md"
PATIENCE_S = 120
NAME = re.compile(r"\bmlbench_[a-z_]+")
TOOLS = ("promtool", "prometheus")
# The ranks of this test do not say where they end.
WITHOUT_SAMPLES = "mlbench_run_steps_expected"


def check(what, good, *details):
    if not good:
        sys.exit(" ".join(["FAILED:", what, *map(str, details)]))


def eventually(what, condition):
    """What the condition returns as soon as that is true."""
    end = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        check(what, time.monotonic() < end)
        time.sleep(0.2)
    return found


def answer(url, token=None, body=None, kind="application/json"):
    """The answer's text; None where it is an error or there is none."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(url, data=body, headers={**headers, "Content-Type": kind})
    try:
        with urllib.request.urlopen(request, timeout=30) as reply:
            return reply.read().decode()
    except urllib.error.URLError:
        return None


def queries():
    """The expressions of the board's panels, without Grafana's variables."""
    found = []
    for panel in json.loads(BOARD.read_text(encoding="utf-8"))["panels"]:
        for target in panel["targets"]:
            found.append(target["expr"].replace("$__rate_interval", "1m"))
    return [re.sub(r"\$(instance|task|run)\b", ".*", query) for query in found]


def blocks():
    return re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


@contextlib.contextmanager
def running_run(folder, worker):
    """Yields the master's URL and token while a run of two ranks goes on that has steps, an evaluation and odd names."""
    environment = dict(
        os.environ, MLBENCH_CORE_LOCK=f"{folder}/cores", MLBENCH_WORKER=worker, FAKE_STEPS="1000000", FAKE_STEP_MS="20"
    )
    with serving(f"{folder}/home", "--stop-runs", "60s", environment=environment) as address:
        token = pathlib.Path(address["token_file"]).read_text(encoding="utf-8").strip()
        url = address["url"]
        run = {"name": "odd.name", "workers": [2], "task": "fashion-mnist", "synthetic": True}
        check("the run", answer(f"{url}/api/v1/runs", token, json.dumps(run).encode()))
        values = {"val_global_Prec@1": 81.5, 'val_global_a"b\\c': 1, "val_global_x\u202ey": 2}
        point = json.dumps({"rank": 0, "sequence": 1, "step": 3, "time": time.time(), "values": values}).encode()
        posted = answer(f"{url}/api/v1/runs/odd.name-2/points", token, point, "application/x-ndjson")
        check("its evaluation", posted)
        eventually("steps", lambda: "mlbench_run_wait_ratio{" in metrics(url, token))
        yield url, token


def metrics(url, token):
    return answer(f"{url}/metrics", token) or ""


def test_board(folder, worker):
    with running_run(folder, worker) as (url, token):
        text = metrics(url, token)
        joules = (json.loads(answer(f"{url}/api/v1/runs/odd.name-2", token))["energy"] or {}).get("joules")
        eventually("the run's end", lambda: answer(f"{url}/api/v1/runs/odd.name-2/stop", token, b"") is not None)
        eventually("no figure of an ended run", lambda: 'run="odd' not in metrics(url, token))
    given = set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE))
    asked = set(NAME.findall(" ".join(queries())))
    variables = json.loads(BOARD.read_text(encoding="utf-8"))["templating"]["list"]
    asked |= set(NAME.findall(json.dumps(variables)))
    check("the board asks for what there is", asked and asked <= given, asked - given)
    explained = set(NAME.findall(PAGE.read_text(encoding="utf-8")))
    check("the page explains what there is", explained == given, explained ^ given)
    labels = 'run="odd.name-2",task="fashion-mnist",framework="torch",backend="gloo",workers="2"'
    for line in (
        f"mlbench_run_restarts{{{labels}}} 0",
        f'mlbench_run_evaluation{{{labels},metric="Prec@1"}} 81.5',
        f'mlbench_run_evaluation{{{labels},metric="a\\"b\\\\c"}} 1',
    ):
        check("a line", line in text.splitlines(), line, text)
    check("a name that reorders text", "\u202e" not in text and "u202e" not in text, text)
    energy = re.search(rf"^mlbench_run_energy_joules{{{re.escape(labels)}}} (\S+)$", text, re.MULTILINE)
    check("energy where there is a meter", (energy is None) == (joules is None), energy, joules)
    rate = re.search(rf"^mlbench_run_samples_per_second{{{re.escape(labels)}}} (\S+)$", text, re.MULTILINE)
    check("throughput", rate and 100 < float(rate[1]) < 10_001, rate)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@contextlib.contextmanager
def prometheus(folder, url, token_file):
    configuration = blocks()[0].replace("15s", "1s").replace("/etc/prometheus/mlbench-token", str(token_file))
    configuration = configuration.replace("127.0.0.1:8080", url.removeprefix("http://"))
    path = pathlib.Path(folder, "prometheus.yml")
    path.write_text(configuration, encoding="utf-8")
    subprocess.run(["promtool", "check", "config", path], check=True)
    own = f"127.0.0.1:{free_port()}"
    arguments = [f"--config.file={path}", f"--storage.tsdb.path={folder}/tsdb", f"--web.listen-address={own}"]
    with open(f"{folder}/prometheus.log", "wb") as log:
        process = subprocess.Popen(["prometheus", *arguments], stdout=log, stderr=log, cwd=folder)
    try:
        yield f"http://{own}"
    finally:
        process.terminate()
        process.wait()


def test_prometheus(folder, worker):
    rules = pathlib.Path(folder, "rules.yml")
    rules.write_text(blocks()[1], encoding="utf-8")
    subprocess.run(["promtool", "check", "rules", rules], check=True)
    with running_run(folder, worker) as (url, token):
        text = metrics(url, token)
        checked = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False)
        check("promtool check metrics", checked.returncode == 0, checked.stdout, checked.stderr)
        with prometheus(folder, url, f"{folder}/home/token") as server:
            for query in queries():

                def result(text=query):
                    found = answer(f"{server}/api/v1/query?" + urllib.parse.urlencode({"query": text}))
                    return found and json.loads(found)["data"]["result"]

                if WITHOUT_SAMPLES in query:
                    check("a query", result() == [], query)
                else:
                    eventually(query, result)


def main():
    which, worker = sys.argv[1:]
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if which == "prometheus" and missing:
        print(f"SKIPPED: missing capability: {', '.join(missing)} (tools/setup.sh test)")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        {"board": test_board, "prometheus": test_prometheus}[which](folder, worker)


if __name__ == "__main__":
    main()
