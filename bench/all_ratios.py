#!/usr/bin/env python3
"""The speed ratios that docs/ quotes: measured one after the other by ratio.py, kept in docs/results/ratios/, as a table.

    all_ratios.py [--only REGEX] [--dry-run] [--choose-again]    measures; wants an idle machine
    all_ratios.py --table                                        what is kept, as Markdown
    all_ratios.py --check                                        does what is kept, and its page, follow from the pairs?

The rule is that of ratio.py: 21 pairs, and variants of the peer that are chosen once for a model, precision and ranks x
threads. Data are made ones; mlbench and the peer bind their threads to the same cores. A limit is for a kind of processor
(other, avx2, avx512, amx), which is part of a file's name, so that those of another machine stay.
"""
import argparse
import dataclasses
import itertools
import json
import os
import pathlib
import re
import shlex
import statistics
import subprocess
import sys

import ratio

ROOT = pathlib.Path(__file__).resolve().parents[1]
RESULTS = pathlib.Path("docs/results/ratios")
CHOICES = RESULTS / "choices.json"
PAGE = pathlib.Path("docs/results/ratios.md")
PAIRS, CHOOSE = 21, 3
LAYOUTS = ("--layout nchw", "--layout nhwc")
KERNELS = ("", "--fused")
COMPILED = ("", "--compile")
WARM_UP = 5
SAME_LIBRARY = 0.97  # lower end where both sides have one library's kernels, which are to be as fast: pairs alone differ more
KINDS = list(ratio.INSTRUCTION_SETS)
IDLE = 0.5  # load average of a minute that an idle machine stays below


def join(*words):
    return " ".join(word for word in words if word)


def all_of(*options):
    return [join(*chosen) for chosen in itertools.product(*options)]


@dataclasses.dataclass
class Task:
    steps: int  # of a run on 1 rank, those to warm up included
    variants: list[str]
    seconds: tuple[float, float]  # of a run of ours and of the peer, about, on two cores with AVX-512
    whole_set: bool = False  # shuffled rows of it: one batch alone would lie in the cache


TASKS = {
    "1a": Task(15, all_of(LAYOUTS, KERNELS, COMPILED), (5, 8)),
    "mnist": Task(40, all_of(LAYOUTS, KERNELS, COMPILED), (4, 7)),
    "fashion-mnist": Task(40, all_of(LAYOUTS, KERNELS, COMPILED), (4, 7)),
    "2a": Task(6250, all_of(KERNELS, COMPILED), (9, 10), whole_set=True),  # 2 epochs
}


@dataclasses.dataclass
class Ratio:
    name: str  # of its files in RESULTS, less the kind of processor
    limits: float | dict[str, float]  # by kind, from which on each counts; a number is for all
    ours: str
    peers: list[str]
    configuration: str  # for which the best of several peers is chosen
    seconds: tuple[float, float]
    key: str = "median_samples_per_s"
    turns: bool = False  # both stay, for their start takes longer than what is measured
    timeout: int = 600  # seconds; a variant of the peer that takes longer is left out
    setup: str = "bench/setup_peer.sh"  # prints the peer's Python
    lower_end: float | None = None  # of the interval, where it may be below the limit that the median reaches
    faster_than: str = ""  # the limit counts only where the peer is faster than in the ratio of this name

    def limit_on(self, kind):
        limits = self.limits if isinstance(self.limits, dict) else {"other": self.limits}
        return [limits[one] for one in KINDS[:KINDS.index(kind) + 1] if one in limits][-1]

    def file_on(self, kind):
        return RESULTS / f"{self.name}-{kind}.json"

    def command(self, python, choose_again, kind):
        several = len(self.peers) > 1
        return ["bench/ratio.py", "--ours", self.ours, *(word for peer in self.peers for word in ("--peer", peer)),
                *(["--key", self.key] if self.key != Ratio.key else []), *(["--turns"] if self.turns else []),
                *(["--timeout", str(self.timeout)] if self.timeout != Ratio.timeout else []),
                "--limit", str(self.limit_on(kind)),
                *(["--lower-end", str(self.lower_end)] if self.lower_end else []),
                "--pairs", str(PAIRS), "--choose", str(CHOOSE), "--python", python,
                *(["--choices", str(CHOICES), "--configuration", self.configuration] if several else []),
                *(["--choose-again"] if several and choose_again else []),
                "--output", str(self.file_on(kind))]

    def minutes(self, choosing):
        """About. What is compiled takes half a minute more, once."""
        ours, peer = self.seconds
        start = 30 * self.turns
        first = sum(start + CHOOSE * peer + 30 * ("compile" in command) for command in self.peers) if choosing else 0
        return (first + 2 * start + PAIRS * (ours + peer)) / 60


