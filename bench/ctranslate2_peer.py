#!/usr/bin/env python3
"""Decoding beside CTranslate2: the same weights, sentences, beam and threads, float32 on both sides.

    ctranslate2_peer.py MODEL.safetensors --task TASK --cache FOLDER [--bin FOLDER] [--framework NAME] [--pairs N]
                        [--limit R] [--output FILE]

MODEL is of task 4b at any size (a checkpoint's model.safetensors); other models CTranslate2 does not have, GNMT among them.
TASK names a task or a file: beam, exponent, least length and size are its. The length penalty is |Y|^exponent on both sides,
the one that CTranslate2 has. --cache: the folder that `mlbench data prepare` made of the data
(vocabulary.txt and token files). Ours is bench/decode_bench of the build in --bin; CTranslate2 comes from
setup_wheels.sh, and the weights are converted by ctranslate2_model.py.

CTranslate2's threads share one batch, or each has batches of its own: the better way is chosen first, by the median of
3 runs of each in turn. Both sides sort the sentences by length and take --batch of them at once; loading and one batch to
warm up are not timed.
The words are those of ours in the vocabulary's sense, for both sides, so that seconds alone decide. Pairs are interleaved,
with the verdict of pairs.py over words per second. A translation is `tied` where the tokens differ and both sides' best
scores are equal to 1e-4: two hypotheses that each side weighs alike. Prints one JSON object. Exit code 0: met and no
sentence differs, 1: missed, or one does; 3: undecided; 2: could not be measured.
"""
import argparse
import array
import hashlib
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import tomllib

import pairs
import ratio
import torch_peer  # environment_of: cores, heap

HERE = pathlib.Path(__file__).resolve().parent
SHAPES = {"full": (6, 16), "small": (3, 4), "tiny": (2, 2)}  # layers of each side, heads
TIE = 1e-4  # relative
TRIALS = 3


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--task", default="4b", help="a name, or a task file")
    parser.add_argument("--size", choices=SHAPES, help="default: the task's")
    parser.add_argument("--cache", type=pathlib.Path, required=True)
    parser.add_argument("--split", default="test")
    parser.add_argument("--sentences", type=int, help="the first so many (default: all)")
    parser.add_argument("--bin", type=pathlib.Path, default=HERE.parent / "build/release/bin",
                        help="where decode_bench is")
    parser.add_argument("--batch", type=int, default=64, help="sentences at once")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--framework", default="torch", help="ours; native translates a batch with each thread")
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--limit", type=float, default=0.5, help="words per second of CTranslate2's")
    parser.add_argument("--output", type=pathlib.Path)
    return parser.parse_args()


def fail(text):
    print(f"ctranslate2_peer.py: {text}", file=sys.stderr)
    sys.exit(2)


def one_below(folder, name):
    found = sorted(folder.rglob(name))
    if len(found) != 1:
        fail(f"{folder}: {len(found)} files named {name}; expected one: give the folder of one data set")
    return found[0]


def read_sources(options):
    """Ids of each sentence, of a token file (src/mlbench/dataset/cached_tokens.h)."""
    path = one_below(options.cache, f"{options.split}.source.tokens")
    data = path.read_bytes()
    if data[:14] != b"mlbench tokens":
        fail(f"{path}: no token file")
    version, records, tokens, *_ = array.array("q", data[16:56])
    if version != 1:
        fail(f"{path}: token files of version {version}; expected 1")
    begin = 128 + (4 * tokens + 63) // 64 * 64
    ids = array.array("i", data[128:128 + 4 * tokens])
    offsets = array.array("q", data[begin:begin + 8 * (records + 1)])
    return [ids[offsets[i]:offsets[i + 1]].tolist() for i in range(records)][:options.sentences]


def word_counter(options):
    """Of a translation's ids, how many words they are: tokens that begin one, or (subwords) all of them."""
    path = one_below(options.cache, "vocabulary.txt")
    head, *tokens = path.read_text(encoding="utf-8").split("\n")
    kind = json.loads(head)["kind"]
    begins = {"pieces": lambda token: token.startswith("▁"), "marked": lambda token: not token.endswith("@@")}.get(kind)
    if begins is None:
        return lambda ids: len(ids), "tokens"
    counted = [begins(token) for token in tokens]
    return lambda ids: sum(counted[i] for i in ids if i < len(counted)), "words"


def task_of(options):
    path = pathlib.Path(options.task)
    if path.suffix != ".toml":
        path = HERE.parent / "tasks" / f"{options.task}.toml"
    task = tomllib.loads(path.read_text())
    if task["model"]["name"] != "transformer":
        fail(f"{path}: the model is {task['model']['name']}; CTranslate2 has the transformer alone of ours")
    return task


