"""MNIST or Fashion-MNIST with Keras on TensorFlow, reported to mlbench (docs/keras.md).

    mlbench run keras 2 --env PYTHONPATH=python -- python3 examples/keras/train_mnist.py {run_id} --data FOLDER

Each rank has a part of the data and all of the model. What a script for one process lacks is marked: the collectives of
tf.distribute average the gradients, and the callback tells mlbench what fit() does.
"""

import argparse
import gzip
import os
import struct

import keras
import numpy
import tensorflow as tf
from keras import layers

from mlbench import TopKAccuracy, Tracker, declared_goal, time_to_accuracy_goal
from ranks import Ranks
from tracker_callback import TrackerCallback


def read_idx(folder, name):
    """A file of the MNIST format, packed or plain."""
    path = os.path.join(folder, name)
    opened = gzip.open(path + ".gz", "rb") if os.path.exists(path + ".gz") else open(path, "rb")
    with opened as file:
        dimensions = struct.unpack(">HBB", file.read(4))[2]
        shape = struct.unpack(">%dI" % dimensions, file.read(4 * dimensions))
        return numpy.frombuffer(file.read(), numpy.uint8).reshape(shape)


def load(folder, part):
    images = read_idx(folder, part + "-images-idx3-ubyte")[..., None].astype("float32") / 255
    return images, read_idx(folder, part + "-labels-idx1-ubyte").astype("int32")


def make_model(rank):
    return keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            *(layers.Conv2D(32, 5, padding="same", activation="relu"), layers.MaxPooling2D()),
            *(layers.Conv2D(64, 5, padding="same", activation="relu"), layers.MaxPooling2D()),
            *(layers.Flatten(), layers.Dense(1024, activation="relu"), layers.Dropout(0.4, seed=rank), layers.Dense(10)),
        ]
    )


class AveragingAdam(keras.optimizers.Adam):
    """Adam of the mean gradient of all ranks."""

    def __init__(self, ranks, **options):
        super().__init__(**options)
        self._ranks = ranks

    def apply(self, grads, trainable_variables=None):
        super().apply(self._ranks.means(grads), trainable_variables)


def train(options):
    threads = int(os.environ.get("OMP_NUM_THREADS", "1"))
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    ranks = Ranks(os.environ)  # mlbench
    keras.utils.set_random_seed(1234)  # one start for all ranks

    images, labels = load(options.data, "train")
    part = slice(ranks.rank, None, ranks.size)  # mlbench: this rank's samples
    validation = [values[part] for values in load(options.data, "t10k")]
    # Each rank has as many batches, and all of them are full.
    count = len(labels) // ranks.size // options.batch_size * options.batch_size

    model = make_model(ranks.rank)
    model.compile(
        optimizer=AveragingAdam(ranks, learning_rate=options.lr * ranks.size),  # mlbench
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        jit_compile=False,  # XLA has no collectives on a CPU
    )
    goal = declared_goal() or time_to_accuracy_goal(options.target)
    tracker = Tracker([TopKAccuracy(1)], options.run_id, ranks.rank, goal=goal)
    model.fit(
        *(images[part][:count], labels[part][:count]),
        batch_size=options.batch_size,
        epochs=options.epochs,
        validation_data=validation,
        verbose=2,
        callbacks=[TrackerCallback(tracker, options.batch_size, len(validation[1]), ranks.sums)],  # mlbench
    )


def main():
    parser = argparse.ArgumentParser(description="MNIST with Keras")
    parser.add_argument("run_id", help="the run's id: {run_id}")
    parser.add_argument("--data", required=True, help="folder with the four files of MNIST or Fashion-MNIST")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--batch-size", type=int, default=100, help="of each rank")
    parser.add_argument("--lr", type=float, default=1e-4, help="of one rank")
    parser.add_argument("--target", type=float, default=99.2, help="validation accuracy in percent that ends it")
    train(parser.parse_args())


if __name__ == "__main__":
    main()