def run_of(task, framework, precision, ranks, threads, options="", fixed_batch=True):
    of = TASKS[task]
    return join(f"bench/fresh_run.sh {ranks} --task {task} --framework {framework} --threads-per-worker {threads}",
                f"--synthetic --max-steps {of.steps // ranks if of.whole_set else of.steps}",
                "--fixed-batch" if fixed_batch and not of.whole_set else "",
                f"--set precision={precision}" if precision != "float32" else "", options)


def peers_of(task, precision, ranks, threads, options=""):
    of = TASKS[task]
    steps = of.steps // ranks if of.whole_set else of.steps
    return [join(f"PYTHON bench/torch_peer.py --task {task} --ranks {ranks} --threads {threads} --warm-up {WARM_UP}",
                 f"--steps {steps - WARM_UP}", "--amp" if precision == "bf16" else "", options, variant)
            for variant in of.variants]


def beside_pytorch(task, precision, at, framework, limits, special="", options="", peer_options="", **more):
    """`special` names what `options` of ours and `peer_options` bring about."""
    cores = [int(number) for number in at.split("x")]
    return Ratio("-".join(filter(None, (task, precision, at, framework, special))), limits,
                 run_of(task, framework, precision, *cores, options), peers_of(task, precision, *cores, peer_options),
                 join(task, precision, at, peer_options), TASKS[task].seconds, **more)


def beside_keras(at, special="", options=""):
    """Framework tensorflow beside the same library in Python."""
    ranks, threads = (int(number) for number in at.split("x"))
    counts = f"--ranks {ranks} --threads {threads} --warm-up {WARM_UP} --steps {TASKS['1a'].steps - WARM_UP}"
    variants = all_of(("", "--fused-norm"), ("", "--jit-compile"), ("", "--inter-op 2"))
    return Ratio("-".join(filter(None, ("1a-float32", at, "tensorflow", special))), 0.98,
                 run_of("1a", "tensorflow", "float32", ranks, threads, options),
                 [join("PYTHON bench/keras_peer.py --task 1a", counts, variant) for variant in variants],
                 f"1a float32 {at} keras", (6, 15), setup="bench/setup_wheels.sh keras")


def with_input(task, precision, at, framework):
    """Decoding and augmentation beside the same program's fixed batch."""
    cores = [int(number) for number in at.split("x")]
    fixed, pipeline = (run_of(task, framework, precision, *cores, fixed_batch=fixed) for fixed in (True, False))
    return Ratio(f"{task}-{precision}-{at}-{framework}-input", 0.95, pipeline, [fixed], "", TASKS[task].seconds[:1] * 2)


def text(model, precision, framework, limits):
    """Full-size models of text, target tokens without padding per second."""
    ours = (f"build/release/bin/step_bench --framework {framework} --threads 2 --precision {precision} "
            f"--model {model} --steps 1")
    peers = [join(f"PYTHON bench/text_peer.py speed {model} --threads 2 --steps 1",
                  "--amp" if precision == "bf16" else "", variant)
             for variant in ("", "--unbound", "--fused", "--compile", "--fused --compile")]
    return Ratio(f"{model}-{precision}-1x2-{framework}", limits, ours, peers, f"{model} {precision} 1x2", (4, 6),
                 "median_tokens_per_s", turns=True, timeout=900)


