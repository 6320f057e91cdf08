"""Reads shards of images by Python's tarfile, or by the published form of TensorFlow's records, for the tests of this folder.

usage: shards_oracle.py tar|tfrecord SHARD...

Prints a JSON list of {"key", "label", "sha256", "text", "format"} per sample, in order; "text" and "format" are those of
records. Fails on a wrong checksum.
"""
import hashlib
import json
import struct
import sys
import tarfile

POLYNOMIAL = 0x82F63B78  # of CRC-32C, reflected (RFC 3720)


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (POLYNOMIAL if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


assert crc32c(b"123456789") == 0xE3069283


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records_of(file):
    while head := file.read(12):
        length, checksum = struct.unpack("<QI", head)
        assert checksum == masked(head[:8]), "checksum of a length"
        data = file.read(length)
        assert struct.unpack("<I", file.read(4)) == (masked(data),), "checksum of a record"
        yield data


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def fields_of(message):
    """The fields of a message of protobuf: (number, value), of which texts are bytes."""
    at = 0
    while at < len(message):
        tag, at = varint(message, at)
        value, at = varint(message, at)
        if tag & 7 == 2:
            value, at = message[at : at + value], at + value
        yield tag >> 3, value


def example_of(record):
    """The features of a tf.train.Example: each has one text or number."""
    features = {}
    ((_, message),) = fields_of(record)
    for _, entry in fields_of(message):
        (_, name), (_, feature) = fields_of(entry)
        ((kind, values),) = fields_of(feature)
        ((_, value),) = fields_of(values)
        features[name.decode()] = varint(value, 0)[0] if kind == 3 else value
    return features


def samples_of_records(path):
    with open(path, "rb") as file:
        for record in records_of(file):
            example = example_of(record)
            yield {
                "key": example["image/filename"].decode(),
                "label": example["image/class/label"],
                "sha256": hashlib.sha256(example["image/encoded"]).hexdigest(),
                "text": example["image/class/text"].decode(),
                "format": example["image/format"].decode(),
            }


def samples_of_tar(path):
    with tarfile.open(path, "r:") as tar:
        members = [(member.name, tar.extractfile(member).read()) for member in tar]
    for (image, data), (label, number) in zip(members[::2], members[1::2], strict=True):
        key, _, ending = image.rpartition(".")
        assert label == key + ".cls" and ending in ("jpg", "png"), (image, label)
        yield {"key": key, "label": int(number), "sha256": hashlib.sha256(data).hexdigest(), "text": "", "format": ""}


def main():
    read = {"tar": samples_of_tar, "tfrecord": samples_of_records}[sys.argv[1]]
    print(json.dumps([sample for path in sys.argv[2:] for sample in read(path)]))


main()
