#!/usr/bin/env python3
"""Copies what a page of docs/results quotes of a run: its record and, compressed, its spools.

usage: keep_result.py RUN_FOLDER DEST      DEST: docs/results/TASK/NAME

Hosts lose name and addresses. Refused: a run that has not finished, one of a build with uncommitted changes, one whose
record does not follow from its spools (rederive.py), and files that still name its machine or its folder.
"""
import json
import lzma
import pathlib
import shutil
import subprocess
import sys
import tempfile


def refuse(reason):
    sys.exit(f"keep_result.py: {reason}")


def without_machine(record):
    for host in record["hosts"]:
        host["name"], host["addresses"] = "host", []
    for place in record.get("placement") or []:
        place["host"] = "host"
    for host in (record.get("energy") or {}).get("hosts", []):
        host["host"] = "host"
    return record


def check_record(record):
    if record["state"] != "finished":
        refuse(f"the run is {record['state']}, not finished")
    if record["environment"]["git_describe"].endswith("-dirty"):
        refuse(f"its build is {record['environment']['git_describe']}: commit, build and run again")


def keep(run, folder, record, secrets):
    """Fills `folder`."""
    contents = {"run.json": (json.dumps(without_machine(record), indent=1, ensure_ascii=False) + "\n").encode()}
    for path in sorted((run / "spool").glob("rank-*.seg-*.*")):
        contents[f"spool/{path.name}"] = path.read_bytes()
    for name, data in contents.items():
        for secret in secrets:
            if secret.encode() in data:
                refuse(f"{name} holds '{secret}'")
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name == "run.json":
            path.write_bytes(data)
        else:
            path.with_name(path.name + ".xz").write_bytes(lzma.compress(data, preset=9 | lzma.PRESET_EXTREME))


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    run, dest = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
    if dest.exists():
        refuse(f"{dest} exists already")
    record = json.loads((run / "run.json").read_text())
    check_record(record)
    secrets = {str(run.parent), *(host["name"] for host in record["hosts"] if len(host["name"]) > 2)} - {"localhost"}
    with tempfile.TemporaryDirectory() as made:
        folder = pathlib.Path(made) / run.name
        keep(run, folder, record, secrets)
        rederive = pathlib.Path(__file__).with_name("rederive.py")
        if subprocess.run([sys.executable, rederive, folder], check=False).returncode:
            refuse("the record does not follow from the spools")
        dest.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(folder, dest)
    print(f"{dest}: {sum(path.stat().st_size for path in dest.rglob('*') if path.is_file())} bytes")


if __name__ == "__main__":
    main()