def of_imagenet(model, pixels, precision, framework):
    """Networks for images of 224 x 224 pixels on 16 of them."""
    counts = f"--threads 2 --batch 16 --pixels {pixels} --warm-up 2 --steps 5"
    ours = f"build/release/bin/step_bench --framework {framework} --precision {precision} --model {model} {counts}"
    peers = [join(f"PYTHON bench/torch_peer.py --task {model} {counts}", "--amp" if precision == "bf16" else "", variant)
             for variant in all_of(LAYOUTS, KERNELS, COMPILED)]
    seconds = {"resnet50": (15, 20), "vgg16": (50, 60)}[model]
    limit, lower_end = (1.0, SAME_LIBRARY) if framework == "torch" else ({"resnet50": 1.3, "vgg16": 1.1}[model], None)
    return Ratio(f"{model}-{pixels}-{precision}-1x2-{framework}", limit, ours, peers, f"{model} {pixels} {precision} 1x2",
                 tuple(pixels**2 / 224**2 * one + 5 for one in seconds), lower_end=lower_end,
                 # Where PyTorch's own bfloat16 is no faster than its float32, nobody would train in it.
                 faster_than=f"{model}-{pixels}-float32-1x2-{framework}" if precision == "bf16" else "")


# At least so many times the peer's rate, by kind of processor: what bounds a step differs between kinds.
IMAGES = 1.45  # 1a with ranks or threads on two cores; oneDNN's direct convolutions alone allow about 1.5
SMALL_BATCH = 1.5  # the same on 32 samples
KERNELS_5X5 = 1.5  # or 0.9 of the floor where that is less, which is not measured yet
BF16_IMAGES = {"other": 1.3, "amx": 3.0}  # AMX is made for products in bfloat16
TEXT = {"awd-lstm": {"other": 1.2, "avx512": 1.4}, "gnmt": {"other": 1.5, "avx512": 1.6}, "transformer": 1.4}
TEXT_BY_TORCH = {"awd-lstm": 1.4, "gnmt": 1.5, "transformer": 1.2}
BF16_TEXT = {"native": {"other": 1.6, "amx": 2.0}, "torch": 1.6}

RATIOS = [
    *(beside_pytorch("1a", "float32", at, "torch", 1.0, lower_end=SAME_LIBRARY) for at in ("1x1", "1x2", "2x1")),
    *(beside_pytorch("1a", "float32", at, "native", limit) for at, limit in (("1x1", 1.3), ("1x2", IMAGES), ("2x1", IMAGES))),
    *(beside_keras(at) for at in ("1x1", "1x2", "2x1")),
    *(beside_keras("2x1", backend, f"--backend {backend}") for backend in ("mpi", "shm")),
    *(beside_pytorch(task, "float32", at, framework, limit) for task in ("mnist", "fashion-mnist")
      for framework, limit in (("torch", 1.0), ("native", KERNELS_5X5)) for at in ("1x1", "1x2", "2x1")),
    *(beside_pytorch("2a", "float32", at, "torch", 1.0) for at in ("1x1", "1x2", "2x1")),
    *(beside_pytorch("2a", "float32", at, "native", limit) for at, limit in (("1x1", 1.0), ("1x2", 6.0), ("2x1", 5.0))),
    beside_pytorch("2a", "float32", "2x1", "native", 8.0, "mpi", options="--backend mpi"),
    beside_pytorch("1a", "float32", "1x2", "native", SMALL_BATCH, "2018", options="--rules 2018", peer_options="--batch 32"),
    *(beside_pytorch("1a", "bf16", at, "native", BF16_IMAGES) for at in ("1x2", "2x1")),
    *(with_input(task, "float32", at, "torch") for task in ("1a", "fashion-mnist") for at in ("1x2", "2x1")),
    *(with_input("1a", precision, "1x2", "native") for precision in ("float32", "bf16")),
    *(text(model, "float32", framework, limits[model]) for framework, limits in (("torch", TEXT_BY_TORCH), ("native", TEXT))
      for model in TEXT),
    *(of_imagenet(model, pixels, precision, framework) for model in ("resnet50", "vgg16") for pixels in (64, 224)
      for precision in ("float32", "bf16") for framework in ("torch", "native")),
    *(text(model, "bf16", framework, limits) for framework, limits in sorted(BF16_TEXT.items(), reverse=True) for model in TEXT),
]


