#!/usr/bin/env python3
"""A table of winograd_bench over the 3x3 convolutions of ResNet-20, ResNet-50 and VGG-16, each on the chunk of samples that
framework native takes at once. A cell is oneDNN's processor time over Winograd's: the median of pairs, its 95 % interval,
and both errors against float64 over the norm.

    winograd.py BUILD/bin/winograd_bench [--threads 1] [--pairs 21] [--seconds 0.02] [--output FILE]
"""
import argparse
import json
import pathlib
import statistics
import subprocess

import pairs
import ratio

# (model, channels, height = width, samples of a chunk)
LAYERS = [("ResNet-20", 16, 32, 4), ("ResNet-20", 32, 16, 8), ("ResNet-20", 64, 8, 16), ("ResNet-50", 64, 56, 1),
          ("ResNet-50", 128, 28, 1), ("ResNet-50", 256, 14, 1), ("ResNet-50", 512, 7, 2), ("VGG-16", 64, 224, 1),
          ("VGG-16", 128, 112, 1), ("VGG-16", 256, 56, 1), ("VGG-16", 512, 28, 1), ("VGG-16", 512, 14, 1),
          ("ResNet-18 for CIFAR", 256, 8, 4), ("ResNet-18 for CIFAR", 512, 4, 8)]


def cell(of):
    ratios = [direct / ours for direct, ours in zip(of["direct_s"], of["winograd_s"])]
    return (f"{ratio.with_interval(statistics.median(ratios), pairs.interval(ratios))}; {of['winograd_error']:.1e}, "
            f"{of['direct_error']:.1e}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--pairs", type=int, default=21)
    parser.add_argument("--seconds", type=float, default=0.02)
    parser.add_argument("--output", type=pathlib.Path)
    options = parser.parse_args()
    results = []
    print("| model | convolution | samples | forward | data | weights |\n|---|---|---|---|---|---|")
    for model, channels, size, samples in LAYERS:
        command = [options.program, "--channels", channels, "--size", size, "--samples", samples, "--threads",
                   options.threads, "--pairs", options.pairs, "--seconds", options.seconds]
        done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, text=True, check=True)
        result = json.loads(done.stdout)
        results.append({"model": model, **result})
        cells = " | ".join(cell(result["passes"][name]) for name in ("forward", "data", "weights"))
        print(f"| {model} | {channels} @ {size} | {samples} | {cells} |", flush=True)
    if options.output:
        options.output.write_text("[\n" + ",\n".join(json.dumps(result) for result in results) + "\n]\n")


if __name__ == "__main__":
    main()
