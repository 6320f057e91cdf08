"""Mode train of text_peer.py: a whole training by a task file, on the token files of mlbench's cache."""
import array
import math
import pathlib
import random
import time
import tomllib

import torch

import text_peer_models as models

PAD, BEGIN, END = 0, 2, 3


class Records:
    """A token file (src/mlbench/dataset/cached_tokens.h): `tokens` of all records, record i from offsets[i] on."""

    def __init__(self, path):
        data = path.read_bytes()
        if data[:14] != b"mlbench tokens":
            raise SystemExit(f"{path}: no token file")
        version, records, tokens, self.vocabulary, _ = array.array("q", data[16:56])
        if version != 1:
            raise SystemExit(f"{path}: token files of version {version}; expected 1")
        self.tokens = torch.frombuffer(bytearray(data[128:128 + 4 * tokens]), dtype=torch.int32).long()
        begin = 128 + (4 * tokens + 63) // 64 * 64
        self.offsets = array.array("q", data[begin:begin + 8 * (records + 1)])

    def __len__(self):
        return len(self.offsets) - 1

    def length(self, i):
        return self.offsets[i + 1] - self.offsets[i]

    def __getitem__(self, i):
        return self.tokens[self.offsets[i]:self.offsets[i + 1]]


def find(folder, split, column):
    """The one token file below the folder of that split and column ("tokens": of a text)."""
    name = f"{split}.tokens" if column == "tokens" else f"{split}.{column}.tokens"
    found = sorted(pathlib.Path(folder).rglob(name))
    if len(found) != 1:
        raise SystemExit(f"{folder}: {len(found)} files named {name}; expected one")
    return Records(found[0])


# ---- a language model ----

class Text:
    """Columns of the text; the draws of a step's positions are ours in distribution, not in number."""

    def __init__(self, task, options):
        self.data, self.random = task["data"], random.Random(options.seed)
        self.columns = task["batch_size"] * options.ranks
        self.train = self.in_columns(find(options.cache, "train", "tokens"), self.columns)
        self.test = self.in_columns(find(options.cache, "test", "tokens"), self.data["evaluation_batch"])

    @staticmethod
    def in_columns(records, columns):
        height = len(records.tokens) // columns
        return records.tokens[:height * columns].view(columns, height).t().contiguous()

    def pieces(self, text, drawn):
        first = 0
        while first + 1 < len(text):
            mean = self.data["bptt"]
            if drawn:
                if self.random.random() < self.data["short_probability"]:
                    mean /= 2
                mean = max(5, int(self.random.gauss(mean, self.data["bptt_deviation"])))
            end = min(first + int(mean), len(text) - 1)
            yield {"tokens": text[first:end], "targets": text[first + 1:end + 1], "carried": first > 0}
            first = end

    def epoch(self):
        """Steps: (micro-batches, divisor of the sum of losses, relative length)."""
        for piece in self.pieces(self.train, True):
            positions = len(piece["tokens"])
            yield [piece], positions * self.columns, positions / self.data["bptt"]

    def evaluation(self):
        return self.pieces(self.test, False)

    def steps_per_epoch(self):
        return math.ceil((len(self.train) - 1) / self.data["bptt"])


# ---- translation ----

