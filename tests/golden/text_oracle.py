#!/usr/bin/env python3
"""One training pass of the text models in plain PyTorch, by its own modules and with its own padding, in float64 and
float32: what the golden test of the models over tokens compares against.

Usage: text_oracle.py FOLDER. Reads FOLDER/case.json (model, parameters, tensors, label_smoothing, heads) with start.bin
(float32) and NAME.bin (int64) for each tensor; writes gradients_P.bin (float64, tensors back to back in the order of
case.json) for each precision P, and the mean losses into result.json. Dropout is off.
"""
import json
import math
import pathlib
import sys

import numpy
import torch
import torch.nn.functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


def make_lstm(p, name, reverse=None):
    """torch.nn.LSTM with the stored weights, bidirectional with those of `reverse`."""
    hidden, inputs = p[name + ".weight_hh"].shape[1], p[name + ".weight_ih"].shape[1]
    lstm = torch.nn.LSTM(inputs, hidden, bidirectional=reverse is not None).to(p[name + ".weight_hh"].dtype)
    for source, suffix in ((name, ""), (reverse, "_reverse")):
        if source is None:
            continue
        for theirs, ours in (("weight_ih", "weight_ih"), ("weight_hh", "weight_hh"), ("bias_ih", "bias_ih"),
                             ("bias_hh", "bias_hh")):
            # A plain attribute in the parameter's place, so that gradients reach the stored one.
            delattr(lstm, f"{theirs}_l0{suffix}")
            setattr(lstm, f"{theirs}_l0{suffix}", p[f"{source}.{ours}"])
    lstm._flat_weights = [getattr(lstm, name) for name in lstm._flat_weights_names]
    return lstm


def count(p, prefix):
    layers = 0
    while f"{prefix}{layers + 1}.weight_hh" in p or f"{prefix}{layers + 1}.norm1.weight" in p:
        layers += 1
    return layers


def awd_lstm(case, p, t):
    x = F.embedding(t["tokens"], p["embedding.weight"])
    for layer in range(1, count(p, "lstm") + 1):
        x, _ = make_lstm(p, f"lstm{layer}")(x)
    logits = F.linear(x, p["embedding.weight"], p["softmax.bias"])
    loss = F.cross_entropy(logits.flatten(0, 1), t["targets"].flatten(), label_smoothing=case["label_smoothing"])
    return loss + 2 * x.pow(2).mean() + (x[1:] - x[:-1]).pow(2).mean()


def smoothed(case, logits, targets):
    """Padding is 0; the mean is over all other targets."""
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=0,
                           label_smoothing=case["label_smoothing"])


def gnmt(case, p, t):
    source, lengths = t["source"].t(), t["source_lengths"]
    x = F.embedding(source, p["embedding.weight"])
    packed = pack_padded_sequence(x, lengths, enforce_sorted=False)
    both, _ = make_lstm(p, "encoder.lstm1", "encoder.lstm1_reverse")(packed)
    x, _ = pad_packed_sequence(both)
    for layer in range(2, count(p, "encoder.lstm") + 1):
        y, _ = make_lstm(p, f"encoder.lstm{layer}")(x)
        x = x + y if layer > 2 else y
    memory = x.transpose(0, 1)
    y, _ = make_lstm(p, "decoder.lstm1")(F.embedding(t["target_in"].t(), p["embedding.weight"]))
    weight = p["attention.score_weight"]
    v = weight / weight.norm() * p["attention.score_scale"]
    queries = F.linear(y.transpose(0, 1), p["attention.query_weight"]).unsqueeze(2)
    keys = F.linear(memory, p["attention.key_weight"]).unsqueeze(1)
    scores = torch.tanh(queries + keys + p["attention.score_bias"]).matmul(v)
    padding = torch.arange(memory.shape[1]) >= lengths.unsqueeze(1)
    weights = scores.masked_fill(padding.unsqueeze(1), -math.inf).softmax(-1)
    context = weights.bmm(memory).transpose(0, 1)
    for layer in range(2, count(p, "decoder.lstm") + 1):
        z, _ = make_lstm(p, f"decoder.lstm{layer}")(torch.cat((y, context), 2))
        y = y + z if layer > 2 else z
    return smoothed(case, F.linear(y, p["softmax.weight"], p["softmax.bias"]).transpose(0, 1), t["target_out"])


