"""What helm makes of the chart, beside this file as golden/*.json, so that it can be looked at where there is no helm.

usage: rendered_chart.py          writes golden/ anew; needs helm, and a Python with yaml (python3-yaml)
"""

import hashlib
import json
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
CHART = HERE.parents[1] / "deploy/helm/mlbench"
GOLDEN = HERE / "golden"
RELEASE, NAMESPACE = "bench", "lab"
VARIANTS = {"default": [], "full": ["--values", str(HERE / "full_values.yaml")]}
# What the master may do in its namespace: group, resource, verb. Each is a request that the executor makes.
RIGHTS = {("batch", "jobs", verb) for verb in ("create", "get", "patch", "delete")} | {
    ("", "pods", "list"), ("", "events", "list"), ("", "services", "create"), ("", "services", "get"),
    ("", "secrets", "create")}
PARSE = "import json, sys, yaml; json.dump([one for one in yaml.safe_load_all(sys.stdin) if one], sys.stdout)"


def chart_sha256():
    """Of all that the rendering depends on."""
    files = [CHART / "Chart.yaml", CHART / "values.yaml", HERE / "full_values.yaml", *CHART.glob("templates/*")]
    digest = hashlib.sha256()
    for file in sorted(file for file in files if file.name != "NOTES.txt"):
        digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()


def documents(text):
    """Of YAML. Debian's Python has the module; the one on the PATH may be another."""
    for python in ("/usr/bin/python3", sys.executable):
        done = subprocess.run([python, "-c", PARSE], input=text, capture_output=True, text=True, timeout=60)
        if done.returncode == 0:
            return json.loads(done.stdout)
    raise RuntimeError(f"no Python with yaml (python3-yaml): {done.stderr}")


def canonical(objects):
    """In one order, without the token, which is another each time."""
    for one in objects:
        if one["kind"] == "Secret" and "token" in one.get("data", {}):
            one["data"]["token"] = "MADE"
    return sorted(objects, key=lambda one: (one["kind"], one["metadata"]["name"]))


def render(variant, helm="helm"):
    words = [helm, "template", RELEASE, str(CHART), "--namespace", NAMESPACE, *VARIANTS[variant]]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr}")
    return canonical(documents(done.stdout))


def golden(variant):
    return json.loads((GOLDEN / f"{variant}.json").read_text())


def write(variant, objects):
    GOLDEN.mkdir(exist_ok=True)
    content = {"chart_sha256": chart_sha256(), "objects": objects}
    (GOLDEN / f"{variant}.json").write_text(json.dumps(content, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    if shutil.which("helm") is None:
        sys.exit("there is no helm: put that of tools/setup.sh kube into the PATH")
    for name in VARIANTS:
        write(name, render(name))