def compared(ours, theirs):
    """Counts of sentences; those that differ beyond ties, as (number, our score, theirs)."""
    tied, different = 0, []
    for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        if a["tokens"] == b["tokens"]:
            continue
        scores = a["score"], b["score"]
        if None not in scores and abs(scores[0] - scores[1]) <= TIE * max(1, *map(abs, scores)):
            tied += 1
        else:
            different.append((i, *scores))
    return {"sentences": len(ours), "tied": tied, "different": len(different), "first_different": different[:10]}


def main():
    options = parse()
    task = task_of(options)
    size = options.size or task["model"]["size"]
    layers, heads = SHAPES[size]
    python = subprocess.run([HERE / "setup_wheels.sh", "ctranslate2"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    count_words, unit = word_counter(options)
    cores = torch_peer.cores_of(0, argparse.Namespace(device="cpu", ranks=1, threads=options.threads))
    decode_bench = options.bin / "decode_bench"
    if not decode_bench.exists():
        fail(f"{decode_bench} is not there; give its folder with --bin, or build it: "
             "cmake --build --preset release --target decode_bench")
    with tempfile.TemporaryDirectory(prefix="mlbench-ctranslate2-") as folder:
        folder = pathlib.Path(folder)
        sources = folder / "sources"
        sources.write_text("".join(" ".join(map(str, ids)) + "\n" for ids in read_sources(options)))
        decoding = task["decoding"]
        settings = {"layers": layers, "heads": heads, "batch": options.batch, "beam": decoding["beam"],
                    "length_exponent": decoding["length_exponent"], "least_tokens": decoding.get("min_length", 0),
                    "most_tokens": 256}
        (folder / "settings.json").write_text(json.dumps(settings))
        model = [python, HERE / "ctranslate2_model.py"]
        subprocess.run([*model, "convert", options.model, folder / "settings.json", folder / "converted"], check=True)

        def run(command, name, **more):
            target = folder / f"{name}.jsonl"
            done = subprocess.run([*map(str, command), str(target)], stdout=subprocess.PIPE, text=True, check=True,
                                  timeout=3600, **more)
            return ratio.last_json(done.stdout), [json.loads(line) for line in target.read_text().splitlines()]

        def ours():
            # The program binds its threads itself.
            return run([decode_bench, "--framework", options.framework, "--task", options.task, "--size", size,
                        "--length-penalty", "power", "--model", options.model, "--sources", sources, "--batch",
                        options.batch, "--threads", options.threads, "--output"], "ours")

        def theirs(way):
            # Places bind the first thread of each batch to the same core: where there are several, the system places them.
            places = cores if way[0] == 1 else []
            return run([*model, "decode", folder / "converted", sources, folder / "settings.json", *way], "theirs",
                       env=torch_peer.environment_of(places, way[1]))

        ways = sorted({(1, options.threads), (options.threads, 1)})
        tried = {way: [] for way in ways}
        for _ in range(TRIALS):
            for way in ways:
                tried[way].append(theirs(way)[0]["seconds"])
        best = min(ways, key=lambda way: statistics.median(tried[way]))
        (first_ours, our_lines), (first_theirs, their_lines) = ours(), theirs(best)
        words = sum(count_words(line["tokens"]) for line in our_lines)
        speeds = pairs.measure(lambda: words / ours()[0]["seconds"], lambda: words / theirs(best)[0]["seconds"], options.pairs,
                               ratio.say)
    ratios = [a / b for a, b in zip(*speeds)]
    low, high = pairs.interval(ratios)
    verdict = pairs.verdict(low, high, options.limit)
    translations = compared(our_lines, their_lines)
    document = {"model_sha256": hashlib.sha256(options.model.read_bytes()).hexdigest(), "task": task["name"],
                "size": size, "beam": decoding["beam"],
                "length_penalty": "power", "length_exponent": decoding["length_exponent"], "precision": "float32",
                "threads": options.threads, "batch": options.batch, "pinned": bool(cores), "unit": unit, "counted": words,
                "ours": {"per_second": speeds[0], "median": statistics.median(speeds[0]), **first_ours},
                "ctranslate2": {"per_second": speeds[1], "median": statistics.median(speeds[1]), "batches_at_once": best[0],
                                "threads_of_a_batch": best[1], **first_theirs},
                "ratio": {"median": statistics.median(ratios), "interval": [low, high], "limit": options.limit,
                          "verdict": verdict, "pairs": ratios},
                "translations": translations, "machine": ratio.machine(), "measured_at": ratio.now()}
    print(json.dumps(document, indent=1))
    if options.output:
        ratio.write(options.output, document)
    sys.exit(1 if translations["different"] else ratio.EXIT_CODES[verdict])


if __name__ == "__main__":
    main()
