#!/usr/bin/env python3
"""What do coders and updates cost, on one core? Against limits, and beside PyTorch and memory:

    coders      power_sgd (rank 4), ef_sign and qsgd (4 and 8 bits) on the tensors of ResNet-50: at least as fast as the best
                variant of bench/coder_peer.py, both in one process with one thread
    selection   top_k chooses and packs 1 % of 10 million elements in 15 ms at most
    feedback    what error feedback adds to that: at most 1.3 of the time in which a triad moves its bytes. Read are the
                gradient and the memory, and the memory is written: so are the streams of a triad a += s * b.
    updates     each rule that is one pass: at least 0.9 of the speed of a triad with as many streams (update_bench)

    coder_pairs.py [--bin build/release/bin] [--python PYTHON] [--pairs 21] [--only REGEX] [--dry-run] [--output FILE]
    coder_pairs.py --table [--output FILE]            what is kept, as Markdown

Programs take turns: of a pair neither starts anew. A coder and its peer have to send as many bytes within 1 %, and to be as far
from the gradient in their first step. Writes the JSON. Exit code 0: all are met, 1: one is missed, 3: one is undecided, 2: one
could not be measured. Wants an idle machine. Without --python the peer is what bench/setup_peer.sh prints.
"""
import contextlib
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys

import pairs
import ratio

ROOT = pathlib.Path(__file__).resolve().parents[1]
STEPS, PASSES = 10, 9  # of a turn
ELEMENTS = 10_000_000
MOST_SELECTION_MS, MOST_FEEDBACK, LEAST_UPDATE = 15, 1.3, 0.9
SAME_BYTES, SAME_ERROR = 0.01, 10  # of the peer's; per mille of the gradient's norm
ABOUT_MIN = {"coder": 4, "selection": 0.5, "update": 0.5}  # on one core

# What coder_bench is told, and each variant of coder_peer.py.
CODERS = {
    "power_sgd": ("power_sgd --set rank=4 --ranks 1", ["power_sgd", "power_sgd --same-shapes"]),
    "ef_sign": ("ef_sign --ranks 2", ["ef_sign", "ef_sign --compile"]),
    "qsgd_4_bits": ("qsgd --set bits=4 --ranks 2", ["qsgd", "qsgd --compile"]),
    "qsgd_8_bits": ("qsgd --set bits=8 --ranks 1", ["quantized", "quantized --per-channel"]),
}
TOP_K = f"coder_bench --coder top_k --set share=0.01 --elements {ELEMENTS} --ranks 1 --steps {STEPS}"
SELECTION = {"without": f"{TOP_K} --set error_feedback=false", "with": f"{TOP_K} --set error_feedback=true",
             "triad": f"update_bench --rule sgd --elements {ELEMENTS} --passes {PASSES}"}
RULES = ("sgd", "momentum", "lion", "adam")


def words_of(given):
    """What a command's words stand for, as ratio.py takes them."""
    programs = {name: given.bin / name for name in ("coder_bench", "update_bench")}
    words = {"PYTHON": given.python, **programs, "bench/coder_peer.py": ROOT / "bench/coder_peer.py"}
    return [word for name, place in words.items() for word in ("--word", f"{name}={place}")]


def options_of(given, coder):
    """Of ratio.py."""
    ours, variants = CODERS[coder]
    peers = [f"PYTHON -B bench/coder_peer.py {variant} --steps {STEPS}" for variant in variants]
    return ratio.parse(["--ours", f"coder_bench --coder {ours} --steps {STEPS}",
                        *(word for peer in peers for word in ("--peer", peer)), "--key", "median_steps_per_s", "--turns",
                        "--limit", "1", "--pairs", str(given.pairs), *words_of(given)])


def check_same(coder, ours, peer):
    """Raises Failed where both did not do the same work."""
    if ours["elements"] != peer["elements"]:
        raise ratio.Failed(f"{coder}: {ours['elements']} elements, and the peer {peer['elements']}")
    if abs(ours["bytes"] / peer["bytes"] - 1) > SAME_BYTES:
        raise ratio.Failed(f"{coder}: {ours['bytes']} bytes, and the peer {peer['bytes']}")
    if abs(ours["error_per_mille"] - peer["error_per_mille"]) > SAME_ERROR:
        raise ratio.Failed(f"{coder}: {ours['error_per_mille']} per mille from the gradient, and the peer "
                           f"{peer['error_per_mille']}")


def coder_row(given, coder):
    compared = ratio.compare(options_of(given, coder))
    check_same(coder, compared["ours"]["settings"], compared["peer"]["settings"])
    return [{"what": f"{coder}, steps/s", **compared}]


