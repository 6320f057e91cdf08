"""The models of tasks 3a, 4a, 4b in plain PyTorch, by the equations of docs/tasks/. Parameters have our neutral names."""
import json
import math
import struct

import torch
import torch.nn as nn
import torch.nn.functional as F

PAD = 0


class Named(nn.Module):
    """Parameters by neutral names, in the neutral order."""

    def __init__(self):
        super().__init__()
        self.table = {}

    def add(self, name, shape, start):
        parameter = nn.Parameter(start(torch.empty(shape)))
        self.register_parameter(name.replace(".", "__"), parameter)
        self.table[name] = parameter

    def __getitem__(self, name):
        return getattr(self, name.replace(".", "__"))

    def add_lstm(self, name, inputs, hidden, start, hidden_bias=None):
        self.add(name + ".weight_ih", (4 * hidden, inputs), start)
        self.add(name + ".weight_hh", (4 * hidden, hidden), start)
        self.add(name + ".bias_ih", (4 * hidden,), start)
        self.add(name + ".bias_hh", (4 * hidden,), hidden_bias or start)

    def lstm(self, name, x, state=None, weight_dropout=0.0):
        """x [positions, batch, inputs] to ([positions, batch, hidden], state)."""
        hidden = self[name + ".weight_hh"].shape[1]
        if state is None:
            zeros = x.new_zeros(1, x.shape[1], hidden)
            state = (zeros, zeros)
        weight = F.dropout(self[name + ".weight_hh"], weight_dropout, self.training)
        flat = [self[name + ".weight_ih"], weight, self[name + ".bias_ih"], self[name + ".bias_hh"]]
        y, h, c = torch.lstm(x, state, flat, True, 1, 0.0, self.training, False, False)
        return y, (h, c)


def uniform(scale):
    return lambda tensor: tensor.uniform_(-scale, scale)


def constant(value):
    return lambda tensor: tensor.fill_(value)


def glorot(tensor):
    return tensor.uniform_(-1, 1).mul_(math.sqrt(6 / sum(tensor.shape)))


def three_glorots(tensor):
    """Queries, keys and values: each a matrix of its own."""
    for part in tensor.chunk(3):
        glorot(part)
    return tensor


def without_padding(tensor):
    tensor[PAD] = 0
    return tensor


def locked(x, p, training):
    """One mask for all positions of x [positions, batch, features]."""
    if not training or p == 0:
        return x
    return x * x.new_empty(1, *x.shape[1:]).bernoulli_(1 - p).div_(1 - p)


class AwdLstm(Named):
    SIZES = {"full": (400, 1150, 3), "small": (200, 200, 2), "tiny": (13, 20, 2)}

    def __init__(self, vocabulary, options):
        super().__init__()
        self.options = options
        embedding, hidden, self.layers = self.SIZES[options["size"]]
        self.add("embedding.weight", (vocabulary, embedding), uniform(0.1))
        inputs = embedding
        for layer in range(1, self.layers + 1):
            outputs = embedding if layer == self.layers else hidden
            self.add_lstm(f"lstm{layer}", inputs, outputs, uniform(1 / math.sqrt(outputs)))
            inputs = outputs
        self.add("softmax.bias", (vocabulary,), constant(0))

    def forward(self, batch, state):
        """(sum of losses, sum of negative log likelihoods, penalty, state) of {"tokens", "targets"}."""
        o = self.options
        weight = self["embedding.weight"]
        x = F.embedding(batch["tokens"], weight)
        if self.training and o["embedding_dropout"] > 0:
            keep = 1 - o["embedding_dropout"]
            x = x * weight.new_empty(weight.shape[0], 1).bernoulli_(keep).div_(keep)[batch["tokens"]]
        x = locked(x, o["input_dropout"], self.training)
        states = []
        for layer in range(1, self.layers + 1):
            x, last = self.lstm(f"lstm{layer}", x, state[layer - 1] if state else None, o["weight_dropout"])
            states.append(tuple(part.detach() for part in last))
            if layer < self.layers:
                x = locked(x, o["hidden_dropout"], self.training)
        dropped = locked(x, o["output_dropout"], self.training)
        penalty = 0
        if self.training:
            penalty = o["activation_regularisation"] * dropped.square().mean()
            if len(x) > 1:
                penalty = penalty + o["temporal_regularisation"] * (x[1:] - x[:-1]).square().mean()
        logits = F.linear(dropped.flatten(0, 1), weight, self["softmax.bias"])
        loss = F.cross_entropy(logits.float(), batch["targets"].flatten(), reduction="sum")
        return loss, loss.detach(), penalty, states


def smoothed(logits, targets, smoothing, training):
    """(sum of losses, sum of negative log likelihoods) over targets that are no padding."""
    logits, targets = logits.flatten(0, 1).float(), targets.flatten()
    loss = F.cross_entropy(logits, targets, ignore_index=PAD, reduction="sum", label_smoothing=smoothing)
    if training or smoothing == 0:
        return loss, loss.detach()
    return loss, F.cross_entropy(logits, targets, ignore_index=PAD, reduction="sum")


