"""Start and memory of framework tensorflow beside the peer with Keras. keras_peer.py --beside calls it."""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import pairs
import ratio
import start_times

PEER = pathlib.Path(__file__).resolve().with_name("keras_peer.py")
MOST_MEMORY = 1.2  # of the peer's


def words_of(options):
    """Of a call of this script that runs the peer alone."""
    counts = ("ranks", "threads", "inter_op", "batch", "steps", "warm_up")
    words = [word for name in counts for word in ("--" + name.replace("_", "-"), str(getattr(options, name)))]
    return words + [word for word in ("--fused-norm", "--jit-compile") if getattr(options, word[2:].replace("-", "_"))]


def measure_both(options, home):
    """[(ours, the peer's)]: {"first_step_s", "peak_rss"} of each."""
    rounds, steps = [], options.warm_up + options.steps
    for number in range(options.rounds + 1):
        ours = start_times.first_step(options.beside / "mlbench", home, f"beside{number}", "tensorflow", options.ranks,
                                      options.threads, steps, ("--synthetic", "--fixed-batch"))
        said = subprocess.run([sys.executable, PEER, *words_of(options)], check=True, stdout=subprocess.PIPE, text=True).stdout
        theirs = ratio.last_json(said)
        rounds.append(({"first_step_s": ours["end_s"], "peak_rss": ours["peak_rss"]},
                       {key: theirs[key] for key in ("first_step_s", "peak_rss")}))
    return rounds[1:]  # the first one prepares


def summary(rounds):
    """What follows from the rounds."""
    ours_s = [ours["first_step_s"] for ours, _ in rounds]
    memory = [ours["peak_rss"] / theirs["peak_rss"] for ours, theirs in rounds]
    return {name: {"ours": statistics.median(ours[key] for ours, _ in rounds),
                   "peer": statistics.median(theirs[key] for _, theirs in rounds),
                   judged: statistics.median(values), "interval_95": pairs.interval(values), "at_most": most,
                   "verdict": pairs.at_most(*pairs.interval(values), most)}
            for name, key, judged, values, most in (
                ("start", "first_step_s", "seconds", ours_s, start_times.FIRST_STEP_S["tensorflow"]),
                ("memory", "peak_rss", "ratio", memory, MOST_MEMORY))}


def compare(options):
    with tempfile.TemporaryDirectory(prefix="mlbeside") as home:
        rounds = measure_both(options, pathlib.Path(home))
    document = {"date": ratio.now(), "machine": ratio.machine(), "load": os.getloadavg()[0], "words": words_of(options),
                **summary(rounds), "rounds": rounds}
    print(json.dumps(document, indent=1))
    return ratio.exit_code_of([document["start"], document["memory"]])