def kind_of_old(result):
    """Of a file whose name lacks the kind of processor: the first such sitting was on Zen 4, the later one without AVX-512."""
    return "avx512" if result["begin"] < "2026-11-24" else "avx2"


def kept(chosen):
    """{(name, kind of processor): what ratio.py wrote}, in the order of the list. Files from before 2026-11-30 lack the kind,
    and those from before 2026-11-28 say onednn for native; a newer file of that kind counts before them."""
    found = {}
    for one in chosen:
        for name in (one.name.replace("native", "onednn"), one.name):
            file = ROOT / RESULTS / f"{name}.json"
            if file.exists():
                result = json.loads(file.read_text())
                found[one.name, kind_of_old(result)] = result
        found |= {(one.name, kind): json.loads((ROOT / one.file_on(kind)).read_text())
                  for kind in KINDS if (ROOT / one.file_on(kind)).exists()}
    return found


BY_NAME = {one.name: one for one in RATIOS}


def variant_of(result):
    command = result["peer"]["command"]
    if "_peer.py" not in command:
        return "fixed batch"
    return join("Keras" if "keras_peer.py" in command else "PyTorch",
                *re.findall(r"(?<=--layout )\w+|--unbound|--fused(?:-norm)?|--(?:jit-)?compile|--inter-op \d+", command))


def judged(results, name, kind):
    """(figures by the limit that counts now, that limit in words). What a file says is by the limit of its day."""
    one, result = BY_NAME[name], results[name, kind]
    limit = one.limit_on(kind)
    figures = ratio.figures(result["ours"]["values"], result["peer"]["values"], limit, one.lower_end)
    if one.faster_than:
        other = results.get((one.faster_than, kind))
        if other is None:
            figures["verdict"] = "undecided"
        elif statistics.median(other["peer"]["values"]) >= figures["peer_median"]:
            figures["verdict"] = "no limit"
    return figures, f"{limit:g}" + (f", lower end {one.lower_end:g}" if one.lower_end else "")


def table(results):
    lines = ["| task | precision | ranks x threads | framework | processor | ours | beside | ratio | 95 % interval | limit "
             "| verdict |", "|---|---|---|---|---|---|---|---|---|---|---|"]
    for (name, kind), result in results.items():
        task, precision, at, framework = re.fullmatch(r"(.+)-(float32|bf16)-(\d+x\d+)-(.+)", name).groups()
        figures, limit = judged(results, name, kind)
        low, high = figures["interval_95"]
        cells = [task, precision, at.replace("x", " x "), framework, kind, f"{figures['ours_median']:,.0f}",
                 f"{figures['peer_median']:,.0f}, {variant_of(result)}", f"{figures['ratio']:.2f}",
                 f"{low:.2f} to {high:.2f}", limit, figures["verdict"]]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def complaints(results, page):
    """What does not follow from the pairs that are kept."""
    for (name, kind), result in results.items():
        ours, peer = result["ours"], result["peer"]
        figures = ratio.figures(ours["values"], peer["values"], result["limit"], result.get("lower_end"))
        if result.get("instruction_set", kind) != kind:
            yield f"{name}: a file for {kind} holds what was measured on {result['instruction_set']}"
        if figures != {key: result[key] for key in figures}:
            yield f"{name}: the pairs give {figures}"
        if len(ours["values"]) != PAIRS:
            yield f"{name}: {len(ours['values'])} pairs instead of {PAIRS}"
        if choice := result["choice"]:
            if peer["command"] != ratio.best(choice["measured"]):
                yield f"{name}: another variant of the peer than the best"
            yield from (f"{name}: {len(values)} of {CHOOSE} runs of {variant}"
                        for variant, values in choice["measured"].items() if len(values) != CHOOSE)
            yield from (f"{name}: left out without a reason: {variant}"
                        for variant, reason in choice.get("left_out", {}).items() if not reason)
        if "dirty" in ours["settings"].get("commit", ""):
            yield f"{name}: ours was built from sources that no commit holds"
    rows = set(table(results)[2:])
    quoted = {line for line in page.splitlines() if re.search(r"\| (met|missed|undecided|no limit) \|$", line)}
    yield from (f"{PAGE} lacks: {row}" for row in sorted(rows - quoted))
    yield from (f"{PAGE} says what nothing shows: {row}" for row in sorted(quoted - rows))


