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
HEADER = struct.Struct("<8sIIQIIqI20x")
CELLS = {"u64": "Q", "i64": "q", "f64": "d"}
VERSION_1 = struct.Struct("<QQIIQddqQ" + "qqq" * (1 + len(KINDS)))


def read_version_1(data):
    for offset in range(HEADER.size, len(data) - VERSION_1.size + 1, VERSION_1.size):
        fields = VERSION_1.unpack_from(data, offset)
        sums = fields[9::3]  # of each (sum, min, max): total, then the kinds
        yield {"steps": fields[2], "samples": fields[4], "kinds": sums[1:]}


def read_version_2(data, header_bytes, columns):
    names = [struct.unpack_from("<24s8s", data, HEADER.size + 32 * i) for i in range(columns)]
    names = [(name.rstrip(b"\0").decode(), kind.rstrip(b"\0").decode()) for name, kind in names]
    fixed = [(name, CELLS[kind]) for name, kind in names if not kind.endswith("[]")]
    record = struct.Struct("<" + "".join(cell for _, cell in fixed))
    offset = header_bytes
    while offset + record.size <= len(data):
        row = dict(zip((name for name, _ in fixed), record.unpack_from(data, offset)))
        offset += record.size + 8 * row["count"] * (len(names) - len(fixed))
        if offset > len(data):
            break
        yield {"steps": row["count"], "samples": row["samples"], "kinds": [row[kind + "_ns"] for kind in KINDS]}


def read_steps(path):
    data = path.read_bytes()
    if not data:
        return []
    magic, version, header_bytes, *_, columns = HEADER.unpack_from(data)
    if magic != b"MLBSTEPS" or version not in (1, 2):
        sys.exit(f"rederive.py: {path}: not a spool of version 1 or 2")
    return list(read_version_1(data) if version == 1 else read_version_2(data, header_bytes, columns))


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
    train_ns = sum(kinds.values())
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
    equal = True
    for name, (ours, theirs) in derived.items():
        same = ours == theirs or (ours is not None and theirs is not None and abs(ours - theirs) <= 1e-9 * abs(ours))
        equal = equal and same
        print(f"{name:26} {ours!s:>22} {theirs!s:>22}  {'equal' if same else 'DIFFERENT'}")
    sys.exit(0 if equal else 1)


if __name__ == "__main__":
    main()
