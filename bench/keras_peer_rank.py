"""One rank of the speed peer with Keras: the model, the step and its clock. keras_peer.py starts it."""
import json
import os
import pathlib
import resource
import statistics
import time

import keras
import numpy
import tensorflow as tf
from keras import layers

PARAMETERS = 272474
WEIGHT_DECAY = 1e-4
CLASSES = 10


class FusedNorm(layers.Layer):
    """Batch norm by TensorFlow's fused kernel."""

    def build(self, shape):
        channels = (shape[-1],)
        self.gamma = self.add_weight(shape=channels, initializer="ones", name="gamma")
        self.beta = self.add_weight(shape=channels, initializer="zeros", name="beta")
        self.mean = self.add_weight(shape=channels, initializer="zeros", trainable=False, name="mean")
        self.variance = self.add_weight(shape=channels, initializer="ones", trainable=False, name="variance")

    def call(self, x):
        y, mean, variance, *_ = tf.raw_ops.FusedBatchNormV3(
            x=x, scale=self.gamma, offset=self.beta, mean=self.mean, variance=self.variance, epsilon=1e-5,
            exponential_avg_factor=0.1, is_training=True)
        self.mean.assign(mean)
        self.variance.assign(variance)
        return y


def keras_norm():
    return layers.BatchNormalization(momentum=0.9, epsilon=1e-5)


def convolution(outputs, size, stride):
    start = keras.initializers.VarianceScaling(2, "fan_out", "untruncated_normal")
    one = layers.Conv2D(outputs, size, stride, "same" if stride == 1 else "valid", use_bias=False, kernel_initializer=start)
    # Keras would pad an even number of pixels on one side alone where the stride is 2.
    return keras.Sequential([layers.ZeroPadding2D(1), one]) if size == 3 and stride == 2 else one


class Block(layers.Layer):
    def __init__(self, norm, inputs, outputs, stride):
        super().__init__()
        self.conv1, self.norm1 = convolution(outputs, 3, stride), norm()
        self.conv2, self.norm2 = convolution(outputs, 3, 1), norm()
        self.shortcut = []
        if stride != 1 or inputs != outputs:
            self.shortcut = [convolution(outputs, 1, stride), norm()]

    def call(self, x):
        y = self.norm2(self.conv2(tf.nn.relu(self.norm1(self.conv1(x)))))
        for layer in self.shortcut:
            x = layer(x)
        return tf.nn.relu(x + y)


def resnet20(norm):
    chain, inputs = [convolution(16, 3, 1), norm(), layers.ReLU()], 16
    for outputs in (16, 32, 64):
        for i in range(3):
            chain.append(Block(norm, inputs, outputs, 2 if i == 0 and outputs != 16 else 1))
            inputs = outputs
    return keras.Sequential([keras.Input((32, 32, 3)), *chain, layers.GlobalAveragePooling2D(), layers.Dense(CLASSES)])


def average_over(options):
    """A function that averages each of a list of tensors over the ranks; None with one rank."""
    if options.ranks == 1:
        return None
    os.environ["TF_GRPC_REUSE_PORT"] = "1"  # keras_peer.py holds the ports
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver("worker", options.rank, "grpc")
    ring = tf.distribute.experimental.CommunicationOptions(
        implementation=tf.distribute.experimental.CommunicationImplementation.RING)
    strategy = tf.distribute.MultiWorkerMirroredStrategy(resolver, ring)

    def mean(*tensors):
        # all_reduce() wants to know the device of each; in a function, only what is made here has one.
        placed = [tf.identity(tensor) for tensor in tensors]
        return tf.distribute.get_replica_context().all_reduce("MEAN", placed, ring)

    return lambda tensors: strategy.run(mean, args=tuple(tensors))


def make_step(model, jit_compile, average=None):
    """Of images and labels: trains a step, and gives the loss before it."""
    variables = model.trainable_variables
    optimizer = keras.optimizers.SGD(0.02, momentum=0.9, nesterov=True)
    optimizer.build(variables)
    loss_function = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def gradients_of(images, labels):
        with tf.GradientTape() as tape:
            loss = loss_function(labels, model(images, training=True))
        # The task's decay is part of the gradient; Keras's would be apart from the momentum.
        gradients = tape.gradient(loss, variables)
        return loss, [gradient + WEIGHT_DECAY * variable for gradient, variable in zip(gradients, variables, strict=True)]

    if average is not None:  # XLA has no collectives on a CPU
        gradients_of = tf.function(gradients_of, jit_compile=jit_compile)

    def step(images, labels):
        loss, gradients = gradients_of(images, labels)
        optimizer.apply(gradients if average is None else average(gradients), variables)
        return loss

    return tf.function(step, jit_compile=jit_compile and average is None)


def seconds_since_start():
    """Of this process, which the system knows to a hundredth of a second."""
    ticks = int(pathlib.Path("/proc/self/stat").read_text().rsplit(")", 1)[1].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")


def train(options):
    tf.config.threading.set_intra_op_parallelism_threads(options.threads)
    tf.config.threading.set_inter_op_parallelism_threads(options.inter_op)
    average = average_over(options)
    keras.utils.set_random_seed(0)  # one start for all ranks
    model = resnet20(FusedNorm if options.fused_norm else keras_norm)
    assert sum(numpy.prod(one.shape) for one in model.trainable_variables) == PARAMETERS
    random = numpy.random.default_rng(options.rank)
    images = tf.constant(random.random((options.batch, 32, 32, 3), numpy.float32))
    labels = tf.constant(random.integers(CLASSES, size=options.batch, dtype=numpy.int32))
    train_step = make_step(model, options.jit_compile, average)

    def step():
        return float(train_step(images, labels))

    first_loss = step()
    first_step_s = seconds_since_start()
    for _ in range(1, options.warm_up):
        step()
    seconds = []
    for _ in range(options.steps):
        begin = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - begin)
    last_loss = step()
    assert last_loss < first_loss, f"the loss did not fall: {first_loss} -> {last_loss}"
    if options.rank == 0:
        samples = options.ranks * options.batch
        print(json.dumps({
            "peer": f"tensorflow {tf.__version__}, keras {keras.__version__}", "task": options.task,
            "device": options.device, "ranks": options.ranks, "threads": options.threads, "inter_op": options.inter_op,
            "batch": options.batch, "fused_norm": options.fused_norm, "jit_compile": options.jit_compile,
            "steps": options.steps, "parameters": PARAMETERS, "first_step_s": first_step_s,
            # Bytes; as all that is measured with a point, by which ratio.py knows it from settings.
            "peak_rss": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0, "first_loss": first_loss, "last_loss": last_loss,
            "samples_per_s": samples * options.steps / sum(seconds),
            "median_samples_per_s": samples / statistics.median(seconds)}), flush=True)