def reversed_sentences(x, lengths):
    """x [positions, batch, features], each sentence from its end to its beginning; padding stays where it is."""
    positions = torch.arange(x.shape[0], device=x.device).unsqueeze(1)
    places = torch.where(positions < lengths, lengths - 1 - positions, positions)
    return x.gather(0, places.unsqueeze(2).expand_as(x))


class Gnmt(Named):
    SIZES = {"full": (1024, 4), "small": (256, 2), "tiny": (16, 3)}

    def __init__(self, vocabulary, options, smoothing):
        super().__init__()
        self.dropout, self.smoothing = options["dropout"], smoothing
        h, self.layers = self.SIZES[options["size"]]
        start, zeros = uniform(0.1), constant(0)
        self.add("embedding.weight", (vocabulary, h), start)
        self.add_lstm("encoder.lstm1", h, h, start, zeros)
        self.add_lstm("encoder.lstm1_reverse", h, h, start, zeros)
        for layer in range(2, self.layers + 1):
            self.add_lstm(f"encoder.lstm{layer}", 2 * h if layer == 2 else h, h, start, zeros)
        self.add_lstm("decoder.lstm1", h, h, start, zeros)
        self.add("attention.query_weight", (h, h), start)
        self.add("attention.key_weight", (h, h), start)
        self.add("attention.score_weight", (h,), start)
        self.add("attention.score_scale", (1,), constant(1 / math.sqrt(h)))
        self.add("attention.score_bias", (h,), zeros)
        for layer in range(2, self.layers + 1):
            self.add_lstm(f"decoder.lstm{layer}", 2 * h, h, start, zeros)
        self.add("softmax.weight", (vocabulary, h), start)
        self.add("softmax.bias", (vocabulary,), start)

    def drop(self, x):
        return F.dropout(x, self.dropout, self.training)

    def encode(self, source, lengths):
        x = self.drop(F.embedding(source.t(), self["embedding.weight"]))
        backwards = self.lstm("encoder.lstm1_reverse", reversed_sentences(x, lengths))[0]
        x = torch.cat((self.lstm("encoder.lstm1", x)[0], reversed_sentences(backwards, lengths)), 2)
        for layer in range(2, self.layers + 1):
            y = self.lstm(f"encoder.lstm{layer}", self.drop(x))[0]
            x = x + y if layer > 2 else y
        return x

    def attend(self, queries, memory, lengths):
        """Of queries [T, B, H] to memory [S, B, H]: contexts [T, B, H]."""
        v = self["attention.score_weight"]
        v = self["attention.score_scale"] * v / v.norm()
        q = F.linear(queries, self["attention.query_weight"], self["attention.score_bias"])
        k = F.linear(memory, self["attention.key_weight"])
        scores = torch.tanh(q.transpose(0, 1).unsqueeze(2) + k.transpose(0, 1).unsqueeze(1)) @ v  # [B, T, S]
        behind = torch.arange(memory.shape[0], device=memory.device) >= lengths.unsqueeze(1)
        weights = scores.masked_fill(behind.unsqueeze(1), -math.inf).softmax(2)
        return (weights @ memory.transpose(0, 1)).transpose(0, 1)

    def forward(self, batch, state):
        memory = self.encode(batch["source"], batch["source_lengths"])
        x = self.drop(F.embedding(batch["target_in"].t(), self["embedding.weight"]))
        x = self.lstm("decoder.lstm1", x)[0]
        context = self.attend(x, memory, batch["source_lengths"])
        for layer in range(2, self.layers + 1):
            y = self.lstm(f"decoder.lstm{layer}", self.drop(torch.cat((x, context), 2)))[0]
            x = x + y if layer > 2 else y
        logits = F.linear(x.transpose(0, 1), self["softmax.weight"], self["softmax.bias"])
        return *smoothed(logits, batch["target_out"], self.smoothing, self.training), 0, None


