#!/usr/bin/env python3
"""Steps of coders as their papers have them, in NumPy and float32: another rounding would be another code. Of coders that
draw, the draws alone are taken from what the coder under test made; what else there is follows from the paper.

Usage: coder_paper_oracle.py FOLDER. Reads FOLDER/cases.json: {shapes (of the tensors), weights (of the ranks in the
mean), shares (per step and rank, a rank's weight times its gradient, the tensors back to back), cases: [{coder, options,
drawn (null, or per step and rank what the payload of that rank stands for)}]}. Writes FOLDER/result.json: per case
{gradients: per step, bytes: per step and rank}.
"""
import json
import math
import pathlib
import sys

import numpy
import torch

SINGLE = numpy.float32


class Tensor:
    """A tensor's place in the flat gradient."""

    def __init__(self, first, shape):
        self.first, self.end = first, first + math.prod(shape)
        self.rows = shape[0] if len(shape) > 1 else 1
        self.place = slice(self.first, self.end)

    def cut(self, length):
        return [slice(first, min(first + length, self.end)) for first in range(self.first, self.end, length)]


def count_of(share, elements):
    return max(1, math.floor(share * elements + 0.5))


def bytes_of(bits):
    return -(-bits // 8)


def largest(values, count):
    """The values where `count` magnitudes are largest, elsewhere 0."""
    sent = numpy.zeros_like(values)
    places = numpy.argsort(-numpy.abs(values), kind="stable")[:count]
    sent[places] = values[places]
    return sent


# ---- what a rank sends of values: (what it stands for, its bytes) ---------------------------------------------------


def everything(values, _options, _tensors, _drawn):
    return values, 4 * len(values)


def nonzero(values, _options, _tensors, _drawn):
    return values, min(8 * numpy.count_nonzero(values), 4 * len(values))


def threshold(values, options, _tensors, _drawn):
    chosen = numpy.abs(values) >= SINGLE(options["threshold"])
    return numpy.where(chosen, values, SINGLE(0)), 8 * numpy.count_nonzero(chosen)


def mean_of(values):
    return SINGLE(values.mean(dtype=float)) if len(values) > 0 else SINGLE(0)


def means_of_signs(values):
    """1-bit SGD (Seide et al. 2014)."""
    positive = values >= 0
    return numpy.where(positive, mean_of(values[positive]), mean_of(values[~positive]))


def top_k(values, options, tensors, _drawn):
    """Aji & Heafield 2017; with chunks and bits SparseLoCo's (Sarfi et al. 2025)."""
    chunk, bits, whole = options.get("chunk", 0), options.get("bits", 0), [slice(0, len(values))]
    sent, count = numpy.zeros_like(values), 0
    for part in [part for tensor in tensors for part in tensor.cut(chunk)] if chunk > 0 else whole:
        of_part = count_of(options["share"], part.stop - part.start)
        sent[part] = largest(values[part], of_part)
        count += of_part
    size = bytes_of(count * (math.ceil(math.log2(chunk)) if chunk > 0 else 32))
    if bits == 0:
        return sent, size + 4 * count
    for part in [tensor.place for tensor in tensors] if chunk > 0 else whole:
        chosen = numpy.flatnonzero(sent[part]) + part.start
        left, sent[chosen] = sent[chosen], 0
        for _ in range(bits):
            means = means_of_signs(left)
            left = left - means
            sent[chosen] += means
        size += bits * (8 + bytes_of(len(chosen)))
    return sent, size


def random_places(values, options, places):
    sent, count = numpy.zeros_like(values), count_of(options["share"], len(values))
    assert 0 < len(places) <= count, f"{len(places)} places"
    sent[places] = values[places]
    if not options["error_feedback"]:
        sent *= SINGLE(len(values) / count)
    return sent, 4 * count


def random_k(values, options, _tensors, drawn):
    """Stich et al. 2018. `drawn` is not 0 where some rank sent something."""
    return random_places(values, options, numpy.flatnonzero(drawn))


def random_block(values, options, _tensors, drawn):
    """Vogels et al. 2019: a block, around the end."""
    places, count = numpy.flatnonzero(drawn), count_of(options["share"], len(values))
    assert any(((places - first) % len(values) < count).all() for first in places), f"no block: {places}"
    return random_places(values, options, places)


def ef_sign(values, _options, tensors, _drawn):
    """Karimireddy et al. 2019."""
    means = [mean_of(numpy.abs(values[tensor.place])) for tensor in tensors]
    sent = [numpy.where(values[tensor.place] >= 0, mean, -mean) for tensor, mean in zip(tensors, means)]
    return numpy.concatenate(sent), sum(4 + bytes_of(len(part)) for part in sent)


def one_bit(values, _options, tensors, _drawn):
    sent = [means_of_signs(values[tensor.place]) for tensor in tensors]
    return numpy.concatenate(sent), sum(8 + bytes_of(len(part)) for part in sent)


def omega_bits(number):
    """The length of Elias's recursive code."""
    return 1 if number == 1 else number.bit_length() + omega_bits(number.bit_length() - 1)


def elias_bits(levels):
    """Alistarh et al. 2017, section 3: distance, sign and level of each that is not 0; then the distance to the end."""
    places = numpy.flatnonzero(levels) + 1
    distances = [int(distance) for distance in numpy.diff(places, prepend=0)]
    bits = sum(omega_bits(distance) + 1 for distance in distances) + sum(omega_bits(int(levels[i - 1])) for i in places)
    behind = len(levels) - (int(places[-1]) if len(places) > 0 else 0)
    return bits + (omega_bits(behind + 1) if behind > 0 else 0)


def qsgd(values, options, tensors, drawn):
    """Alistarh et al. 2017."""
    most, sent, fixed, variable = 2 ** (options["bits"] - 1) - 1, numpy.zeros_like(values), 0, 0
    buckets = [part for tensor in tensors for part in tensor.cut(options["bucket"])]
    for part in buckets:
        magnitudes = numpy.abs(values[part])
        norm = magnitudes.max() if options["norm"] == "largest" else SINGLE(numpy.linalg.norm(magnitudes.astype(float)))
        levels = numpy.zeros(len(magnitudes), SINGLE)
        if norm > 0:
            below = numpy.floor(magnitudes * (SINGLE(most) / norm))
            levels = numpy.minimum(below + (numpy.abs(drawn[part]) * (most / norm) > below + 0.5), most).astype(SINGLE)
        sent[part] = numpy.copysign(levels * (norm / SINGLE(most)), values[part])
        fixed += 4 + bytes_of(options["bits"] * len(levels))
        variable += elias_bits(levels)
    return sent, fixed if options["coding"] == "fixed" else 4 * len(buckets) + bytes_of(variable)


def terngrad(values, options, tensors, drawn):
    """Wen et al. 2017: clipping by layer, then 0 or the scale."""
    sent, size = numpy.zeros_like(values), 0
    for tensor in tensors:
        part, bound = values[tensor.place], SINGLE(options["clip_sigma"] * values[tensor.place].std(dtype=float))
        magnitudes = numpy.minimum(numpy.abs(part), bound) if bound > 0 else numpy.abs(part)
        scale = magnitudes.max()
        chosen = (magnitudes == scale) | ((magnitudes > 0) & (drawn[tensor.place] != 0))
        sent[tensor.place] = numpy.where(chosen, numpy.copysign(scale, part), SINGLE(0))
        size += 4 + bytes_of(2 * len(part))
    return sent, size


def natural(values, _options, _tensors, drawn):
    """Horvath et al. 2019."""
    below = numpy.ldexp(SINGLE(1), numpy.frexp(values)[1] - 1)
    sent = numpy.where(values == 0, 0, numpy.where(numpy.abs(drawn) > 1.5 * below, 2 * below, below)).astype(SINGLE)
    return numpy.copysign(sent, values), len(values) + bytes_of(len(values))


def nearest_float(values, mantissa, lowest):
    """Of floats with so many bits behind the point, whose lowest normal number is 2^lowest; ties to even."""
    spacing = numpy.ldexp(SINGLE(1), numpy.maximum(numpy.frexp(values)[1] - 1, lowest) - mantissa)
    return numpy.rint(values / spacing) * spacing


def nearest_power(values):
    """Of 0 and the powers of two from 2^-6 to 1; ties to the larger one."""
    powers = numpy.array([2.0 ** -i for i in range(7)] + [0], SINGLE)
    return numpy.copysign(powers[numpy.abs(numpy.abs(values)[..., None] - powers).argmin(axis=-1)], values)


FORMATS = {"int8": (8, 127, numpy.rint),  # bits, the largest number, what is next to a number
           "e4m3": (8, 448, lambda values: nearest_float(values, 3, -6)),
           "e5m2": (8, 57344, lambda values: nearest_float(values, 2, -14)),
           "fp4": (4, 1, nearest_power)}


def by_rows(values, options, tensors, _drawn):
    bits, most, nearest = FORMATS[options["type"]]
    sent, size = numpy.zeros_like(values), 0
    for tensor in tensors:
        rows = values[tensor.place].reshape(tensor.rows, -1)
        scale = numpy.abs(rows).max(axis=1, keepdims=True) / SINGLE(most)
        inverse = numpy.divide(SINGLE(1), scale, out=numpy.zeros_like(scale), where=scale > 0)
        sent[tensor.place] = (scale * nearest(rows * inverse)).ravel()
        size += tensor.rows * (4 + bytes_of(bits * rows.shape[1]))
    return sent, size


def rounded_to(options, values):
    return torch.from_numpy(values).to(getattr(torch, options["type"])).float().numpy()


def half(values, options, _tensors, _drawn):
    return rounded_to(options, values), 2 * len(values)


# ---- steps of all ranks: what comes out, and the bytes of each ------------------------------------------------------


def total_of(case, sent):
    """The sum, of whose additions 16 bits round each."""
    total = sent[0]
    for values in sent[1:]:
        total = rounded_to(case["options"], total + values) if case["coder"] == "half" else total + values
    return total


def summed(send, feedback=False):
    """The sum of what ranks send of their shares, with error feedback (Stich et al. 2018) of what they kept."""

    def steps(data, tensors, case):
        options = {"type": case["coder"], **case["options"]}
        decay = SINGLE(options.get("error_decay", 1) if options.get("error_feedback", feedback) else 0)
        kept = numpy.zeros_like(data["shares"][0])
        for number, shares in enumerate(data["shares"]):
            drawn = [None] * len(shares) if case["drawn"] is None else numpy.array(case["drawn"][number], SINGLE)
            if send in (random_k, random_block):
                drawn = [numpy.abs(drawn).sum(axis=0)] * len(shares)
            whole = decay * kept + shares
            sent, sizes = zip(*(send(whole[rank], options, tensors, drawn[rank]) for rank in range(len(shares))))
            kept = whole - numpy.array(sent)
            yield total_of(case, sent), sizes

    return steps


def sign_vote(data, tensors, _case):
    """Bernstein et al. 2019."""
    size = sum(bytes_of(tensor.end - tensor.first) for tensor in tensors)
    for shares in data["shares"]:
        yield numpy.sign(numpy.where(shares >= 0, 1, -1).sum(axis=0)), [size] * len(shares)


def ef21(data, _tensors, case):
    """Richtarik et al. 2021, algorithm 1."""
    estimates, total = numpy.zeros_like(data["shares"][0]), 0
    count = count_of(case["options"]["share"], estimates.shape[1])
    for shares in data["shares"]:
        sent = [largest(values, count) for values in shares - estimates]
        estimates, total = estimates + sent, total + sum(sent)
        yield total, [8 * count] * len(shares)


def deep_gradient(data, _tensors, case):
    """Lin et al. 2018, algorithm 4: local clipping, momentum correction, masking of the momentum, warm-up."""
    options, weights = case["options"], data["weights"]
    momentum, share, warmup = SINGLE(options["coder_momentum"]), options["share"], options["coder_warmup_steps"]
    u = numpy.zeros_like(data["shares"][0])
    v = numpy.zeros_like(u)
    for number, shares in enumerate(data["shares"]):
        most = options["coder_clip"] / math.sqrt(len(shares))
        norms = [numpy.linalg.norm(values.astype(float)) / weight for values, weight in zip(shares, weights)]
        g = numpy.array([values * SINGLE(min(1, most / norm)) if most > 0 else values
                         for values, norm in zip(shares, norms)])
        u = momentum * (u + g) if options["coder_nesterov"] else momentum * u + g
        v = v + u + g if options["coder_nesterov"] else v + u
        count = count_of(share if number >= warmup else 0.25 * (share / 0.25) ** (number / warmup), u.shape[1])
        sent = numpy.array([largest(values, count) for values in v])
        u, v = numpy.where(sent == 0, u, SINGLE(0)), numpy.where(sent == 0, v, SINGLE(0))
        yield total_of(case, sent), [8 * count] * len(shares)


CODERS = {"none": summed(everything), "half": summed(half), "top_k": summed(top_k), "threshold": summed(threshold),
          "nonzero": summed(nonzero), "ef21": ef21, "deep_gradient": deep_gradient, "random_k": summed(random_k),
          "random_block": summed(random_block), "sign_vote": sign_vote, "ef_sign": summed(ef_sign, feedback=True),
          "one_bit": summed(one_bit, feedback=True), "qsgd": summed(qsgd), "terngrad": summed(terngrad), "natural": summed(natural),
          "int8": summed(by_rows), "fp8": summed(by_rows), "fp4": summed(by_rows)}


def main():
    folder = pathlib.Path(sys.argv[1])
    data = json.loads((folder / "cases.json").read_text())
    data["shares"] = numpy.array(data["shares"], SINGLE)
    tensors, first = [], 0
    for shape in data["shapes"]:
        tensors.append(Tensor(first, shape))
        first = tensors[-1].end
    result = []
    for case in data["cases"]:
        steps = list(CODERS[case["coder"]](data, tensors, case))
        result.append({"gradients": [gradient.tolist() for gradient, _ in steps],
                       "bytes": [[int(size) for size in sizes] for _, sizes in steps]})
    (folder / "result.json").write_text(json.dumps(result))


if __name__ == "__main__":
    main()
