#!/usr/bin/env python3
"""The peer of coder_bench in plain PyTorch: a gradient with the tensors of ResNet-50 is coded and decoded in one process, on
one thread. Two coders are hooks of torch.distributed, in a group of one rank:

    power_sgd  powerSGD_hook
    quantized  quantization_pertensor_hook; with --per-channel quantization_perchannel_hook, in buckets of 512: 8 bits

Where there is no such hook they are tensor expressions, with payloads of two ranks as coder_bench has them:

    ef_sign    sign bits, packed, and the mean magnitude of each tensor, with error feedback
    qsgd       4 bits of an element, packed, in buckets of 512 whose norm is their largest magnitude

    coder_peer.py CODER [--rank 4] [--same-shapes] [--per-channel] [--compile] [--steps 10] [--turns]

--same-shapes has powerSGD_hook multiply tensors of one shape together; --compile compiles the expressions. With --turns the
script prints a line when warm, then takes --steps steps for each line of its input, as coder_bench does. The last line says
what ran.
Run it with the Python that bench/setup_peer.sh prints.
"""
import argparse
import atexit
import json
import os
import statistics
import sys
import tempfile
import time

from torch_peer import environment_of

WARM_UP = 3
START = 2  # the first step that the hook compresses: with error feedback it has to be 2 at least
RANKS = 2  # whose payloads an expression decodes
BUCKET, LEVELS = 512, 7


def shapes_of_resnet50():
    def convolution(out, into, extent):
        return [(out, into, extent, extent), (out,), (out,)]

    shapes, into = convolution(64, 3, 7), 64
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(blocks):
            shapes += convolution(width, into, 1) + convolution(width, width, 3) + convolution(4 * width, width, 1)
            shapes += convolution(4 * width, into, 1) if block == 0 else []
            into = 4 * width
    return [*shapes, (1000, into), (1000,)]


class Bucket:
    """Of torch.distributed.GradBucket what a hook asks for; of all tensors."""

    def __init__(self, flat, views):
        self.flat, self.views = flat, views

    def buffer(self):
        return self.flat

    def gradients(self):
        return self.views

    def index(self):
        return 0

    def is_last(self):
        return True


# Each makes the step of a coder, from the gradient: in memory of whole buckets, without their last part, and by tensors. A step
# returns the decoded gradient and the bytes that it would send.


def make_group():
    import torch.distributed as dist
    with tempfile.TemporaryDirectory() as folder:
        dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=0, world_size=1)
    atexit.register(dist.destroy_process_group)


def power_sgd(options, whole, flat, views):
    from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as hooks
    make_group()
    state = hooks.PowerSGDState(None, matrix_approximation_rank=options.rank, start_powerSGD_iter=START, min_compression_rate=2,
                                batch_tensors_with_same_shape=options.same_shapes, compression_stats_logging_frequency=1 << 40)
    bucket = Bucket(flat, views)

    def step():
        before = state.compression_stats()[2]
        result = hooks.powerSGD_hook(state, bucket).wait()
        return result, 4 * (state.compression_stats()[2] - before)

    for _ in range(START):
        step()
    return step


def quantized(options, whole, flat, views):
    from torch.distributed.algorithms.ddp_comm_hooks import quantization_hooks as hooks
    make_group()
    hook = hooks.quantization_perchannel_hook if options.per_channel else hooks.quantization_pertensor_hook
    scales = whole.numel() // BUCKET if options.per_channel else 1
    bucket = Bucket(flat, views)
    # A scale and a zero point are 4 bytes each.
    return lambda: (hook(None, bucket).wait(), flat.numel() + 8 * scales)


def ef_sign(options, whole, flat, views):
    import torch
    error, places = torch.zeros_like(flat), 2 ** torch.arange(8, dtype=torch.uint8)
    counts = [view.numel() for view in views]
    kept = error.split(counts)
    assert all(count % 8 == 0 for count in counts)  # so a byte has bits of one tensor

    owners = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts) // 8)  # the tensor of each byte

    def pack(values):
        return (values.ge(0).view(-1, 8) * places).sum(1, dtype=torch.uint8)

    def decode(packed, means):
        scales = means[owners].unsqueeze(1)
        return torch.where(packed.unsqueeze(1).bitwise_and(places).ne(0), scales, -scales).view(-1)

    if options.compile:
        pack, decode = torch.compile(pack), torch.compile(decode)

    def step():
        error.add_(flat)
        means = torch.stack(torch._foreach_norm(kept, 1)) / torch.tensor(counts)
        packed = pack(error)
        own = decode(packed, means)
        error.sub_(own)
        for _ in range(1, RANKS):
            own.add_(decode(packed, means))
        return own.div_(RANKS), packed.numel() + 4 * len(means)

    return step


