"""What MLBench's own clients do, with the library that they use: every request as its ApiClient sends it, every answer
looked at field by field. Started by serve_test.cpp with the URL of a master that has one finished run, seen-2."""

import datetime
import io
import json
import re
import sys
import time
import zipfile

import requests

base = sys.argv[1] + "/api/"
failures = []


def check(what, condition, seen=None):
    if not condition:
        failures.append(what)
        print("FAILED:", what, "" if seen is None else repr(seen)[:600])


def get(path, **params):
    return requests.get(base + path, params=params, timeout=60)


RUN_FIELDS = {"id": int, "name": str, "created_at": str, "state": str, "job_id": str, "job_metadata": dict, "num_workers": int}
DATE = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?Z$")

# ---- discovery, both slash forms, formats
index = get("").json()
check("index", index == {name: base + name + "/" for name in ("pods", "runs", "metrics")}, index)
for path in ("pods", "runs", "metrics"):
    for form in (path, path + "/", path + ".json", path + "/?format=json"):
        check(form, get(form).status_code == 200)
check("unknown format", get("runs/", format="xml").status_code == 404)
check("compact", b": " not in get("runs/").content)
wrong = requests.put(base + "runs/", timeout=60)
check("405", wrong.status_code == 405 and "GET" in wrong.headers["Allow"], wrong.text)

# ---- pods
pods = get("pods/").json()
check("there are pods", len(pods) >= 1)
for pod in pods:
    check("pod fields", set(pod) == {"name", "labels", "phase", "ip"} and all(isinstance(v, str) for v in pod.values()), pod)
    check("labels are Python's text", pod["labels"].startswith("{'"), pod)
    check("phase", pod["phase"] in ("Pending", "Running"), pod)

# ---- runs
runs = get("runs/").json()
deadline = time.monotonic() + 60
while not runs[0]["finished_at"] and time.monotonic() < deadline:  # lists follow the folders by a moment
    time.sleep(0.05)
    runs = get("runs/").json()
check("one run", [run["name"] for run in runs] == ["seen-2"], runs)
run = runs[0]
for field, kind in RUN_FIELDS.items():
    check("type of " + field, type(run[field]) is kind, run)
check("exactly these fields", set(run) == set(RUN_FIELDS) | {"finished_at"}, run)
check("list has no metadata", run["job_metadata"] == {})
check("dates", DATE.match(run["created_at"]) and DATE.match(run["finished_at"]), run)
check("state", run["state"] == "finished" and run["num_workers"] == 2)
for form in ("runs/%d", "runs/%d/", "runs/%d.json"):
    one = get(form % run["id"]).json()
    check("one run", {k: one[k] for k in one if k != "job_metadata"} == {k: run[k] for k in run if k != "job_metadata"}, one)
    check("its logs", one["job_metadata"]["stdout"] == [] and "fake worker, rank 0 of 2" in one["job_metadata"]["stderr"],
          one["job_metadata"])
    check("its pods", all(len(pod) == 4 for pod in one["job_metadata"]["pods"]), one)
for path in ("runs/999/", "runs/abc/", "metrics/999/?metric_type=run", "metrics/no-such-pod/"):
    missing = get(path)
    check("404 with a message: " + path, missing.status_code == 404 and missing.json()["message"], missing.text)

# ---- metrics: what ApiClient.post_metric sends
key = str(run["id"])
# Whole seconds, and later than the end of the run, whose archive then holds none of them.
start = datetime.datetime.utcnow().replace(microsecond=0) + datetime.timedelta(seconds=2)
for i in range(10):
    reply = requests.post(base + "metrics/", timeout=180, data={
        "run_id": key, "name": "train_loss @ 7", "cumulative": str(i % 2 == 1),
        "date": str(start + datetime.timedelta(seconds=i, microseconds=250000 if i else 0)),
        "value": str(i * 0.5), "metadata": "{rank: 7, epoch:1}" if i else ""})
    check("created", reply.status_code == 201, reply.text)
    metric = reply.json()
    check("fields", set(metric) == {"name", "value", "date", "metadata", "cumulative"}, metric)
    check("value is text", metric["value"] == str(i * 0.5), metric)
    check("six digits", metric["date"].endswith(".250000Z" if i else ".000000Z"), metric)
    check("cumulative", metric["cumulative"] is (i % 2 == 1), metric)