class Transformer(Named):
    SIZES = {"full": (1024, 4096, 16, 6), "small": (128, 512, 4, 3), "tiny": (16, 32, 2, 2)}

    def __init__(self, vocabulary, options, smoothing):
        super().__init__()
        self.options, self.smoothing = options, smoothing
        d, feed, self.heads, self.layers = self.SIZES[options["size"]]
        self.d = d

        def add_norm(name):
            self.add(name + ".weight", (d,), constant(1))
            self.add(name + ".bias", (d,), constant(0))

        def add_attention(name):
            self.add(name + ".in_weight", (3 * d, d), three_glorots)
            self.add(name + ".out_weight", (d, d), glorot)

        def add_feed(name):
            self.add(name + ".fc1.weight", (feed, d), glorot)
            self.add(name + ".fc1.bias", (feed,), constant(0))
            self.add(name + ".fc2.weight", (d, feed), glorot)
            self.add(name + ".fc2.bias", (d,), constant(0))

        self.add("embedding.weight", (vocabulary, d), lambda tensor: without_padding(tensor.normal_(0, d**-0.5)))
        for layer in range(1, self.layers + 1):
            add_norm(f"encoder{layer}.norm1")
            add_attention(f"encoder{layer}.self_attention")
            add_norm(f"encoder{layer}.norm2")
            add_feed(f"encoder{layer}.feed")
        add_norm("encoder_norm")
        for layer in range(1, self.layers + 1):
            add_norm(f"decoder{layer}.norm1")
            add_attention(f"decoder{layer}.self_attention")
            add_norm(f"decoder{layer}.norm2")
            add_attention(f"decoder{layer}.cross_attention")
            add_norm(f"decoder{layer}.norm3")
            add_feed(f"decoder{layer}.feed")
        add_norm("decoder_norm")

    def drop(self, x, name="dropout"):
        return F.dropout(x, self.options[name], self.training)

    def norm(self, name, x):
        return F.layer_norm(x, (self.d,), self[name + ".weight"], self[name + ".bias"], 1e-5)

    def embed(self, ids):
        t = torch.arange(ids.shape[1], device=ids.device, dtype=torch.float32).unsqueeze(1)
        rates = 10000 ** (-torch.arange(0, self.d, 2, device=ids.device, dtype=torch.float32) / self.d)
        places = torch.stack((torch.sin(t * rates), torch.cos(t * rates)), 2).flatten(1)
        return self.drop(math.sqrt(self.d) * F.embedding(ids, self["embedding.weight"]) + places)

    def attention(self, name, x, memory=None, seen=None, causal=False):
        weight = self[name + ".in_weight"]
        if memory is None:
            q, k, v = F.linear(x, weight).chunk(3, 2)
        else:
            q = F.linear(x, weight[:self.d])
            k, v = F.linear(memory, weight[self.d:]).chunk(2, 2)
        q, k, v = (part.unflatten(2, (self.heads, -1)).transpose(1, 2) for part in (q, k, v))
        p = self.options["attention_dropout"] if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, seen, p, causal)
        return F.linear(y.transpose(1, 2).flatten(2), self[name + ".out_weight"])

    def feed(self, name, x):
        y = F.relu(F.linear(x, self[name + ".fc1.weight"], self[name + ".fc1.bias"]))
        return F.linear(self.drop(y, "relu_dropout"), self[name + ".fc2.weight"], self[name + ".fc2.bias"])

    def forward(self, batch, state):
        source = batch["source"]
        places = torch.arange(source.shape[1], device=source.device)
        seen = (places < batch["source_lengths"].unsqueeze(1))[:, None, None, :]
        x = self.embed(source)
        for layer in range(1, self.layers + 1):
            name = f"encoder{layer}"
            x = x + self.drop(self.attention(name + ".self_attention", self.norm(name + ".norm1", x), seen=seen))
            x = x + self.drop(self.feed(name + ".feed", self.norm(name + ".norm2", x)))
        memory = self.norm("encoder_norm", x)
        y = self.embed(batch["target_in"])
        for layer in range(1, self.layers + 1):
            name = f"decoder{layer}"
            y = y + self.drop(self.attention(name + ".self_attention", self.norm(name + ".norm1", y), causal=True))
            y = y + self.drop(self.attention(name + ".cross_attention", self.norm(name + ".norm2", y), memory, seen))
            y = y + self.drop(self.feed(name + ".feed", self.norm(name + ".norm3", y)))
        logits = F.linear(self.norm("decoder_norm", y), self["embedding.weight"])
        return *smoothed(logits, batch["target_out"], self.smoothing, self.training), 0, None


FULL_PARAMETERS = {"awd-lstm": 33556078, "gnmt": 160671297, "transformer": 210808832}


def make_model(task):
    """Of a task file that was read."""
    name, options, vocabulary = task["model"]["name"], task["model"], task["data"]["classes"]
    smoothing = task.get("label_smoothing", 0)
    if name == "awd-lstm":
        return AwdLstm(vocabulary, options)
    return {"gnmt": Gnmt, "transformer": Transformer}[name](vocabulary, options, smoothing)


def make_optimizer(model, task, fused=False):
    o, more = task["optimizer"], {"fused": True} if fused else {}
    if o["name"] == "centralized_adam":
        return torch.optim.Adam(model.parameters(), lr=o["lr"], betas=tuple(o["betas"]), eps=o["eps"], **more)
    return torch.optim.SGD(model.parameters(), lr=o["lr"], weight_decay=o.get("weight_decay", 0), **more)


# ---- safetensors: 8 bytes of length, a JSON header, the data ----

def load(model, path):
    """Into the model's parameters, each of which must be there."""
    with open(path, "rb") as file:
        size, = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(size))
        data = bytearray(file.read())
    with torch.no_grad():
        for name, parameter in model.table.items():
            entry = header[name]
            assert entry["dtype"] == "F32" and entry["shape"] == list(parameter.shape), (name, entry)
            begin, end = entry["data_offsets"]
            parameter.copy_(torch.frombuffer(data, dtype=torch.float32, offset=begin, count=(end - begin) // 4)
                            .view(parameter.shape))


def save(tensors, path):
    """{name: float32 tensor}"""
    header, begin = {}, 0
    for name, tensor in tensors.items():
        end = begin + 4 * tensor.numel()
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [begin, end]}
        begin = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for tensor in tensors.values():
            file.write(tensor.detach().cpu().contiguous().numpy().tobytes())