class Pairs:
    def __init__(self, task, options):
        self.task, self.data, self.random = task, task["data"], random.Random(options.seed)
        self.ranks = options.ranks
        self.train = [find(options.cache, "train", side) for side in ("source", "target")]
        self.test = [find(options.cache, "test", side) for side in ("source", "target")]
        most = self.data.get("max_length", 0) or 10**9
        source, target = self.train
        self.kept = [i for i in range(len(source)) if max(source.length(i), target.length(i)) <= most]

    def length(self, i):
        return max(side.length(i) for side in self.train) + 1

    def batch(self, pair, numbers, cut=0):
        def padded(rows):
            width = max(len(row) for row in rows)
            multiple = self.data.get("length_multiple", 1)
            out = torch.full((len(rows), -(-width // multiple) * multiple), PAD)
            for i, row in enumerate(rows):
                out[i, :len(row)] = torch.as_tensor(row)
            return out

        sources, targets = ([side[i][:cut or None].tolist() for i in numbers] for side in pair)
        return {"source": padded([row + [END] for row in sources]),
                "source_lengths": torch.tensor([len(row) + 1 for row in sources]),
                "target_in": padded([[BEGIN] + row for row in targets]),
                "target_out": padded([row + [END] for row in targets])}

    def units(self):
        """Sentences of similar length, of at most batch_size tokens with padding."""
        most, multiple = self.task["batch_size"], self.data.get("length_multiple", 1)
        shuffled = self.random.sample(self.kept, len(self.kept))
        unit, units = [], []
        for i in sorted(shuffled, key=self.length):
            width = -(-self.length(i) // multiple) * multiple
            if (len(unit) + 1) * width > most:
                units.append(unit)
                unit = []
            unit.append(i)
        return self.random.sample(units + [unit], len(units) + 1)

    def global_batches(self):
        wanted = self.task["global_batch"]
        if self.data["batching"] == "tokens":
            units, count = self.units(), max(wanted // self.task["batch_size"], 1)
            return [units[i:i + count] for i in range(0, len(units), count)]
        shuffled, most = self.random.sample(self.kept, len(self.kept)), self.task["batch_size"]
        batches = []
        for first in range(0, len(shuffled), wanted):
            chosen = sorted(shuffled[first:first + wanted], key=self.length)
            batches.append([chosen[i:i + most] for i in range(0, len(chosen), most)])
        return batches

    def epoch(self):
        for units in self.global_batches():
            if self.task.get("loss_divisor") == "local_samples":
                divisor = sum(map(len, units)) / self.ranks  # each rank's mean over its sentences; ranks are summed
            else:
                divisor = sum(self.train[1].length(i) + 1 for unit in units for i in unit)
            yield [self.batch(self.train, unit) for unit in units], divisor, 1

    def evaluation(self):
        numbers = sorted(range(len(self.test[0])), key=lambda i: -self.test[0].length(i))
        for first in range(0, len(numbers), 64):
            yield self.batch(self.test, numbers[first:first + 64], self.data.get("evaluation_max_length", 0))

    def steps_per_epoch(self):
        return len(self.global_batches())


# ---- schedules ----

def rate(task, ranks, step, steps_per_epoch, total_steps, relative_length):
    """docs/tasks/ and src/mlbench/schedule/schedule.h."""
    schedule, lr = task["schedule"], task["optimizer"]["lr"]
    full = lr * (math.sqrt(ranks) if schedule.get("scaling") == "sqrt" else 1)
    warmup = schedule.get("warmup", "none")
    length = {"worker_epochs": round(schedule.get("warmup_epochs", 0) * ranks * steps_per_epoch),
              "none": 0}.get(warmup, schedule.get("warmup_steps", 0))
    result = full
    if step < length:
        start = 0 if schedule.get("warmup_from") == "zero" else lr
        result = (full * schedule["warmup_factor"] ** ((length - step) / length) if warmup == "exponential"
                  else start + (full - start) * step / length)
    if schedule["decay"] == "fractions":
        result *= schedule["factor"] ** sum(step >= round(f * total_steps) for f in schedule["fractions"])
    if schedule["decay"] == "inverse_sqrt_after_warmup" and step >= length:
        result *= math.sqrt(length / step)
    return result * (relative_length if schedule.get("by_length") else 1)


class Average:
    """NT-ASGD: the mean of the weights behind every update since the trigger."""

    def __init__(self, model, patience):
        self.model, self.patience = model, patience
        self.best, self.bad, self.count, self.mean = math.inf, 0, 0, None

    def on_evaluation(self, loss):
        self.bad = 0 if loss < self.best else self.bad + 1
        self.best = min(self.best, loss)
        if self.patience and self.bad >= self.patience and self.mean is None:
            self.mean = {}

    def add(self):
        if self.mean is None:
            return
        self.count += 1
        for name, parameter in self.model.table.items():
            if self.count <= 2:
                self.mean[name] = parameter.detach().clone()
            else:
                self.mean[name] += (parameter.detach() - self.mean[name]) / (self.count - 1)

    def swap(self):
        if self.mean:
            with torch.no_grad():
                for name, parameter in self.model.table.items():
                    kept = parameter.detach().clone()
                    parameter.copy_(self.mean[name])
                    self.mean[name] = kept


def evaluate(model, workload, device):
    """(negative log likelihood per token, tokens)"""
    model.eval()
    total, tokens, state = 0.0, 0, None
    with torch.no_grad():
        for batch in workload.evaluation():
            targets = batch["targets"] if "targets" in batch else batch["target_out"]
            moved = {name: tensor.to(device) for name, tensor in batch.items() if torch.is_tensor(tensor)}
            _, nll, _, state = model(moved, state)
            total += nll.item()
            tokens += targets.numel() if "targets" in batch else (targets != PAD).sum().item()
    model.train()
    return total / tokens, tokens


def train(options):
    torch.set_num_threads(options.threads)
    torch.set_num_interop_threads(1)
    torch.manual_seed(options.seed)
    task = tomllib.loads(pathlib.Path(options.task).read_text())
    workload = (Text if task["data"]["batching"] == "columns" else Pairs)(task, options)
    model = models.make_model(task).to(options.device)
    optimizer = models.make_optimizer(model, task)
    average = Average(model, task["optimizer"].get("averaging_patience", 0))
    clip = task["optimizer"].get("clip_norm", 0)
    steps_per_epoch = workload.steps_per_epoch()
    total_steps = round(task["epochs"] * steps_per_epoch)
    epochs = math.ceil(options.epochs or task["epochs"])
    begin, training_s, step = time.perf_counter(), 0.0, 0
    for epoch in range(1, epochs + 1):
        epoch_begin, state, losses, weight = time.perf_counter(), None, 0.0, 0
        for pieces, divisor, relative_length in workload.epoch():
            optimizer.zero_grad()
            for piece in pieces:
                batch = {name: tensor.to(options.device) for name, tensor in piece.items() if torch.is_tensor(tensor)}
                loss, _, penalty, state = model(batch, state if piece.get("carried") else None)
                # The penalty belongs to the mean: it is one of its share.
                share = batch["targets"].numel() / divisor if "targets" in batch else 0
                (loss / divisor + penalty * share).backward()
                losses += loss.item()
                weight += batch["targets"].numel() if "targets" in batch else (batch["target_out"] != PAD).sum().item()
            if clip > 0:
                torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
            for group in optimizer.param_groups:
                group["lr"] = rate(task, options.ranks, step, steps_per_epoch, total_steps, relative_length)
            optimizer.step()
            average.add()
            step += 1
        epoch_s = time.perf_counter() - epoch_begin
        training_s += epoch_s
        average.swap()
        nll, tokens = evaluate(model, workload, options.device)
        models.save(model.table, options.output)
        average.swap()
        average.on_evaluation(nll)
        yield {"peer": "pytorch " + torch.__version__, "task": task["name"], "seed": options.seed, "ranks": options.ranks,
               "epoch": epoch, "steps": step, "train_s": training_s, "train_loss": losses / weight,
               "perplexity": math.exp(nll), "evaluation_tokens": tokens, "averaged": average.mean is not None,
               "tokens_per_s": weight / epoch_s}
        if options.minutes and time.perf_counter() - begin > 60 * options.minutes:
            break