def transformer(case, p, t):
    features = p["embedding.weight"].shape[1]

    def embed(ids):
        place = torch.arange(ids.shape[1]).unsqueeze(1).double()
        angle = place * 10000 ** (-torch.arange(0, features, 2).double() / features)
        positions = torch.stack((angle.sin(), angle.cos()), 2).flatten(1)
        # float32 at best: so the models have them.
        positions = positions.float().to(p["embedding.weight"].dtype)
        return F.embedding(ids, p["embedding.weight"]) * math.sqrt(features) + positions

    def norm(name, x):
        return F.layer_norm(x, (features,), p[name + ".weight"], p[name + ".bias"], 1e-5)

    def attend(name, x, memory, padding=None, causal=None):
        y, _ = F.multi_head_attention_forward(
            x.transpose(0, 1), memory.transpose(0, 1), memory.transpose(0, 1), features, case["heads"],
            p[name + ".in_weight"], None, None, None, False, 0.0, p[name + ".out_weight"], None, training=True,
            key_padding_mask=padding, attn_mask=causal, need_weights=False)
        return y.transpose(0, 1)

    def feed(name, x):
        inner = F.relu(F.linear(x, p[name + ".fc1.weight"], p[name + ".fc1.bias"]))
        return F.linear(inner, p[name + ".fc2.weight"], p[name + ".fc2.bias"])

    padding = torch.arange(t["source"].shape[1]) >= t["source_lengths"].unsqueeze(1)
    causal = torch.ones(t["target_in"].shape[1], t["target_in"].shape[1], dtype=torch.bool).triu(1)
    x = embed(t["source"])
    for name in (f"encoder{i + 1}" for i in range(count(p, "encoder"))):
        n = norm(name + ".norm1", x)
        x = x + attend(name + ".self_attention", n, n, padding)
        x = x + feed(name + ".feed", norm(name + ".norm2", x))
    memory = norm("encoder_norm", x)
    y = embed(t["target_in"])
    for name in (f"decoder{i + 1}" for i in range(count(p, "decoder"))):
        n = norm(name + ".norm1", y)
        y = y + attend(name + ".self_attention", n, n, causal=causal)
        y = y + attend(name + ".cross_attention", norm(name + ".norm2", y), memory, padding)
        y = y + feed(name + ".feed", norm(name + ".norm3", y))
    return smoothed(case, F.linear(norm("decoder_norm", y), p["embedding.weight"]), t["target_out"])


def train(case, folder, dtype):
    start = torch.from_numpy(numpy.fromfile(folder / "start.bin", numpy.float32))
    parameters, offset = {}, 0
    for parameter in case["parameters"]:
        size = int(numpy.prod(parameter["shape"]))
        values = start[offset:offset + size].reshape(parameter["shape"]).to(dtype).clone()
        parameters[parameter["name"]] = values.requires_grad_(True)
        offset += size
    tensors = {tensor["name"]: torch.from_numpy(
        numpy.fromfile(folder / (tensor["name"] + ".bin"), numpy.int64).reshape(tensor["shape"]))
        for tensor in case["tensors"]}
    loss = {"awd-lstm": awd_lstm, "gnmt": gnmt, "transformer": transformer}[case["model"]](case, parameters, tensors)
    loss.backward()
    flat = numpy.concatenate([p.grad.numpy().astype(numpy.float64).ravel() for p in parameters.values()])
    flat.tofile(folder / f"gradients_{str(dtype).split('.')[1]}.bin")
    return loss.item()


def main():
    torch.set_num_threads(2)
    folder = pathlib.Path(sys.argv[1])
    case = json.loads((folder / "case.json").read_text())
    losses = {str(dtype).split(".")[1]: train(case, folder, dtype) for dtype in (torch.float64, torch.float32)}
    (folder / "result.json").write_text(json.dumps({"torch": torch.__version__, "loss": losses}))


if __name__ == "__main__":
    main()