def check():
    results, page = kept(RATIOS), ROOT / PAGE
    found = list(complaints(results, page.read_text() if page.exists() else ""))
    print("\n".join([*found, f"{len(results)} ratios, {len(found)} complaints"]))
    return 1 if found else 0


def plan(chosen, pythons, choose_again, kind):
    """[(ratio, its command, minutes)]: the variants of a configuration are chosen by the first ratio that needs them.
    `pythons` has what the set-up scripts print, `kind` is that of the processor."""
    known = set() if choose_again or not (ROOT / CHOICES).exists() else set(json.loads((ROOT / CHOICES).read_text()))
    steps = []
    for one in chosen:
        choosing = len(one.peers) > 1 and one.configuration not in known
        steps.append((one, one.command(pythons[one.setup], choosing and choose_again, kind), one.minutes(choosing)))
        known.add(one.configuration)
    return steps


def measure(steps):
    failed = []
    for one, command, minutes in steps:
        ratio.say(f"== {one.name}, about {minutes:.0f} min")
        code = subprocess.run([sys.executable, *command], cwd=ROOT, stdout=subprocess.DEVNULL).returncode
        if code not in ratio.EXIT_CODES.values():
            failed.append(one.name)
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="REGEX", help="ratios whose name it finds, e.g. '^2a.*-1x2-'")
    parser.add_argument("--dry-run", action="store_true", help="print the commands, and about how long they take")
    parser.add_argument("--choose-again", action="store_true", help="the peer's variants, whatever is kept")
    parser.add_argument("--busy", action="store_true", help="measure although others use the machine")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    if options.check:
        return check()
    chosen, kind = [one for one in RATIOS if re.search(options.only, one.name)], ratio.instruction_set()
    if options.table:
        print("\n".join(table(kept(chosen))))
        return 0
    if options.dry_run:
        steps = plan(chosen, dict.fromkeys((one.setup for one in chosen), "PYTHON"), options.choose_again, kind)
        for _, command, minutes in steps:
            print(f"{shlex.join(command)}  # {minutes:.0f} min")
        print(f"# {len(steps)} ratios, about {sum(minutes for _, _, minutes in steps):.0f} min")
        print("# PYTHON: what bench/setup_peer.sh prints; for keras_peer.py, bench/setup_wheels.sh keras")
        return 0
    if os.getloadavg()[0] > IDLE and not options.busy:
        sys.exit(f"all_ratios.py: others use this machine (load {os.getloadavg()[0]:.2f}): --busy measures nevertheless")
    pythons = {script: subprocess.run(script.split(), cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
               for script in {one.setup for one in chosen}}
    steps = plan(chosen, pythons, options.choose_again, kind)
    ratio.say(f"{len(steps)} ratios, about {sum(minutes for _, _, minutes in steps):.0f} min")
    failed = measure(steps)
    print("\n".join(table(kept(chosen))))
    return f"all_ratios.py: not measured: {', '.join(failed)}" if failed else 0


if __name__ == "__main__":
    sys.exit(main())