def qsgd(options, whole, flat, views):
    import torch

    def encode(values):
        rows = values.view(-1, BUCKET)
        norms = rows.abs().amax(1, keepdim=True)
        exact = rows.abs() * (LEVELS / norms.clamp_min(1e-30))
        codes = (exact + torch.rand_like(exact)).clamp_max(LEVELS).to(torch.uint8) * 2 + rows.lt(0).to(torch.uint8)
        return codes[:, 0::2] | (codes[:, 1::2] << 4), norms

    def decode(packed, norms):
        codes = torch.stack((packed & 15, packed >> 4), 2).view(-1, BUCKET)
        return ((codes >> 1).to(torch.float32) * (1 - 2 * (codes & 1).to(torch.float32)) * (norms / LEVELS)).view(-1)

    if options.compile:
        encode, decode = torch.compile(encode), torch.compile(decode)

    def step():
        packed, norms = encode(whole)
        total = decode(packed, norms)
        for _ in range(1, RANKS):
            total += decode(packed, norms)
        return total[:flat.numel()].div_(RANKS), packed.numel() + 4 * norms.numel()

    return step


CODERS = {"power_sgd": power_sgd, "quantized": quantized, "ef_sign": ef_sign, "qsgd": qsgd}


def measure(options):
    import torch
    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    torch.manual_seed(7)
    shapes = shapes_of_resnet50()
    counts = [torch.Size(shape).numel() for shape in shapes]
    drawn = torch.randn(sum(counts))
    whole = torch.zeros(-(-len(drawn) // BUCKET) * BUCKET)
    flat = whole[:len(drawn)]
    step = CODERS[options.coder](options, whole, flat, [part.view(shape) for part, shape in zip(flat.split(counts), shapes)])

    def take_steps(count):
        """(median of their seconds, what the last one returned)"""
        seconds = []
        for _ in range(count):
            flat.copy_(drawn)
            begin = time.perf_counter()
            returned = step()
            seconds.append(time.perf_counter() - begin)
        return statistics.median(seconds), returned

    _, (result, sent) = take_steps(1)
    error = ((result - drawn).norm() / drawn.norm()).item()
    take_steps(WARM_UP)
    if options.turns:
        print(json.dumps({"warm": True}), flush=True)
        for _ in sys.stdin:
            print(json.dumps({"median_steps_per_s": 1 / take_steps(options.steps)[0]}), flush=True)
    print(json.dumps({"peer": "pytorch " + torch.__version__, "coder": options.coder, "elements": len(drawn), "threads": 1,
                      "steps": options.steps, "same_shapes": options.same_shapes, "per_channel": options.per_channel,
                      "compile": options.compile, "bytes": sent, "error_per_mille": round(error * 1e3),
                      "median_steps_per_s": 1 / take_steps(options.steps)[0]}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("coder", choices=CODERS)
    parser.add_argument("--rank", type=int, default=4, help="of power_sgd (default: %(default)s)")
    parser.add_argument("--same-shapes", action="store_true", help="power_sgd: multiply tensors of one shape together")
    parser.add_argument("--per-channel", action="store_true", help="quantized: a scale for each bucket, not for all")
    parser.add_argument("--compile", action="store_true", help="torch.compile of the expressions")
    parser.add_argument("--steps", type=int, default=10, help="of a turn (default: %(default)s)")
    parser.add_argument("--turns", action="store_true", help="steps for each line of the input")
    options = parser.parse_args()
    environment = environment_of([], 1)
    if environment != os.environ:  # the C library has read its own at the start
        os.execve(sys.executable, [sys.executable, "-B", *sys.argv], environment)
    measure(options)


if __name__ == "__main__":
    main()
