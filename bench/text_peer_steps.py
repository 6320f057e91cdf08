"""Modes speed and check of text_peer.py: steps on one fixed batch, that of bench/fixed_batches.h."""
import pathlib
import statistics
import sys
import time
import tomllib

import torch

import text_peer_models as models
from torch_peer_rank import cores_with_bound_threads

TASKS = pathlib.Path(__file__).resolve().parent.parent / "tasks"
WARM_UP = 5
RATES = {"awd-lstm": 10, "gnmt": 1e-4, "transformer": 1e-4}  # those of step_bench.cpp


def columns_of_text(vocabulary, positions, columns):
    t, c = torch.arange(positions + 1).unsqueeze(1), torch.arange(columns)
    text = (7919 * t + 104729 * c) % vocabulary
    return {"tokens": text[:-1].contiguous(), "targets": text[1:].contiguous()}, positions * columns


def pairs_of_sentences(vocabulary, pairs):
    shortest, longest, words = 20, 50, vocabulary - 4
    lengths = [longest if pairs == 1 else shortest + (longest - shortest) * s // (pairs - 1) for s in range(pairs)]
    batch = {name: torch.zeros(pairs, longest, dtype=torch.int64) for name in ("source", "target_in", "target_out")}
    for s in range(pairs):
        source, target = lengths[s], lengths[pairs - 1 - s]
        for t in range(source):
            batch["source"][s, t] = 3 if t + 1 == source else 4 + (7919 * t + 104729 * s) % words
        batch["target_in"][s, 0] = 2
        for t in range(target):
            token = 3 if t + 1 == target else 4 + (104729 * t + 7919 * s) % words
            batch["target_out"][s, t] = token
            if t + 1 < target:
                batch["target_in"][s, t + 1] = token
    batch["source_lengths"] = torch.tensor(lengths)
    return batch, sum(lengths)


def run(options):
    torch.set_num_threads(options.threads)
    torch.set_num_interop_threads(1)
    torch.backends.cudnn.allow_tf32 = False  # on a GPU: float32, as with ours
    torch.manual_seed(0)
    task_name, batch_size = options.task_of_model
    batch_size = options.batch or batch_size
    task = tomllib.loads((TASKS / f"{task_name}.toml").read_text())
    task["model"]["size"] = options.size
    if options.mode == "check":
        task["model"] |= {name: 0 for name in task["model"] if name.endswith("dropout")}
    model = models.make_model(task).to(options.device)
    parameters = sum(p.numel() for p in model.parameters())
    assert options.size != "full" or parameters == models.FULL_PARAMETERS[options.model], parameters
    if options.start:
        models.load(model, options.start)
    optimizer = models.make_optimizer(model, task, options.fused)
    for group in optimizer.param_groups:
        group["lr"] = RATES[options.model]
    clip = task["optimizer"].get("clip_norm", 0)
    vocabulary = task["data"]["classes"]
    if options.model == "awd-lstm":
        batch, weight = columns_of_text(vocabulary, task["data"]["bptt"], batch_size)
    else:
        batch, weight = pairs_of_sentences(vocabulary, batch_size)
    batch = {name: tensor.to(options.device) for name, tensor in batch.items()}

    def loss_of():
        total, _, penalty, _ = model(batch, None)
        return total / weight + penalty

    compiled = torch.compile(loss_of) if options.compile else loss_of

    def step():
        optimizer.zero_grad()
        with torch.autocast(options.device, torch.bfloat16, enabled=options.amp):
            loss = compiled()
        loss.backward()
        if clip > 0:
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        if options.device == "cuda":
            torch.cuda.synchronize()

    def evaluated():
        model.eval()
        with torch.no_grad():
            loss = loss_of().item()
        model.train()
        return loss

    def take_steps(count):
        seconds = []
        for _ in range(count):
            begin = time.perf_counter()
            step()
            seconds.append(time.perf_counter() - begin)
        return statistics.median(seconds)

    first_loss = evaluated()
    take_steps(2 if options.turns else WARM_UP)
    if options.turns:
        yield {"warm": True}
        for _ in iter(sys.stdin.readline, ""):
            seconds = take_steps(options.steps)
            yield {"median_step_ms": seconds * 1e3, "median_tokens_per_s": weight / seconds}
    else:
        seconds = take_steps(options.steps)
    last_loss = evaluated()
    if not last_loss < first_loss:
        raise SystemExit(f"text_peer.py: the loss did not fall: {first_loss} -> {last_loss}")
    yield {"peer": "pytorch " + torch.__version__, "model": options.model, "size": options.size, "device": options.device,
           "parameters": parameters, "threads": options.threads,
           "pinned": len(cores_with_bound_threads()) >= options.threads, "batch": batch_size, "weight": weight,
           "steps": options.steps, "dropout": options.mode == "speed", "compile": options.compile, "amp": options.amp,
           "fused": options.fused, "first_loss": first_loss, "last_loss": last_loss,
           "median_step_ms": seconds * 1e3,
           "median_samples_per_s": batch_size / seconds,
           "median_tokens_per_s": weight / seconds}
