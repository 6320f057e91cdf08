"""Does this build compute the same as another one, and as fast? What every change of a seam has to show.

    same.py bits  [--only REGEX] [--steps 50]
    same.py speed [--only REGEX] [--pairs 21] [--limit 0.97] [--output FILE]

Ours is the program named by MLBENCH_TEST_MLBENCH; MLBENCH_OTHER_BUILD is the folder that holds the other one's programs
(`./test.sh same` builds the commit before). Real data from MLBENCH_DATA_DIR where they are, else made ones, which is said.

bits    weights_sha256 after some steps, for each task x workers x framework x precision x back end.
        Where one build alone has --convolution, the other one computes direct convolutions, and so does that one here.
speed   pairs on one fixed batch, for 1a and 2a x workers x framework. Fails when a configuration is missed at the limit, or
        the lower end of the interval of the geometric mean over all is below it.
"""
import argparse
import itertools
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
import pairs  # noqa: E402

OTHER = "MLBENCH_OTHER_BUILD"
TASKS = {"1a": "cifar-10", "1a-ddp": "cifar-10", "2a": "epsilon-sample", "mnist": "mnist", "fashion-mnist": "fashion-mnist"}
STEPS = {("1a", "torch"): 16, ("1a", "native"): 24, ("2a", "torch"): 6000, ("2a", "native"): 6000}  # of a timed run


class Build:
    """The programs of one build, with homes of their own that share prepared data."""

    def __init__(self, program, scratch):
        self.program = str(program)
        self.scratch = scratch
        self.former_name = "onednn" in self.output("list", "frameworks")  # of native, in builds from before 2026-11-28
        self.chooses_convolutions = "--convolution" in self.output("run", "--help")
        self.of_native = []                   # further arguments of its runs
        self.environment = dict(os.environ)

    def output(self, *arguments):
        return subprocess.run([self.program, *arguments], stdout=subprocess.PIPE, text=True, check=True).stdout

    def run(self, workers, arguments):
        """The record of one run; a text where the program or a rank refuses its input (exit code 2)."""
        with tempfile.TemporaryDirectory(dir=self.scratch) as home:
            os.symlink(self.scratch / "cache", pathlib.Path(home) / "cache")
            command = [self.program, "run", "r", str(workers), *arguments, "--home", home, "--local", "--json"]
            if "native" in arguments:
                command += self.of_native
            if self.former_name:
                command = ["onednn" if word == "native" else word for word in command]
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=900,
                                  env=self.environment)
            errors = done.stderr.replace("'onednn'", "'native'") if self.former_name else done.stderr
            if done.returncode == 2:
                return "refused: " + errors.strip().splitlines()[-1]
            if done.returncode == 5 and "(wrong input)" in errors:
                return "refused: " + errors.split("(wrong input)")[-1].split(": ", 1)[-1].strip()
            if done.returncode != 0:
                raise RuntimeError(f"exit code {done.returncode}: {' '.join(command)}\n{done.stderr[-2000:]}")
            return json.loads(done.stdout[done.stdout.index("["):])[0]


def data_arguments(builds, task):
    """Of the real set where both can prepare it, else of made data."""
    real = [] if TASKS[task] == task else ["--data", TASKS[task]]
    answers = [build.run(1, ["--task", task, "--max-steps", "1", "--dry-run", *real]) for build in builds]
    return ["--synthetic"] if any(isinstance(answer, str) for answer in answers) else real


def agree_on_convolutions(builds):
    """Where one of the builds alone can choose, both compute direct convolutions, as builds from before 2026-11-29 do."""
    able = [build for build in builds if build.chooses_convolutions]
    if len(able) != 1:
        return
    for build in builds:
        if build in able:
            build.of_native = ["--convolution", "direct"]
        else:
            build.environment["MLBENCH_CONVOLUTION"] = "direct"  # of builds from 2026-11-29, which had no option for it
    print(f"{able[0].program} runs framework native with --convolution direct, which the other build does not know", flush=True)


def name_of(choice):
    return " ".join(str(part) for part in choice)