def take_turns(given, commands):
    """({name: what the program says in each turn}, {name: what ran}); which program begins alternates."""
    options = ratio.parse(["--ours", "x", "--peer", "x", *words_of(given)])
    sides = {name: ratio.Side("", options) for name in commands}
    said = {name: [] for name in commands}
    with contextlib.ExitStack() as stack:
        programs = {name: stack.enter_context(ratio.Turns(sides[name], command)) for name, command in commands.items()}
        for number in range(given.pairs):
            for name in list(programs) if number % 2 == 0 else reversed(programs):
                said[name].append(programs[name].turn())
            ratio.say(f"pair {number + 1:3d}  {json.dumps({name: turns[-1] for name, turns in said.items()})}")
    return said, {name: side.settings for name, side in sides.items()}


def row_of(what, values, limit, verdict, **more):
    low, high = pairs.interval(values)
    return {"what": what, "ratio": statistics.median(values), "interval_95": [low, high], "limit": limit,
            "verdict": verdict(low, high, limit), "values": values, **more}


def judge_selection(said):
    """The rows of selection and of error feedback."""
    without, with_feedback = ([turn["encode_ms"] for turn in said[name]] for name in ("without", "with"))
    triad = [turn["triad_ms"] for turn in said["triad"]]
    more = [(ours - base) / bound for ours, base, bound in zip(with_feedback, without, triad, strict=True)]
    return [row_of("top 1 % of 10 million over 15 ms, ms", [ours / MOST_SELECTION_MS for ours in without], 1, pairs.at_most,
                   ours_median=statistics.median(without), peer_median=MOST_SELECTION_MS, without_ms=without),
            row_of("error feedback over its bytes / bandwidth, ms", more, MOST_FEEDBACK, pairs.at_most,
                   ours_median=statistics.median(with_feedback) - statistics.median(without),
                   peer_median=statistics.median(triad), with_ms=with_feedback, triad_ms=triad)]


def selection_rows(given):
    said, settings = take_turns(given, SELECTION)
    return [{**row, "settings": settings} for row in judge_selection(said)]


def update_row(given, rule):
    said, settings = take_turns(given, {rule: f"update_bench --rule {rule} --passes {PASSES}"})
    update, triad = ([turn[key] for turn in said[rule]] for key in ("update_ms", "triad_ms"))
    return [row_of(f"triad over update {rule}, ms", [bound / ours for ours, bound in zip(update, triad)], LEAST_UPDATE, pairs.verdict,
                   ours_median=statistics.median(update), peer_median=statistics.median(triad), update_ms=update, triad_ms=triad,
                   settings=settings[rule])]


def parts_of(given):
    """{name: (commands, about how many minutes, what measures its rows)}"""
    coders = {f"coder.{coder}": ([options_of(given, coder).ours, *options_of(given, coder).peer], ABOUT_MIN["coder"],
                                 lambda coder=coder: coder_row(given, coder)) for coder in CODERS}
    updates = {f"update.{rule}": ([f"update_bench --rule {rule} --passes {PASSES}"], ABOUT_MIN["update"],
                                  lambda rule=rule: update_row(given, rule)) for rule in RULES}
    parts = {**coders, "selection": (list(SELECTION.values()), ABOUT_MIN["selection"], lambda: selection_rows(given)), **updates}
    return {name: part for name, part in parts.items() if re.search(given.only, name)}


def table_of(document):
    return ratio.table("| | ours | beside | ratio | limit | |", (
        f"{row['what']} | {row['ours_median']:.2f} | {row['peer_median']:.2f} | "
        f"{ratio.with_interval(row['ratio'], row['interval_95'])} | {row['limit']:g} | {row['verdict']}"
        for row in document["rows"]))


def main():
    parser = ratio.parser_of(__doc__, "coder-pairs.json")
    parser.add_argument("--python", help="a Python with PyTorch (default: what bench/setup_peer.sh prints)")
    parser.add_argument("--pairs", type=int, default=21)
    parser.add_argument("--only", default="", metavar="REGEX", help="parts whose name it finds, e.g. '^update'")
    parser.add_argument("--dry-run", action="store_true", help="print the commands, and about how long they take")
    given = parser.parse_args()
    if given.table:
        return print(table_of(json.loads(given.output.read_text())))
    given.bin = given.bin.resolve()
    parts = parts_of(given)
    if given.dry_run:
        for name, (commands, minutes, _) in parts.items():
            print(*(f"{name:18}{command}" for command in commands), f"# about {minutes:g} min", sep="\n")
        return 0
    if not given.python and any(name.startswith("coder.") for name in parts):
        given.python = subprocess.run([ROOT / "bench/setup_peer.sh"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    document = {"date": ratio.now(), "machine": ratio.machine(), "instruction_set": ratio.instruction_set(),
                "load_before": os.getloadavg()[0], "pairs": given.pairs, "rows": []}
    try:
        for name, (_, _, measure) in parts.items():
            ratio.say(f"== {name}")
            document["rows"] += measure()
            ratio.write(given.output, document)
    except ratio.Failed as failure:
        ratio.say(f"coder_pairs.py: {failure}")
        return 2
    print(table_of(document))
    return ratio.exit_code_of(document["rows"])


if __name__ == "__main__":
    sys.exit(main())
