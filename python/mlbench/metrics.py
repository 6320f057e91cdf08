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


def _plain(values):
    """Tensors, arrays and sequences as lists of Python's own values."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
    if hasattr(values, "tolist"):
        return values.tolist()
    if isinstance(values, str) or not hasattr(values, "__iter__"):
        return values
    return [_plain(value) for value in values]


def _flat(values):
    for value in values if isinstance(values, list) else [values]:
        if isinstance(value, list):
            yield from _flat(value)
        else:
            yield value


def _check_numbers(scores):
    for score in scores:
        if not isinstance(score, (int, float)):
            raise ValueError("an output is %r; expected a number" % (score,))


def _labels(target, samples, classes):
    """One class from 0 to classes - 1 for each of the samples."""
    labels = list(_flat(_plain(target)))
    if len(labels) != samples:
        raise ValueError("there are %d outputs and %d labels; expected one label per output" % (samples, len(labels)))
    for label in labels:
        if not (isinstance(label, (int, float)) and 0 <= label < classes and label == int(label)):
            raise ValueError("label %r is none of the %d classes: 0 to %d" % (label, classes, classes - 1))
    return [int(label) for label in labels]


class Metric:
    """What is no number counts as in mlbench itself: a score that is NaN is larger than all and never right, and a
    value without any sample is NaN. Labels that are no class, and outputs without a label, are a ValueError."""

    name = ""

    def __init__(self):
        self.reset()

    def reset(self):
        self._counts = None

    def counts(self, loss, output, target):
        """What a batch adds: the number of its samples first, then numbers whose sums over batches give the value."""
        raise NotImplementedError

    def value(self, counts):
        return self._of_sums(*counts) if counts[0] else math.nan

    def __call__(self, *arguments):
        return self.value(self.counts(*self._arguments(arguments)))

    def update(self, *arguments):
        counts = self.counts(*self._arguments(arguments))
        self._counts = counts if self._counts is None else [a + b for a, b in zip(self._counts, counts)]

    def average(self):
        if self._counts is None:
            raise RuntimeError("%s.average() before update()" % type(self).__name__)
        return self.value(sum_over_ranks(self._counts))

    def _of_sums(self, samples, *sums):
        """The value of at least one sample."""
        raise NotImplementedError

    @staticmethod
    def _arguments(arguments):
        if len(arguments) not in (2, 3):
            raise TypeError("expected (output, target) or (loss, output, target)")
        return arguments if len(arguments) == 3 else (None, *arguments)


class TopKAccuracy(Metric):
    """Percent of samples whose class is among the k of the highest output; of equal outputs the first is the higher.
    Outputs of one column are the probability of class 1."""

    def __init__(self, topk=1):
        self.topk = int(topk)
        self.name = "Prec@%d" % self.topk
        super().__init__()

    def counts(self, loss, output, target):
        rows = [row if isinstance(row, list) else [row] for row in _plain(output)]
        width = len(rows[0]) if rows else 1
        for row in rows:
            if len(row) != width or not row:
                raise ValueError("an output has %d scores; expected %d, as the first has" % (len(row), width))
            _check_numbers(row)
        classes = max(width, 2)
        if self.topk >= classes and rows:
            raise ValueError("top %d of %d classes is always right" % (self.topk, classes))
        labels = _labels(target, len(rows), classes)
        if width == 1:
            rows = [[1 - row[0], row[0]] for row in rows]
        right = sum(self._is_right(row, label) for row, label in zip(rows, labels))
        return [float(len(rows)), float(right)]

    def _is_right(self, scores, label):
        own = scores[label]
        if own != own:  # NaN
            return False
        before = sum(1 for i, other in enumerate(scores) if not other <= own or (other == own and i < label))
        return before < self.topk

    def _of_sums(self, samples, right):
        return 100.0 * right / samples


class Perplexity(Metric):
    """exp of the mean cross-entropy, which is the loss; infinite where that is beyond the range of a float."""

    name = "Perplexity"

    def counts(self, loss, output, target):
        samples = float(len(_plain(target)))
        return [samples, float(loss.item() if hasattr(loss, "item") else loss) * samples if samples else 0.0]

    def _of_sums(self, samples, loss):
        try:
            return math.exp(loss / samples)
        except OverflowError:
            return math.inf


def _probabilities(output, target):
    """Outputs, each the probability of class 1, and their labels, 0 or 1."""
    scores = list(_flat(_plain(output)))
    _check_numbers(scores)
    return scores, _labels(target, len(scores), 2)


class F1Score(Metric):
    """F1 of class 1, predicted where the output is at least the threshold."""

    name = "F1-Score"

    def __init__(self, eps=1e-9, threshold=0.5):
        self.eps, self.threshold = eps, threshold
        super().__init__()

    def counts(self, loss, output, target):
        scores, labels = _probabilities(output, target)
        both = sum(score >= self.threshold and label == 1 for score, label in zip(scores, labels))
        predicted = sum(not score < self.threshold for score in scores)  # NaN is
        return [float(len(scores)), float(both), float(predicted), float(sum(labels))]

    def _of_sums(self, samples, both, predicted, actual):
        precision, recall = both / (predicted + self.eps), both / (actual + self.eps)
        return 2 * precision * recall / (precision + recall + self.eps)


class DiceCoefficient(Metric):
    """Soft Dice: (2 sum(output * target) + eps) / (sum(output) + sum(target) + eps)."""

    name = "Dice Coefficient"

    def __init__(self, eps=1e-4):
        self.eps = eps
        super().__init__()

    def counts(self, loss, output, target):
        scores, labels = _probabilities(output, target)
        both = sum(score * label for score, label in zip(scores, labels))
        return [float(len(scores)), float(both), float(sum(scores)), float(sum(labels))]

    def _of_sums(self, samples, both, predicted, actual):
        return (2 * both + self.eps) / (predicted + actual + self.eps)


class BLEUScore(Metric):
    """Corpus BLEU of token lists (or of text, split at white space): n-grams up to 4, one reference each. Its counts are
    summed, so that it is the BLEU of the whole corpus, not a mean over batches."""

    name = "BLEU-Score"

    def counts(self, loss, output, target):
        hypotheses, references = self._sentences(output), self._sentences(target)
        if len(hypotheses) != len(references):
            raise ValueError(
                "there are %d translations and %d references; expected one reference each"
                % (len(hypotheses), len(references))
            )
        hits, grams = [0.0] * 4, [0.0] * 4  # for n = 1 to 4
        for words, wanted in zip(hypotheses, references):
            for n in range(4):
                found, known = self._grams(words, n + 1), self._grams(wanted, n + 1)
                hits[n] += sum(min(count, known[gram]) for gram, count in found.items())
                grams[n] += sum(found.values())
        words, wanted = (float(sum(map(len, sentences))) for sentences in (hypotheses, references))
        return [float(len(hypotheses)), words, wanted, *hits, *grams]

    def _of_sums(self, sentences, words, wanted, *counts):
        hits, grams = counts[:4], counts[4:]
        if not all(hits):
            return 0.0
        precision = math.exp(math.fsum(math.log(a / b) for a, b in zip(hits, grams)) / 4)
        return 100.0 * precision * min(1.0, math.exp(1 - wanted / words))

    @staticmethod
    def _sentences(texts):
        if isinstance(texts, str):
            raise ValueError("expected a list of sentences, not one text")
        return [text.split() if isinstance(text, str) else list(text) for text in map(_plain, texts)]

    @staticmethod
    def _grams(tokens, n):
        return collections.Counter(tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1))