def compare_bits(ours, other, options):
    differing = done = 0
    for choice in itertools.product(TASKS, (1, 2), ("torch", "native"), ("float32", "bf16"), ("gloo", "mpi")):
        task, workers, framework, precision, backend = choice
        if not re.search(options.only, name_of(choice)):
            continue
        arguments = ["--task", task, "--framework", framework, "--backend", backend, "--set", f"precision={precision}",
                     "--max-steps", str(options.steps), "--threads-per-worker", str(2 // workers),
                     *data_arguments((ours, other), task)]
        results = [build.run(workers, arguments) for build in (ours, other)]
        bits = [result if isinstance(result, str) else result["weights_sha256"] for result in results]
        same = bits[0] is not None and bits[0] == bits[1]
        done += 1
        differing += not same
        made = "  made data" if "--synthetic" in arguments else ""
        print(f"{'same' if same else 'DIFFERENT'}  {name_of(choice)}{made}  {bits[0]}" + ("" if same else f"  {bits[1]}"),
              flush=True)
    print(f"{done} configurations, {differing} different")
    return done > 0 and differing == 0


def compare_speed(ours, other, options):
    report, groups = [], []
    for choice in itertools.product(("1a", "2a"), (1, 2), ("torch", "native")):
        task, workers, framework = choice
        if not re.search(options.only, name_of(choice)):
            continue
        arguments = ["--task", task, "--framework", framework, "--fixed-batch", "--max-steps", str(STEPS[task, framework]),
                     "--threads-per-worker", str(2 // workers), *data_arguments((ours, other), task)]

        def rate(build):
            return build.run(workers, arguments)["throughput"]["median_samples_per_s"]

        values = pairs.measure(lambda: rate(ours), lambda: rate(other), options.pairs)
        ratios = [a / b for a, b in zip(*values)]
        low, high = pairs.interval(ratios)
        verdict = pairs.verdict(low, high, options.limit)
        groups.append(ratios)
        report.append({"configuration": name_of(choice), "arguments": arguments, "verdict": verdict,
                       "ratio": statistics.median(ratios), "interval_95": [low, high], "ours": values[0],
                       "other": values[1]})
        print(f"{name_of(choice):16} {statistics.median(ratios):.3f} ({low:.3f} to {high:.3f})  {verdict}", flush=True)
    mean, (low, high) = pairs.geometric_interval(groups)
    print(f"geometric mean   {mean:.3f} ({low:.3f} to {high:.3f}), limit {options.limit}, {options.pairs} pairs each")
    if options.output:
        pathlib.Path(options.output).write_text(json.dumps(
            {"limit": options.limit, "geometric_mean": mean, "interval_95": [low, high], "configurations": report}, indent=1))
    return low >= options.limit and all(row["verdict"] != "missed" for row in report)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("bits", "speed"))
    parser.add_argument("--only", default="", metavar="REGEX", help="configurations whose name it finds, e.g. '^1a 2 torch'")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--pairs", type=int, default=21)
    parser.add_argument("--limit", type=float, default=0.97)
    parser.add_argument("--output", metavar="FILE", default=os.environ.get("MLBENCH_SAME_OUTPUT"), help="all pairs as JSON")
    options = parser.parse_args()
    if not os.environ.get(OTHER):
        print(f"missing capability: another build to compare with ({OTHER}=FOLDER of its programs)")
        return 0
    other = pathlib.Path(os.environ[OTHER]) / "mlbench"
    if not other.is_file():
        sys.exit(f"same.py: {OTHER}={os.environ[OTHER]} holds no program mlbench")
    with tempfile.TemporaryDirectory() as folder:
        scratch = pathlib.Path(folder)
        (scratch / "cache").mkdir()
        builds = Build(os.environ["MLBENCH_TEST_MLBENCH"], scratch), Build(other, scratch)
        agree_on_convolutions(builds)
        return 0 if {"bits": compare_bits, "speed": compare_speed}[options.what](*builds, options) else 1


if __name__ == "__main__":
    sys.exit(main())
