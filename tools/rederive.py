#!/usr/bin/env python3
"""Re-derives a run's clocks and throughput from its raw step records, without any of mlbench's code.

    rederive.py RUN_FOLDER

Reads RUN_FOLDER/spool/rank-R.seg-S.steps (layout: docs/record.md) and compares with RUN_FOLDER/run.json. Prints each
figure twice; exit code 0: all equal, 1: one differs.
"""
import json
import pathlib
import re
import struct
import sys

KINDS = ["batch_load", "init", "fwd_pass", "comp_loss", "backprop", "agg", "opt_step", "comp_metrics", "checkpoint"]
HEADER = struct.Struct("<8sIIQIIq24x")
RECORD = struct.Struct("<QQIIQddqQ" + "qqq" * (1 + len(KINDS)))


def read_steps(path):
    data = path.read_bytes()
    if not data:
        return []
    magic, version, record_bytes, *_ = HEADER.unpack_from(data)
    if (magic, version, record_bytes) != (b"MLBSTEPS", 1, RECORD.size):
        sys.exit(f"rederive.py: {path}: not a spool of version 1")
    whole = (len(data) - HEADER.size) // RECORD.size
    records = []
    for i in range(whole):
        fields = RECORD.unpack_from(data, HEADER.size + i * RECORD.size)
        sums = fields[9::3]  # of each (sum, min, max): total, then the kinds
        records.append({"steps": fields[2], "samples": fields[4], "total": sums[0], "kinds": sums[1:]})
    return records


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    run_dir = pathlib.Path(sys.argv[1])
    record = json.loads((run_dir / "run.json").read_text())
    ranks = {}
    for path in (run_dir / "spool").glob("rank-*.seg-*.steps"):
        rank = int(re.fullmatch(r"rank-(\d+)\.seg-\d+\.steps", path.name)[1])
        ranks.setdefault(rank, []).extend(read_steps(path))
    mine = ranks.get(0, [])
    kinds = {name: sum(one["kinds"][i] for one in mine) for i, name in enumerate(KINDS)}
    train_ns = sum(one["total"] for one in mine)
    samples = sum(one["samples"] for steps in ranks.values() for one in steps)
    derived = {
        "clocks.train_s": (train_ns / 1e9, record["clocks"]["train_s"]),
        "clocks.train_legacy_s": ((train_ns - kinds["batch_load"] - kinds["checkpoint"]) / 1e9,
                                  record["clocks"]["train_legacy_s"]),
        "throughput.steps": (sum(one["steps"] for one in mine), record["throughput"]["steps"]),
        "throughput.samples": (samples, record["throughput"]["samples"]),
        "throughput.samples_per_s": (samples / (train_ns / 1e9) if train_ns else None,
                                     record["throughput"]["samples_per_s"]),
    }
    for name in KINDS:
        derived[f"steps_s.{name}"] = (kinds[name] / 1e9, record["steps_s"][name])
    equal = sum(kinds.values()) == train_ns
    for name, (ours, theirs) in derived.items():
        same = ours == theirs or (ours is not None and theirs is not None and abs(ours - theirs) <= 1e-9 * abs(ours))
        equal = equal and same
        print(f"{name:26} {ours!s:>22} {theirs!s:>22}  {'equal' if same else 'DIFFERENT'}")
    sys.exit(0 if equal else 1)


if __name__ == "__main__":
    main()
