"""What a home and archives of an earlier commit are to this build; home-19d7003.md says what lies in them.

What can be read is read with its figures. What cannot is refused by the rule of docs/record.md, which names the file, says what
it lacks and which program reads it. The home's store, too, is opened by a master.
"""

import json
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import urllib.error
import urllib.request
import zipfile

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "master"))
from serving import serving  # noqa: E402

RULE = "use the mlbench that wrote it"


def check(what, good, *details):
    if not good:
        sys.exit(" ".join(["FAILED:", what, *map(str, details)]))


def mlbench(home, *words):
    command = [os.environ["MLBENCH_TEST_MLBENCH"], *map(str, words), "--home", home]
    return subprocess.run(command, capture_output=True, text=True)


def answer(home, *words):
    done = mlbench(home, *words, "--json")
    check(f"mlbench {' '.join(map(str, words))}", done.returncode == 0, done.stderr)
    return json.loads(done.stdout)


def refused(home, *words, naming):
    done = mlbench(home, *words)
    check(f"mlbench {' '.join(map(str, words))} is refused with 2", done.returncode == 2, done.returncode, done.stderr)
    for text in (naming, RULE):
        check(f"the refusal says '{text}'", text in done.stderr, done.stderr)


def read(home, folder):
    """What command line and reports take from the home and from its archives."""
    runs = {run["name"]: run for run in answer(home, "status")}
    check("status has the runs with their states", {name: run["state"] for name, run in runs.items()}
          == {"finished-2": "finished", "failed-2": "failed", "script-1": "finished"}, runs.keys())
    check("a failed run says which rank it was", runs["failed-2"]["failure"]["rank"] == 1, runs["failed-2"]["failure"])
    check("the goal of a script is reached", answer(home, "status", "script-1")["goal"]["value"] == 81)
    check("notes are there", answer(home, "note", "finished-2")["description"] == "of an earlier commit")
    check("logs are shown", "fake worker, rank 1 of 2" in mlbench(home, "logs", "finished-2").stdout)
    for name, run in runs.items():
        archive = folder / f"{name}.zip"
        result = answer(home, "result", archive)
        check("the result is that of the run", (result["name"], result["workers"]) == (name, run["workers"]), result)
        answer(home, "download", name, "-o", folder / "again.zip")
        with zipfile.ZipFile(archive) as before, zipfile.ZipFile(folder / "again.zip") as now:
            lacks = set(before.namelist()) - set(now.namelist())
            # Lines of usage without the network are skipped.
            check(f"a download of {name} has what it had", all(member.endswith("_memory.json") for member in lacks), lacks)
    compared = answer(home, "compare", folder / "finished-2.zip", "finished-2")["runs"]
    rates = {run["samples_per_s"]["mean"] for run in compared}
    check("archive and run have the rate of the record", rates == {runs["finished-2"]["throughput"]["samples_per_s"]}, rates)
    for place in (folder / "finished-2.zip", home / "runs/finished-2"):
        drawn = answer(home, "charts", place, "-o", folder / "charts", "--format", "csv")
        check("charts are drawn", len(drawn["studies"]) == 1 and drawn["files"], drawn)


def served(home):
    with serving(home) as address:
        token = pathlib.Path(address["token_file"]).read_text().strip()

        def get(path):
            request = urllib.request.Request(address["url"] + path, headers={"Authorization": f"Bearer {token}"})
            try:
                with urllib.request.urlopen(request, timeout=60) as reply:
                    return reply.status, reply.read()
            except urllib.error.HTTPError as error:
                return error.code, error.read()

        check("REST lists the runs", json.loads(get("/api/v1/runs")[1])["total"] == 3)
        check("REST has a record", json.loads(get("/api/v1/runs/failed-2")[1])["state"] == "failed")
        check("REST packs an archive", get("/api/v1/runs/finished-2/download")[1].startswith(b"PK"))
        check("the page is there", b"<!doctype html>" in get("/")[1])
        status, said = get("/api/v1/runs/finished-2/series")
        check("charts of steps are refused by the rule", status == 400 and RULE.encode() in said, status, said)


def main():
    with tempfile.TemporaryDirectory() as name, tarfile.open(HERE / "home-19d7003.tar.xz") as archive:
        folder = pathlib.Path(name)
        archive.extractall(folder)
        home = folder / "home"
        read(home, folder)
        checkpoint = home / "runs/finished-2/checkpoints/step-000000020"
        refused(home, "evaluate", checkpoint, naming="spec.json: missing key 'identity'")
        served(home)


if __name__ == "__main__":
    main()