as_json = requests.post(base + "metrics/", timeout=180, json={
    "run_id": run["id"], "name": "by json", "cumulative": False, "date": "2021-05-05T01:02:03Z", "value": 1.5, "metadata": ""})
check("JSON body", as_json.status_code == 201 and as_json.json()["value"] == "1.5", as_json.text)
multipart = requests.post(base + "metrics/", timeout=180, files={k: (None, v) for k, v in {
    "run_id": key, "name": "by multipart", "cumulative": "True", "date": "2021-05-05 01:02:03", "value": "x y", "metadata": ""}.items()})
check("multipart body", multipart.status_code == 201 and multipart.json()["value"] == "x y", multipart.text)
no_run = requests.post(base + "metrics", timeout=180, data={"name": "x"})
check("400 without run_id", no_run.status_code == 400 and no_run.json()["message"] == "Run ID has to be supplied"
      and no_run.json()["status"] == "Bad Request", no_run.text)
good = {"run_id": key, "name": "n", "value": "1", "date": "2021-05-05 01:02:03", "metadata": "", "cumulative": "True"}
for change, status in (({"run_id": "999"}, 404), ({"run_id": "x"}, 400), ({"date": "never"}, 400), ({"cumulative": "perhaps"}, 400),
                       ({"name": "n" * 51}, 400), ({"value": "v" * 256}, 400), ({"metadata": None}, 400)):
    reply = requests.post(base + "metrics/", timeout=180, data={k: v for k, v in {**good, **change}.items() if v is not None})
    check("refused: %s" % change, reply.status_code == status and reply.json()["message"], reply.text)
check("415", requests.post(base + "metrics/", data="x", headers={"Content-Type": "text/plain"}, timeout=60).status_code == 415)
check("broken JSON", requests.post(base + "metrics/", data="{", headers={"Content-Type": "application/json"}, timeout=60).status_code == 400)

# ---- metrics: what ApiClient.get_run_metrics sends
series = get("metrics/" + key, metric_type="run").json()
check("ours and posted ones", {"train_loss @ 0", "train_loss @ 1", "train_loss @ 7", "backprop @ 0"} <= set(series), sorted(series))
for name, points in series.items():
    for point in points:
        check("point of " + name, set(point) == {"date", "value", "cumulative"} and isinstance(point["value"], str)
              and DATE.match(point["date"]) and isinstance(point["cumulative"], bool), point)
    check("ascending " + name, [p["date"][:19] for p in points] == sorted(p["date"][:19] for p in points))
posted = series["train_loss @ 7"]
check("first date without fraction", "." not in posted[0]["date"] and posted[1]["date"].endswith(".250000Z"), posted[:2])
last = get("metrics/" + key, metric_type="run", metric_filter="train_loss @ 7", last_n=1).json()
check("filter and last_n", list(last) == ["train_loss @ 7"] and [p["value"] for p in last["train_loss @ 7"]] == ["4.5"], last)
check("nothing is {}", get("metrics/" + key, metric_type="run", metric_filter="none").json() == {})
summary = get("metrics/" + key, metric_type="run", metric_filter="train_loss @ 7", summarize=4).json()["train_loss @ 7"]
check("means, incomplete group dropped", [p["value"] for p in summary] == ["0.5", "2.0", "3.5"], summary)
check("first date of a group", summary[1]["date"] == posted[3]["date"])
for spelling in ((start + datetime.timedelta(seconds=5)).strftime("%Y-%m-%dT%H:%M:%S.000Z"), str(start + datetime.timedelta(seconds=5))):
    recent = get("metrics/" + key, metric_type="run", metric_filter="train_loss @ 7", since=spelling).json()
    check("since " + spelling, len(recent["train_loss @ 7"]) == 5, recent)
check("bad since", get("metrics/" + key, metric_type="run", since="yesterday").status_code == 400)
everything = get("metrics/").json()
check("all metrics", set(everything) == {"pod_metrics", "run_metrics"} and "seen-2" in everything["run_metrics"], list(everything))
full = everything["run_metrics"]["seen-2"]["train_loss @ 7"][1]
check("full metric", full == {"name": "train_loss @ 7", "value": "0.5", "date": posted[1]["date"],
                              "metadata": "{rank: 7, epoch:1}", "cumulative": True}, full)

