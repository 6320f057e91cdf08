"""The client of MLBench's REST API, which `mlbench serve --legacy-api` answers."""

import concurrent.futures
import datetime
import os
import urllib.parse

import requests

MLBENCH_BACKENDS = ["MPI", "GLOO", "NCCL"]

_COMMAND = "/conda/bin/python /codes/main.py --run_id {run_id} --rank {rank} --hosts {hosts} --backend {backend}"

# What is displayed: (image, command, whether it can use a GPU).
MLBENCH_IMAGES = {
    "PyTorch Cifar-10 ResNet-20": ("mlbench/pytorch-cifar10-resnet20-all-reduce:latest", _COMMAND, True),
    "PyTorch Cifar-10 ResNet-20 (DDP)": ("mlbench/pytorch-cifar10-resnet20-ddp:latest", _COMMAND, True),
    "PyTorch Linear Logistic Regression": (
        "mlbench/pytorch-epsilon-logistic-regression-all-reduce:latest",
        _COMMAND,
        True,
    ),
    "PyTorch Language Modeling (AWD-LSTM)": ("mlbench/pytorch-wikitext2-lstm-all-reduce:latest", _COMMAND, True),
    "PyTorch Machine Translation GNMT": ("mlbench/pytorch-wmt16-gnmt-all-reduce:latest", _COMMAND, True),
    "PyTorch Machine Translation Transformer": ("mlbench/pytorch-wmt17-transformer-all-reduce:latest", _COMMAND, True),
    "Tensorflow Cifar-10 ResNet-20 Open-MPI": ("mlbench/tensorflow-cifar10-resnet:latest", _COMMAND, False),
    "PyTorch Distributed Backend benchmarking": ("mlbench/pytorch-backend-benchmark:latest", _COMMAND, True),
}

_SECONDS = 180


