"""A Transformer of ours in CTranslate2's form, and its translations. Run by ctranslate2_peer.py, with the Python that
setup_wheels.sh prints:

    ctranslate2_model.py convert MODEL.safetensors SETTINGS.json FOLDER
    ctranslate2_model.py decode FOLDER SOURCES SETTINGS.json BATCHES THREADS TRANSLATIONS

BATCHES are decoded at once, with THREADS each.

The equations are those of src/mlbench/models/transformer.cpp: norms before each sub-layer and behind the last one, one
embedding matrix for sources, targets and (transposed) logits, scaled by sqrt(d); sines and cosines in turn, positions
from 0; no bias in attention nor in the logits; ReLU.
"""
import json
import math
import os
import struct
import sys
import time

import ctranslate2
import numpy as np
from ctranslate2.specs import TransformerSpec

LONGEST = 1024  # positions
SPECIAL = ["<blank>", "<unk>", "<s>", "</s>"]  # ids 0 to 3


def read_safetensors(path):
    with open(path, "rb") as file:
        size, = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(size))
        data = file.read()
    header.pop("__metadata__", None)
    # With "/": of the optimizer and the like.
    return {name: np.frombuffer(data[slice(*entry["data_offsets"])], np.float32).reshape(entry["shape"])
            for name, entry in header.items() if entry["dtype"] == "F32" and "/" not in name}


def sinusoids(features):
    angles = np.arange(LONGEST)[:, None] * 10000.0 ** (-np.arange(0, features, 2) / features)
    return np.stack((np.sin(angles), np.cos(angles)), 2).reshape(LONGEST, features).astype(np.float32)


def convert(model_file, settings_file, folder):
    tensors, settings = read_safetensors(model_file), json.load(open(settings_file))
    vocabulary, features = tensors["embedding.weight"].shape
    taken = set()

    def tensor(name):
        if name not in tensors:
            raise SystemExit(f"{model_file}: no tensor {name}: is it of another size or model?")
        taken.add(name)
        return np.ascontiguousarray(tensors[name])

    def set_norm(spec, name):
        spec.gamma, spec.beta = tensor(name + ".weight"), tensor(name + ".bias")

    def set_attention(spec, name, norm, cross):
        set_norm(spec.layer_norm, norm)
        weight = tensor(name + ".in_weight")
        projections = [weight[:features], weight[features:]] if cross else [weight]
        for linear, one in zip(spec.linear, [*projections, tensor(name + ".out_weight")], strict=True):
            linear.weight = np.ascontiguousarray(one)

    def set_feed(spec, name, norm):
        set_norm(spec.layer_norm, norm)
        for linear, part in ((spec.linear_0, ".fc1"), (spec.linear_1, ".fc2")):
            linear.weight, linear.bias = tensor(name + part + ".weight"), tensor(name + part + ".bias")

    spec = TransformerSpec.from_config(settings["layers"], settings["heads"], pre_norm=True)
    for side, embeddings in ((spec.encoder, spec.encoder.embeddings[0]), (spec.decoder, spec.decoder.embeddings)):
        embeddings.weight = tensor("embedding.weight")
        side.position_encodings.encodings = sinusoids(features)
    spec.decoder.projection.weight = tensor("embedding.weight")
    set_norm(spec.encoder.layer_norm, "encoder_norm")
    set_norm(spec.decoder.layer_norm, "decoder_norm")
    for i, layer in enumerate(spec.encoder.layer, 1):
        name = f"encoder{i}"
        set_attention(layer.self_attention, name + ".self_attention", name + ".norm1", False)
        set_feed(layer.ffn, name + ".feed", name + ".norm2")
    for i, layer in enumerate(spec.decoder.layer, 1):
        name = f"decoder{i}"
        set_attention(layer.self_attention, name + ".self_attention", name + ".norm1", False)
        set_attention(layer.attention, name + ".cross_attention", name + ".norm2", True)
        set_feed(layer.ffn, name + ".feed", name + ".norm3")
    if taken != set(tensors):
        raise SystemExit(f"{model_file}: not converted: {', '.join(sorted(set(tensors) - taken))}")
    tokens = SPECIAL + [str(i) for i in range(len(SPECIAL), vocabulary)]
    spec.register_source_vocabulary(tokens)
    spec.register_target_vocabulary(tokens)
    spec.config.layer_norm_epsilon = 1e-5
    spec.validate()
    spec.optimize()
    os.makedirs(folder)
    spec.save(folder)


def decode(folder, sources_file, settings_file, batches, threads, translations_file):
    settings = json.load(open(settings_file))
    to_token = lambda i: SPECIAL[int(i)] if int(i) < len(SPECIAL) else i
    sources = [[to_token(i) for i in line.split()] + ["</s>"] for line in open(sources_file)]
    translator = ctranslate2.Translator(folder, device="cpu", compute_type="float32",
                                        inter_threads=int(batches), intra_threads=int(threads))
    if translator.compute_type != "float32":
        raise SystemExit(f"CTranslate2 computes in {translator.compute_type}")

    def translate(lines):
        return translator.translate_batch(lines, max_batch_size=settings["batch"], beam_size=settings["beam"],
                                          length_penalty=settings["length_exponent"], max_input_length=0,
                                          max_decoding_length=settings["most_tokens"],
                                          min_decoding_length=settings["least_tokens"],
                                          return_scores=True)

    translate(sorted(sources, key=len)[:settings["batch"]] * int(batches))
    begin = time.perf_counter()
    found = translate(sources)
    seconds = time.perf_counter() - begin
    with open(translations_file, "w") as file:
        for one in found:
            ids = [SPECIAL.index(token) if token in SPECIAL else int(token) for token in one.hypotheses[0]]
            score = one.scores[0] if math.isfinite(one.scores[0]) else None
            file.write(json.dumps({"tokens": ids, "score": score}) + "\n")
    print(json.dumps({"seconds": seconds, "version": ctranslate2.__version__}))


if __name__ == "__main__":
    {"convert": convert, "decode": decode}[sys.argv[1]](*sys.argv[2:])