# ---- the archive
for form in (dict(params={"metric_type": "run", "format": "zip"}, url=base + "metrics/" + key),
             dict(params={"metric_type": "run"}, url=base + "metrics/%s.zip" % key)):
    archive = requests.get(timeout=60, **form)
    check("type of the archive", archive.headers["Content-Type"] == "application/octet-stream", archive.headers)
    check("its name", archive.headers["content-disposition"] == "attachment; filename=metrics_seen-2.zip", archive.headers)
    members = zipfile.ZipFile(io.BytesIO(archive.content))
    check("no damage", members.testzip() is None)
    names = members.namelist()
    check("members", "result_train_loss @ 0.json" in names and "result_backprop @ 1.json" in names, names)
    check("only what belongs in it", all(n.startswith("result_") or n == "official_result.txt" or n.split("_")[0] in
                                         [pod["name"] for pod in pods] for n in names), names)
    check("outside of the run's time", "result_by json.json" not in names and "result_train_loss @ 7.json" not in names, names)
    text = members.read("result_train_loss @ 0.json").decode()
    points = json.loads(text)
    check("four blanks", text.startswith('[\n    {\n        "date": "'), text[:40])
    check("milliseconds", all(re.match(r"^[-0-9T:]{19}(\.\d{3})?Z$", p["date"]) for p in points), points[:2])
    check("keys", all(set(p) == {"date", "value", "cumulative"} for p in points))


def members_of_pod(**params):
    return zipfile.ZipFile(io.BytesIO(get("metrics/%s.zip" % pods[0]["name"], **params).content)).namelist()


deadline = time.monotonic() + 60
while not members_of_pod() and time.monotonic() < deadline:  # the host's first figures come after two seconds
    time.sleep(0.05)
check("a pod's archive", members_of_pod())
check("since of a pod's archive", members_of_pod(since="2100-01-01T00:00:00.000Z") == [])

# ---- runs: what ApiClient.create_run sends
fields = {"name": "refused", "num_workers": "1", "num_cpus": "1.0", "max_bandwidth": "1000", "gpu_enabled": "false",
          "light_target": "true", "run_all_nodes": "false", "backend": "GLOO",
          "image_name": "mlbench/pytorch-epsilon-logistic-regression-all-reduce:latest"}
for change, status, word in (
        ({"name": "a_b"}, 400, "name"), ({"name": ""}, 400, "name"), ({"name": None}, 400, "name"), ({"name": "-a"}, 400, "name"),
        ({"num_workers": "x"}, 400, "num_workers"), ({"num_workers": "0"}, 400, "num_workers"), ({"num_cpus": None}, 400, "num_cpus"),
        ({"backend": None}, 400, "backend"), ({"light_target": None}, 400, "light_target"), ({"image_name": "x/y:z"}, 422, "valid: "),
        ({"image_name": "custom_image", "custom_image_name": "a", "custom_image_command": "b"}, 422, "custom"),
        ({"image_name": "mlbench/pytorch-wmt16-gnmt-all-reduce:latest"}, 422, "data set wmt16 not found"), ({"backend": "NCCL"}, 422, "nccl"),
        ({"gpu_enabled": "true"}, 422, "GPU"),
        ({"image_name": "mlbench/pytorch-backend-benchmark:latest"}, 422, "light_target true: task 0a")):
    reply = requests.post(base + "runs/", timeout=60, data={k: v for k, v in {**fields, **change}.items() if v is not None})
    check("refused: %s" % change, reply.status_code == status and word in reply.json()["message"], (reply.status_code, reply.text))
check("nothing was started", len(get("runs/").json()) == 1)

# ---- deletion
check("delete", requests.delete(base + "runs/" + key, timeout=60).status_code == 204)
check("gone", get("runs/").json() == [] and get("runs/" + key).status_code == 404)
check("delete twice", requests.delete(base + "runs/" + key, timeout=60).status_code == 404)

if failures:
    sys.exit("%d of the checks failed" % len(failures))
print("all checks passed")
