"""CIFAR-10 from the binary files, without torchvision."""

import os
import tarfile

import torch

_FOLDER = "cifar-10-batches-bin"
_ARCHIVES = ("cifar-10-binary.tar", "cifar-10-binary.tar.gz", "cifar-10-binary.tar.xz")
_TRAIN = ["data_batch_%d.bin" % i for i in range(1, 6)]
_TEST = ["test_batch.bin"]
_RECORD_BYTES = 1 + 3 * 32 * 32


class CIFAR10V1(torch.utils.data.Dataset):
    """Images, less the mean and divided by the deviation, with their class. Those for training are flipped at random,
    and cut at random out of their picture with a margin of 4 zeros; PyTorch's random numbers decide.

    `root` or its folder cifar-10 holds cifar-10-batches-bin or the archive of it. Nothing is ever downloaded here:
    `download` is taken, and where the files are missing the error says how to fetch them.
    """

    def __init__(self, root, train=True, download=False):
        self.train = train
        text = _read(root, _TRAIN if train else _TEST)
        if not text or len(text) % _RECORD_BYTES:
            raise ValueError("%s: expected records of %d bytes; got %d bytes" % (root, _RECORD_BYTES, len(text)))
        records = torch.frombuffer(text, dtype=torch.uint8).view(-1, _RECORD_BYTES)
        self.targets = records[:, 0].tolist()
        self.data = records[:, 1:].reshape(-1, 3, 32, 32)
        self._mean = torch.tensor((0.4914, 0.4822, 0.4465)).view(3, 1, 1)
        self._deviation = torch.tensor((0.2023, 0.1994, 0.2010)).view(3, 1, 1)

    def __len__(self):
        return len(self.targets)

    def __getitem__(self, index):
        image = self.data[index].float() / 255
        if self.train:
            flip, top, left = torch.rand(()) < 0.5, *torch.randint(9, (2,)).tolist()
            image = torch.nn.functional.pad(image.flip(2) if flip else image, (4, 4, 4, 4))
            image = image[:, top : top + 32, left : left + 32]
        return (image - self._mean) / self._deviation, self.targets[index]


def _read(root, names):
    folders = (root, os.path.join(root, "cifar-10"))
    for folder in folders:
        below = os.path.join(folder, _FOLDER)
        if os.path.isdir(below):
            text = bytearray()
            for name in names:
                with open(os.path.join(below, name), "rb") as file:
                    text += file.read()
            return text
        for archive in _ARCHIVES:
            path = os.path.join(folder, archive)
            if os.path.exists(path):
                return _read_archive(path, names)
    raise FileNotFoundError(
        "there is neither %s nor one of %s in %s: `mlbench data fetch cifar-10` fetches CIFAR-10"
        % (_FOLDER, ", ".join(_ARCHIVES), " or ".join(folders))
    )


def _read_archive(path, names):
    parts = {}
    with tarfile.open(path, "r|*") as archive:
        for member in archive:
            if os.path.basename(member.name) in names and member.isfile():
                parts[os.path.basename(member.name)] = archive.extractfile(member).read()
                if len(parts) == len(names):
                    break
    missing = [name for name in names if name not in parts]
    if missing:
        raise ValueError("%s lacks %s" % (path, ", ".join(missing)))
    return bytearray().join(parts[name] for name in names)
