"""The ranks of a run as processes of tf.distribute, which wants an address of each beforehand.

Each rank takes a free port. Rank 0 listens at MASTER_ADDR:MASTER_PORT, where the others say theirs and learn all of them.
TensorFlow's servers at these ports have no password: they are for networks in which everybody is trusted.
"""

import json
import os
import socket
import time

PATIENCE_S = 120


def _connect(master):
    """A connection to rank 0, which may start later."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return socket.create_connection(master, timeout=PATIENCE_S)
        except OSError:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.1)


def _gather(master, size, own):
    """Of rank 0: the addresses of all ranks, told to each of them."""
    addresses, connections = {0: own}, []
    with socket.create_server(master) as server:
        server.settimeout(PATIENCE_S)
        while len(addresses) < size:
            connection, _ = server.accept()
            connection.settimeout(PATIENCE_S)
            connections.append(connection.makefile("rw"))
            rank, address = json.loads(connections[-1].readline())
            addresses[rank] = address
    ordered = [addresses[rank] for rank in range(size)]
    for connection in connections:
        connection.write(json.dumps(ordered) + "\n")
        connection.close()
    return ordered


def addresses_of(rank, size, master, port):
    """HOST:PORT of each rank, in their order; `port` is this rank's."""
    if rank == 0:
        return _gather(master, size, "%s:%d" % (master[0], port))
    with _connect(master) as connection, connection.makefile("rw") as stream:
        stream.write(json.dumps([rank, "%s:%d" % (connection.getsockname()[0], port)]) + "\n")
        stream.flush()
        return json.loads(stream.readline())


class Ranks:
    """All ranks of the run, once each of them has made its own. Make it before TensorFlow computes anything."""

    def __init__(self, environment):
        self.rank, self.size = int(environment["RANK"]), int(environment["WORLD_SIZE"])
        if self.size == 1:
            return
        import tensorflow as tf

        master = (environment["MASTER_ADDR"], int(environment["MASTER_PORT"]))
        # TensorFlow's server shares the port with the socket that holds it, so no other program can take it before that.
        os.environ["TF_GRPC_REUSE_PORT"] = "1"
        with socket.socket() as held:
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            held.bind(("", 0))
            cluster = tf.train.ClusterSpec(
                {"worker": addresses_of(self.rank, self.size, master, held.getsockname()[1])}
            )
            resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
                cluster, task_type="worker", task_id=self.rank, rpc_layer="grpc"
            )
            self._strategy = tf.distribute.MultiWorkerMirroredStrategy(resolver)

    def _reduce(self, operation, tensors):
        if self.size == 1:
            return tensors
        import tensorflow as tf

        def all_reduce(*values):
            # all_reduce() wants to know the device of each; in a function, only what is made here has one.
            placed = [tf.identity(value) for value in values]
            return tf.distribute.get_replica_context().all_reduce(operation, placed)

        return self._strategy.run(all_reduce, args=tuple(tensors))

    def means(self, tensors):
        """The mean over the ranks of each of the tensors."""
        return self._reduce("MEAN", tensors)

    def sums(self, numbers):
        """The sum over the ranks of each of the numbers."""
        if self.size == 1:
            return list(numbers)
        import tensorflow as tf

        tensors = [tf.constant(number, tf.float64) for number in numbers]
        return [float(total) for total in tf.function(self._reduce)("SUM", tensors)]
