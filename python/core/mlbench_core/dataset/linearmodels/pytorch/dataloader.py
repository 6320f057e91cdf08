"""Data sets of LIBSVM, from their text files."""

import bz2
import gzip
import lzma
import os

import torch

_FEATURES = {"australian": 14, "duke": 7129, "epsilon": 2000}
# How LIBSVM's page names the files of a set, where that differs from NAME_TYPE.
_PUBLISHED = {("epsilon", "train"): "epsilon_normalized", ("epsilon", "test"): "epsilon_normalized.t"}
_OPENERS = {"": open, ".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}


class LMDBDataset(torch.utils.data.Dataset):
    """Rows of features with [0] or [1] as their target, all in memory.

    `root` or its folder `name` holds the LIBSVM text NAME_TYPE (epsilon_train), or the published file
    (epsilon_normalized, epsilon_normalized.t), plain or packed by gzip, bzip2 or xz. The LMDB files of MLBench's bucket
    are not read, and nothing is downloaded: `download` and `is_image` are taken and not looked at.
    """

    def __init__(self, name, data_type, root, is_image=False, target_transform=None, download=True):
        if name not in _FEATURES or data_type not in ("train", "test"):
            raise ValueError(
                "data set %r, type %r; expected one of: %s, and train or test" % (name, data_type, ", ".join(_FEATURES))
            )
        self.root, self.target_transform = root, target_transform
        self.data, self.targets = _read(_found(root, name, data_type), _FEATURES[name])

    def __len__(self):
        return len(self.targets)

    def __getitem__(self, index):
        target = int(self.targets[index])
        if self.target_transform is not None:
            target = self.target_transform(target)
        return self.data[index], torch.tensor([target])


def _found(root, name, data_type):
    stems = ["%s_%s" % (name, data_type), *filter(None, [_PUBLISHED.get((name, data_type))])]
    for folder in (root, os.path.join(root, name)):
        for stem in stems:
            for ending in _OPENERS:
                path = os.path.join(folder, stem + ending)
                if os.path.isfile(path):
                    return path
    raise FileNotFoundError("there is no %s in %s or its folder %s" % (" or ".join(stems), root, name))


def _read(path, features):
    opener = _OPENERS.get(os.path.splitext(path)[1], open)
    rows, targets = [], []
    with opener(path, "rt", encoding="ascii") as file:
        for number, line in enumerate(file, 1):
            words = line.split()
            if not words:
                continue
            try:
                row, target = _row(words, features)
            except ValueError as error:
                raise ValueError("%s, line %d: %s" % (path, number, error)) from None
            rows.append(row)
            targets.append(target)
    if not rows:
        raise ValueError("%s has no line" % path)
    return torch.stack(rows), torch.tensor(targets)


def _row(words, features):
    label = float(words[0])
    if label not in (-1, 0, 1):
        raise ValueError("the label is %s; expected -1, 0 or 1" % words[0])
    pairs = [word.split(":") for word in words[1:]]
    indices = [int(index) - 1 for index, _ in pairs]
    if indices and not 0 <= min(indices) <= max(indices) < features:
        raise ValueError("an index is beyond the %d features" % features)
    row = torch.zeros(features)
    row[torch.tensor(indices, dtype=torch.int64)] = torch.tensor([float(value) for _, value in pairs])
    return row, int(label > 0)