class ApiClient:
    """Each call returns a future of a requests.Response: `client.get_runs().result().json()`.

    `url` is HOST:PORT, with a path or a scheme where there is one. Without it the master is that of MLBENCH_URL, which
    a run has whose master can be reached, and the token that of MLBENCH_TOKEN_FILE. `token` is that of another master;
    only custom images need one. What mlbench_core looked up in Kubernetes (`in_cluster`, `label_selector`,
    `k8s_namespace`, `service_name`, `load_config`) is taken and not looked at.
    """

    def __init__(
        self,
        max_workers=5,
        in_cluster=True,
        label_selector=None,
        k8s_namespace=None,
        service_name=None,
        url=None,
        load_config=True,
        token="",
    ):
        if url is None:
            url = os.environ.get("MLBENCH_URL", "")
            if not url:
                raise ValueError('ApiClient: no master: give url="HOST:PORT", or set MLBENCH_URL')
            token = token or _token_of_environment()
        if "://" not in url:
            url = "http://" + url
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("ApiClient: url is %r; expected HOST:PORT, or http://HOST:PORT" % url)
        self.endpoint = url.rstrip("/") + "/api/"
        self.executor = concurrent.futures.ThreadPoolExecutor(max_workers=max_workers)
        self._headers = {"Authorization": "Bearer " + token} if token else {}

    # ---- metrics ----------------------------------------------------------------------------------------------------

    def get_all_metrics(self):
        return self._send("GET", "metrics/")

    def get_run_metrics(self, run_id, since=None, summarize=None, metric_filter=None, last_n=None):
        """Series of a run. `since`: a datetime, UTC where it has no zone; `summarize`: at most so many points of each
        series; `metric_filter`: this one alone; `last_n`: its last points."""
        return self._metrics(run_id, "run", since, summarize, metric_filter=metric_filter, last_n=last_n)

    def get_pod_metrics(self, pod_id, since=None, summarize=None):
        return self._metrics(pod_id, "pod", since, summarize)

    def download_run_metrics(self, run_id, since=None, summarize=None):
        """The archive of a run: `.result().content` is a zip file."""
        return self._metrics(run_id, "run", since, summarize, format="zip")

    def post_metric(self, run_id, name, value, cumulative=False, metadata="", date=None):
        """Stores a value of a run. `date`: a datetime, UTC where it has no zone; default: now."""
        fields = {
            "run_id": run_id,
            "name": name,
            "cumulative": str(bool(cumulative)),
            "date": _utc(date or datetime.datetime.now(datetime.timezone.utc)),
            "value": str(value),
            "metadata": metadata,
        }
        return self._send("POST", "metrics/", data=fields)

    # ---- runs -------------------------------------------------------------------------------------------------------

    def get_runs(self):
        return self._send("GET", "runs/")

    def get_run(self, run_id):
        return self._send("GET", "runs/%s/" % _quoted(run_id))

    def delete_run(self, run_id):
        return self._send("DELETE", "runs/%s/" % _quoted(run_id))

    def get_worker_pods(self):
        return self._send("GET", "pods/")

    def create_run(
        self,
        name,
        num_workers,
        num_cpus=2.0,
        max_bandwidth=1000,
        image=None,
        backend=None,
        custom_image_name=None,
        custom_image_command=None,
        custom_backend=None,
        run_all_nodes=False,
        gpu_enabled=False,
        light_target=False,
    ):
        """Starts a run of an image: a key of MLBENCH_IMAGES, or custom_image_name with its command. The back end is one
        of MLBENCH_BACKENDS, or custom_backend."""
        fields = {
            "name": name,
            "num_workers": num_workers,
            "num_cpus": num_cpus,
            "max_bandwidth": max_bandwidth,
            "gpu_enabled": _truth(gpu_enabled),
            "light_target": _truth(light_target),
            "run_all_nodes": _truth(run_all_nodes),
        }
        if custom_image_name is not None:
            fields["image_name"] = "custom_image"
            fields["custom_image_name"] = custom_image_name
            fields["custom_image_command"] = custom_image_command
        elif image in MLBENCH_IMAGES:
            fields["image_name"] = MLBENCH_IMAGES[image][0]
        else:
            raise ValueError("create_run: image is %r; expected one of: %s" % (image, ", ".join(MLBENCH_IMAGES)))
        if (backend is None) == (custom_backend is None):
            raise ValueError("create_run: expected either backend or custom_backend")
        if custom_backend is not None:
            fields["backend"] = "custom_backend"
            fields["custom_backend"] = custom_backend
        elif backend.upper() in MLBENCH_BACKENDS:
            fields["backend"] = backend.upper()
        else:
            raise ValueError("create_run: backend is %r; expected one of: %s" % (backend, ", ".join(MLBENCH_BACKENDS)))
        return self._send("POST", "runs/", data=fields)

    # ---- within -----------------------------------------------------------------------------------------------------

    def _metrics(self, key, metric_type, since, summarize, **more):
        wanted = {"metric_type": metric_type, "since": _utc(since), "summarize": summarize, **more}
        present = {name: value for name, value in wanted.items() if value is not None}
        return self._send("GET", "metrics/%s/" % _quoted(key), params=present)

    def _send(self, method, path, **content):
        url = self.endpoint + path
        return self.executor.submit(requests.request, method, url, headers=self._headers, timeout=_SECONDS, **content)


def _token_of_environment():
    path = os.environ.get("MLBENCH_TOKEN_FILE", "")
    if not path:
        return ""
    with open(path, encoding="utf-8") as file:
        return file.read().strip()


def _quoted(key):
    return urllib.parse.quote(str(key), safe="")


def _truth(value):
    return "true" if value else "false"


def _utc(date):
    """As the API spells a date; a text is taken as it is."""
    if date is None or isinstance(date, str):
        return date
    if date.tzinfo is not None:
        date = date.astimezone(datetime.timezone.utc).replace(tzinfo=None)
    return date.isoformat(timespec="microseconds") + "Z"
