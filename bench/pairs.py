"""Paired measurement: one side beside the other, a number of pairs fixed beforehand, no stopping rule.

A verdict is `met` when the lower end of the 95 % interval of the median ratio reaches the limit, `missed` when the upper
end is below it, `undecided` otherwise. Intervals are percentile bootstraps, the same for the same ratios.
"""
import math
import random
import statistics

RESAMPLES = 10000


def bounds(values):
    ordered = sorted(values)
    return ordered[int(0.025 * len(ordered))], ordered[int(0.975 * len(ordered))]


def interval(ratios, resamples=RESAMPLES):
    """95 % interval of the median."""
    generator = random.Random(0)
    return bounds([statistics.median(generator.choices(ratios, k=len(ratios))) for _ in range(resamples)])


def geometric_interval(groups, resamples=RESAMPLES):
    """(geometric mean of the groups' medians, its 95 % interval): pairs are resampled within each group."""
    def mean(lists):
        return math.exp(statistics.fmean(math.log(statistics.median(ratios)) for ratios in lists))

    generator = random.Random(0)
    means = [mean([generator.choices(ratios, k=len(ratios)) for ratios in groups]) for _ in range(resamples)]
    return mean(groups), bounds(means)


def verdict(low, high, limit):
    return "met" if low >= limit else "missed" if high < limit else "undecided"


def at_most(low, high, most):
    """The verdict where less is better."""
    return "met" if high <= most else "missed" if low > most else "undecided"


def measure(ours, theirs, pairs, say=lambda text: None):
    """The values of both sides; `ours` and `theirs` measure once. Which of them begins alternates."""
    values = ([], [])
    for pair in range(pairs):
        for side in (0, 1) if pair % 2 == 0 else (1, 0):
            values[side].append((ours, theirs)[side]())
        a, b = values[0][-1], values[1][-1]
        say(f"pair {pair + 1:3d}  ours {a:10.2f}  other {b:10.2f}  ratio {a / b:.3f}")
    return values
