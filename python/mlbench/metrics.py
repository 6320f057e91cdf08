"""Metrics of a batch, and their exact mean over batches and ranks. They take tensors of PyTorch, arrays, or lists.

A metric is called with (output, target) or (loss, output, target) and returns the value of that batch; update() adds
what a batch counts, average() is the value over all that was added, on all ranks.
"""

import collections
import math
import sys


def sum_over_ranks(values):
    """Sums of numbers over the ranks of torch.distributed; the numbers themselves where the script has none."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return list(values)
    torch = sys.modules["torch"]
    # NCCL sums what lies on a GPU alone.
    device = "cuda" if distributed.get_backend() == "nccl" else "cpu"
    tensor = torch.tensor(list(values), dtype=torch.float64, device=device)
    distributed.all_reduce(tensor)
    return tensor.tolist()


def _list(values):
    if hasattr(values, "detach"):
        values = values.detach().cpu()
    return values.tolist() if hasattr(values, "tolist") else list(values)


def _flat(values):
    for value in _list(values):
        if isinstance(value, (list, tuple)):
            yield from _flat(value)
        else:
            yield value


class Metric:
    name = ""

    def __init__(self):
        self.reset()

    def reset(self):
        self._counts = None

    def counts(self, loss, output, target):
        """What a batch adds, as a list of numbers whose sums over batches give the value."""
        raise NotImplementedError

    def value(self, counts):
        return counts[0] / counts[1] if counts[1] else 0.0

    def __call__(self, *arguments):
        return self.value(self.counts(*self._arguments(arguments)))

    def update(self, *arguments):
        counts = self.counts(*self._arguments(arguments))
        self._counts = counts if self._counts is None else [a + b for a, b in zip(self._counts, counts)]

    def average(self):
        if self._counts is None:
            raise RuntimeError("%s.average() before update()" % type(self).__name__)
        return self.value(sum_over_ranks(self._counts))

    @staticmethod
    def _arguments(arguments):
        if len(arguments) not in (2, 3):
            raise TypeError("expected (output, target) or (loss, output, target)")
        return arguments if len(arguments) == 3 else (None, *arguments)


class TopKAccuracy(Metric):
    """Percent of samples whose class is among the k of the highest output. Outputs of one column are the probability of
    class 1."""

    def __init__(self, topk=1):
        self.topk = int(topk)
        self.name = "Prec@%d" % self.topk
        super().__init__()

    def counts(self, loss, output, target):
        right = 0
        rows, classes = _list(output), list(_flat(target))
        for row, wanted in zip(rows, classes):
            row = list(row) if isinstance(row, (list, tuple)) else [row]
            if len(row) == 1:
                row = [1 - row[0], row[0]]
            if self.topk >= len(row):
                raise ValueError("top %d of %d classes is always right" % (self.topk, len(row)))
            score = row[int(wanted)]
            # As many classes as stand before it: higher ones, and equal ones with a lower number.
            before = sum(1 for i, other in enumerate(row) if other > score or (other == score and i < int(wanted)))
            right += before < self.topk
        return [100.0 * right, float(len(classes))]


class Perplexity(Metric):
    """exp of the mean cross-entropy, which is the loss."""

    name = "Perplexity"

    def counts(self, loss, output, target):
        samples = float(len(_list(target)))
        return [float(loss.item() if hasattr(loss, "item") else loss) * samples, samples]

    def value(self, counts):
        return math.exp(counts[0] / counts[1]) if counts[1] else math.inf


class F1Score(Metric):
    """F1 of class 1, predicted where the output is at least the threshold."""

    name = "F1-Score"

    def __init__(self, eps=1e-9, threshold=0.5):
        self.eps, self.threshold = eps, threshold
        super().__init__()

    def counts(self, loss, output, target):
        both = predicted = actual = 0
        for score, label in zip(_flat(output), _flat(target)):
            positive, true = score >= self.threshold, label >= 0.5
            both += positive and true
            predicted += positive
            actual += true
        return [float(both), float(predicted), float(actual)]

    def value(self, counts):
        both, predicted, actual = counts
        precision, recall = both / (predicted + self.eps), both / (actual + self.eps)
        return 2 * precision * recall / (precision + recall + self.eps)


class DiceCoefficient(Metric):
    """Soft Dice: (2 sum(output * target) + eps) / (sum(output) + sum(target) + eps)."""

    name = "Dice Coefficient"

    def __init__(self, eps=1e-4):
        self.eps = eps
        super().__init__()

    def counts(self, loss, output, target):
        scores, labels = list(_flat(output)), list(_flat(target))
        return [math.fsum(a * b for a, b in zip(scores, labels)), math.fsum(scores), math.fsum(labels)]

    def value(self, counts):
        return (2 * counts[0] + self.eps) / (counts[1] + counts[2] + self.eps)


class BLEUScore(Metric):
    """Corpus BLEU of token lists (or of text, split at white space): n-grams up to 4, one reference each. Its counts are
    summed, so that it is the BLEU of the whole corpus, not a mean over batches."""

    name = "BLEU-Score"

    def counts(self, loss, output, target):
        counts = [0.0] * 10  # hits and n-grams for n = 1 to 4, tokens of output and of target
        for hypothesis, reference in zip(output, target):
            words, wanted = self._tokens(hypothesis), self._tokens(reference)
            for n in range(1, 5):
                found, known = self._grams(words, n), self._grams(wanted, n)
                counts[2 * n - 2] += sum(min(count, known[gram]) for gram, count in found.items())
                counts[2 * n - 1] += sum(found.values())
            counts[8] += len(words)
            counts[9] += len(wanted)
        return counts

    def value(self, counts):
        hits, grams = counts[0:8:2], counts[1:8:2]
        if not all(hits) or not counts[8]:
            return 0.0
        precision = math.exp(math.fsum(math.log(a / b) for a, b in zip(hits, grams)) / 4)
        return 100.0 * precision * min(1.0, math.exp(1 - counts[9] / counts[8]))

    @staticmethod
    def _tokens(text):
        return text.split() if isinstance(text, str) else list(text)

    @staticmethod
    def _grams(tokens, n):
        return collections.Counter(tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1))
