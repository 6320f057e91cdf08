#!/usr/bin/env python3
"""One training step in plain PyTorch, in float64, and in float32 or in float32 under autocast to bfloat16: what the
golden test compares against.

Usage: oracle.py FOLDER. Reads FOLDER/case.json (layers, parameters, optimizer, batch) with start.bin, features.bin
(float32), labels.bin (int64) and, where dropout is on, masks.bin, the masks of all its layers back to back. Where the
case has a definition, the model is that of imagenet_models.py, which has the same parameters in the same order. Writes for each of its precisions P (float64,
float32, bf16):
gradients_P.bin and parameters_P.bin (float64, tensors back to back in the order of case.json, buffers among the
parameters) and the losses into result.json.
"""
import json
import pathlib
import sys

import numpy
import torch
import torch.nn.functional as F

import imagenet_models


class Masks:
    """Multiplies with one mask after the other; without values dropout is off."""

    def __init__(self, values):
        self.values = values

    def __call__(self, x):
        if self.values is None:
            return x
        mask, self.values = self.values[:x.numel()], self.values[x.numel():]
        return x * mask.reshape(x.shape)


def forward(layers, p, x, masks, frozen):
    """`p` holds parameters and buffers; the running statistics in it are updated unless `frozen`."""
    for layer in layers:
        kind, name, options = layer["kind"], layer["name"], layer["options"]
        if kind == "conv2d":
            bias = p[name + ".bias"] if options["bias"] else None
            x = F.conv2d(x, p[name + ".weight"], bias, options["stride"], options["padding"])
        elif kind == "batch_norm2d":
            x = F.batch_norm(x, p[name + ".running_mean"], p[name + ".running_var"], p[name + ".weight"],
                             p[name + ".bias"], not frozen, options["momentum"], options["eps"])
        elif kind == "residual":
            x = forward(layer["body"], p, x, masks, frozen) + forward(layer["shortcut"], p, x, masks, frozen)
        elif kind == "adaptive_avg_pool2d":
            x = F.adaptive_avg_pool2d(x, options["size"])
        elif kind == "global_avg_pool2d":
            x = x.mean((2, 3))
        elif kind == "global_avg_max_pool2d":
            x = torch.cat([x.mean((2, 3)), F.adaptive_max_pool2d(x, 1).flatten(1)], 1)
        elif kind == "linear":
            x = F.linear(x, p[name + ".weight"], p[name + ".bias"])
        elif kind in ("max_pool2d", "avg_pool2d"):
            x = getattr(F, kind)(x, options["kernel"], options["stride"], options["padding"])
        elif kind in ("relu", "softplus"):
            x = getattr(F, kind)(x)
        elif kind == "flatten":
            x = torch.flatten(x, 1)
        elif kind == "dropout":
            x = masks(x)
        else:
            raise ValueError("unknown layer " + kind)
    return x


def defined_model(case, parameters, buffers, masks, dtype):
    """The model, which takes the values; then `parameters` and `buffers` are its own."""
    classes = next(reversed(parameters.values())).numel()  # of the last bias
    model = imagenet_models.make(case["definition"], classes, masks).to(dtype)
    for named, own in ((parameters, list(model.parameters())),
                       (buffers, [b for name, b in model.named_buffers() if not name.endswith("num_batches_tracked")])):
        for (name, value), target in zip(named.items(), own, strict=True):
            assert value.shape == target.shape, name
            with torch.no_grad():
                target.copy_(value)
            named[name] = target
    return model


def step(case, folder, precision, dtype):
    def read(name, numpy_type, shape):
        return torch.from_numpy(numpy.fromfile(folder / name, numpy_type).reshape(shape))

    start = read("start.bin", numpy.float32, -1)
    parameters, buffers, offset = {}, {}, 0
    for parameter in case["parameters"]:
        count = int(numpy.prod(parameter["shape"]))
        values = start[offset:offset + count].reshape(parameter["shape"])
        values = values.to(dtype).clone()
        if parameter["trainable"]:
            parameters[parameter["name"]] = values.requires_grad_(True)
        else:
            buffers[parameter["name"]] = values
        offset += count
    features = read("features.bin", numpy.float32, [case["samples"]] + case["sample_shape"]).to(dtype)
    labels = read("labels.bin", numpy.int64, [case["samples"]])
    masks = Masks(read("masks.bin", numpy.float32, -1).to(dtype) if case["dropout"] else None)
    model = defined_model(case, parameters, buffers, masks, dtype) if case["definition"] else None

    optimizer = torch.optim.SGD(parameters.values(), lr=case["lr"], **case["sgd"])
    with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
        outputs = (model(features) if model else
                   forward(case["layers"], parameters | buffers, features, masks, case["frozen"]))
        loss = F.cross_entropy(outputs, labels)
    loss.backward()

    def write(what, tensors):
        flat = numpy.concatenate([t.detach().numpy().astype(numpy.float64).ravel() for t in tensors])
        flat.tofile(folder / f"{what}_{precision}.bin")

    write("gradients", [p.grad for p in parameters.values()])
    optimizer.step()
    write("parameters", list(parameters.values()) + list(buffers.values()))
    return loss.item()


def main():
    torch.set_num_threads(2)
    folder = pathlib.Path(sys.argv[1])
    case = json.loads((folder / "case.json").read_text())
    dtypes = {"float64": torch.float64, "float32": torch.float32, "bf16": torch.float32}
    losses = {precision: step(case, folder, precision, dtypes[precision]) for precision in case["precisions"]}
    (folder / "result.json").write_text(json.dumps({"torch": torch.__version__, "loss": losses}))


if __name__ == "__main__":
    main()
