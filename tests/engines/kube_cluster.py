"""A Kubernetes for tests: control plane and nodes on this machine, without systemd and without a registry.

    with KubeCluster(folder) as kube:            # two real nodes n1, n2, each in a network namespace of its own
        kube.kubectl("get", "nodes")
        kube.load("image.tar")                   # an archive of docker's form, into all nodes

    kube_cluster.py up FOLDER | down FOLDER      the same by hand; down also takes away what a killed test left

Root; what tools/setup.sh kube installs and builds, below MLBENCH_KUBE_DIR (default: mlbench/kube-v1.34.4 below
XDG_CACHE_HOME). A node is kubelet, containerd with runc, and kube-proxy in namespaces of network, mounts and host name;
etcd, the API server and the others are in this machine's own, at an address that only the nodes reach. Two at once have
other names, addresses and ports. Pods cannot reach the outside.
"""

import contextlib
import fcntl
import hashlib
import io
import json
import os
import pathlib
import secrets
import signal
import socket
import subprocess
import sys
import tarfile
import time

from slurm_cluster import Started, alive, environment_of, find, pids

VERSION = "v1.34.4"
BUILT = ["kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "kubectl", "helm", "coredns"]
INSTALLED = ["etcd", "containerd", "containerd-shim-runc-v2", "ctr", "runc", "iptables", "conntrack", "openssl", "ip",
             "nsenter", "unshare", "sysctl"]
SERVICES = "10.96.0"
PAUSE_IMAGE = "mlbench.test/busybox:1"
# A kubelet changes these for the whole machine when it starts.
SETTINGS = ["vm.overcommit_memory", "vm.panic_on_oom", "kernel.panic", "kernel.panic_on_oops", "kernel.keys.root_maxkeys",
            "kernel.keys.root_maxbytes"]
ASK_S, STOP_PATIENCE_S, LONGEST_PATH = 60, 5, 60

CONTAINERD = """version = 2
root = "{node}/root"
state = "{node}/state"
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.aufs"]
[grpc]
  address = "{node}/c.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  netns_mounts_under_state_dir = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "{snapshotter}"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{node}/cni"
"""

COREFILE = """.:53 {{
 bind {address}
 errors
 ready 127.0.0.1:{port}
 kubernetes cluster.local in-addr.arpa {{
  kubeconfig {config}
  ttl 1
 }}
}}
"""

# Mounts and name of a node are its own, and end with its last process; the fixed paths of kubelet are folders of it.
ENTER_NODE = """mount --make-rshared / && hostname "$1" && folder=$2 && shift 2 || exit 1
for path in lib/kubelet lib/cni log/containers run/containerd; do
  mkdir -p "$folder/$path" "/var/$path" && mount --bind "$folder/$path" "/var/$path" || exit 1
done
exec "$@"
"""


def programs_folder():
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return pathlib.Path(os.environ.get("MLBENCH_KUBE_DIR") or os.path.join(cache, "mlbench", f"kube-{VERSION}"))


def busybox():
    return programs_folder() / "build/busybox/bin/busybox"


def missing():
    """What keeps a cluster from being started here, or None."""
    if os.geteuid() != 0:
        return "root"
    absent = [name for name in BUILT if not os.access(programs_folder() / "bin" / name, os.X_OK)]
    absent += [name for name in INSTALLED if not find(name)]
    if not busybox().exists():
        absent.append("busybox")
    if not os.path.isdir("/usr/lib/cni"):
        absent.append("containernetworking-plugins")
    return f"{', '.join(absent)} (tools/setup.sh kube)" if absent else None


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def node_objects(kind, name, rules):
    """A role of the cluster, bound to the user of that name."""
    group = "rbac.authorization.k8s.io"
    role = {"apiVersion": f"{group}/v1", "kind": "ClusterRole", "metadata": {"name": kind}, "rules": rules}
    binding = {"apiVersion": f"{group}/v1", "kind": "ClusterRoleBinding", "metadata": {"name": kind},
               "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": kind if rules else "cluster-admin"},
               "subjects": [{"kind": "User", "name": name, "apiGroup": group}]}
    return [role, binding] if rules else [binding]


class KubeCluster(Started):
    def __init__(self, folder, nodes=2):
        self.folder = pathlib.Path(folder).resolve()
        if len(str(self.folder)) > LONGEST_PATH:
            raise ValueError(f"{self.folder}: unix sockets lie below it, so it has at most {LONGEST_PATH} characters")
        self.nodes = [f"n{number}" for number in range(1, nodes + 1)]
        self.bin = programs_folder() / "bin"
        self.kubeconfig = self.folder / "kubeconfig"
        # A proxy is for what is outside.
        own = ",".join(filter(None, [os.environ.get("NO_PROXY") or os.environ.get("no_proxy"), "127.0.0.1", "10.0.0.0/8"]))
        self.environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig), "KUBECACHEDIR": str(self.folder / "cache"),
                            "PATH": f"{self.bin}:{os.environ.get('PATH', '')}:/usr/sbin:/sbin",
                            "NO_PROXY": own, "no_proxy": own,
                            "HELM_CACHE_HOME": str(self.folder / "helm"), "HELM_CONFIG_HOME": str(self.folder / "helm"),
                            "HELM_DATA_HOME": str(self.folder / "helm")}
        self.number, self.lock, self.settings, self.children = None, None, {}, {}

    # ---- names and addresses, by its number

    @property
    def mark(self):
        return f"mk{self.number}"

    @property
    def address(self):
        return f"10.88.{self.number}.1"

    def address_of(self, node):
        return f"10.88.{self.number}.1{node[1:]}"

    def pods_of(self, node):
        return f"10.{150 + self.number}.{node[1:]}.0/24"

    def take_number(self):
        """One that no other cluster of this machine has, and of which nothing is left."""
        routes = self.run(["ip", "-4", "route", "show", "table", "all"])
        for number in range(100):
            lock = open(f"/run/lock/mlbench-kube-{number}", "w")
            with contextlib.suppress(OSError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                used = f"10.88.{number}." in routes or f"10.{150 + number}." in routes
                if not used and not os.path.exists(f"/run/netns/mk{number}-sw"):
                    self.number, self.lock = number, lock
                    return
            lock.close()
        raise RuntimeError("no number is free: kube_cluster.py down FOLDER takes away what others left")

    # ---- its programs

    def run(self, words, text=None, timeout=ASK_S, **options):
        done = subprocess.run([str(word) for word in words], env=self.environment, input=text, capture_output=True, text=True,
                              timeout=timeout, **options)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(map(str, words))}: exit code {done.returncode}: {done.stderr}{done.stdout}")
        return done.stdout

    def spawn(self, name, words):
        with open(self.folder / "log" / f"{name}.log", "ab") as log:
            child = subprocess.Popen([str(word) for word in words], env=self.environment, stdin=subprocess.DEVNULL, stdout=log,
                                     stderr=log, start_new_session=True, cwd="/")
        (self.folder / "pids" / name).write_text(str(child.pid))
        self.children[name] = child
        return child.pid

    def wait_for(self, condition, what, patience_s, needs=None):
        end = time.monotonic() + patience_s
        while True:
            with contextlib.suppress(RuntimeError, subprocess.TimeoutExpired):
                if condition():
                    return
            if needs and self.children[needs].poll() is not None:
                log = (self.folder / "log" / f"{needs}.log").read_text(errors="replace")
                raise RuntimeError(f"{needs} died: {log[-2000:]}")
            if time.monotonic() > end:
                raise TimeoutError(f"not within {patience_s} s: {what}")
            time.sleep(0.2)

    def kubectl(self, *words, text=None, timeout=ASK_S):
        return self.run([self.bin / "kubectl", *words], text=text, timeout=timeout)

    def get(self, *words):
        return json.loads(self.kubectl("get", *words, "--output", "json"))

    def apply(self, *objects):
        self.kubectl("apply", "--filename", "-", text=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))

    # ---- its start

    def start(self):
        for name in ("pids", "log", "etcd", "pki"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o755)
        self.take_number()
        self.settings = {name: self.run(["sysctl", "-n", name]).strip() for name in SETTINGS}
        (self.folder / "cluster.json").write_text(
            json.dumps({"number": self.number, "nodes": self.nodes, "settings": self.settings}))
        self.make_certificates()
        self.make_network()
        self.start_control_plane()
        self.pause_image = self.folder / "pause.tar"
        self.busybox_image(PAUSE_IMAGE, self.pause_image)
        for node in self.nodes:
            self.start_node(node)
        self.wait_for(lambda: self.kubectl("get", "serviceaccount", "default"), "there is a service account", 30, "kcm")
        self.wait_for(lambda: all(map(self.is_ready, self.nodes)), "all nodes are ready", 90, "kcm")
        self.settings_back()

    def is_ready(self, node):
        conditions = self.get("node", node)["status"]["conditions"]
        return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)

    def make_certificates(self):
        pki = self.folder / "pki"
        pki.chmod(0o700)

        def openssl(*words):
            self.run(["openssl", *words], cwd=pki)

        openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30", "-subj", "/CN=mlbench-test", "-keyout", "ca.key",
                "-out", "ca.crt")
        names = [f"IP:{self.address}", "IP:127.0.0.1", f"IP:{SERVICES}.1", "DNS:localhost", "DNS:kubernetes",
                 "DNS:kubernetes.default", "DNS:kubernetes.default.svc", "DNS:kubernetes.default.svc.cluster.local"]
        for name, subject, extension in (
            ("apiserver", "/CN=kube-apiserver", "subjectAltName=" + ",".join(names)),
            ("kubelet-client", "/CN=apiserver-kubelet-client", "extendedKeyUsage=clientAuth"),
        ):
            (pki / f"{name}.ext").write_text(extension + "\n")
            openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", subject, "-keyout", f"{name}.key", "-out", f"{name}.csr")
            openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "30",
                    "-out", f"{name}.crt", "-extfile", f"{name}.ext")
        openssl("genrsa", "-out", "sa.key", "2048")
        openssl("rsa", "-in", "sa.key", "-pubout", "-out", "sa.pub")
        self.port = 6443
        users = {"admin": ("kubernetes-admin", "system:masters"), "kcm": ("system:kube-controller-manager", ""),
                 "scheduler": ("system:kube-scheduler", ""), "proxy": ("system:kube-proxy", ""), "dns": ("system:coredns", "")}
        users |= {node: (f"system:node:{node}", "system:nodes") for node in self.nodes}
        lines = []
        for name, (user, group) in users.items():
            token = secrets.token_hex(16)
            lines.append(f'{token},{user},{user}' + (f',"{group}"' if group else ""))
            self.write_config(self.kubeconfig if name == "admin" else self.config_of(name), token)
        (pki / "tokens.csv").write_text("\n".join(lines) + "\n")

    def config_of(self, name):
        return self.folder / "pki" / f"{name}.conf"

    def write_config(self, path, token, namespace=None):
        context = {"cluster": "test", "user": "test"} | ({"namespace": namespace} if namespace else {})
        authority = str(self.folder / "pki/ca.crt")
        path.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": {"server": f"https://{self.address}:{self.port}",
                                                      "certificate-authority": authority}}],
            "users": [{"name": "test", "user": {"token": token}}], "contexts": [{"name": "test", "context": context}]}))
        path.chmod(0o600)

    def make_network(self):
        """Namespace MARK-sw holds a bridge; this machine and every node hang on it by a pair of links."""
        switch = f"{self.mark}-sw"

        def ip(*words):
            self.run(["ip", *words])

        def plug(number, other):
            ip("link", "add", f"{self.mark}-p{number}", "type", "veth", "peer", "name", other)
            ip("link", "set", f"{self.mark}-p{number}", "netns", switch)
            ip("-n", switch, "link", "set", f"{self.mark}-p{number}", "master", "br0", "up")

        ip("netns", "add", switch)
        ip("-n", switch, "link", "set", "lo", "up")
        ip("-n", switch, "link", "add", "br0", "type", "bridge")
        ip("-n", switch, "link", "set", "br0", "up")
        plug("0", f"{self.mark}-host")
        ip("addr", "add", f"{self.address}/24", "dev", f"{self.mark}-host")
        ip("link", "set", f"{self.mark}-host", "up")
        for node in self.nodes:
            space = f"{self.mark}-{node}"
            ip("netns", "add", space)
            plug(node[1:], f"{self.mark}-e{node[1:]}")
            ip("link", "set", f"{self.mark}-e{node[1:]}", "netns", space, "name", "eth0")
            ip("-n", space, "link", "set", "lo", "up")
            ip("-n", space, "addr", "add", f"{self.address_of(node)}/24", "dev", "eth0")
            ip("-n", space, "link", "set", "eth0", "up")
            ip("route", "add", self.pods_of(node), "via", self.address_of(node), "dev", f"{self.mark}-host")
            self.run(["nsenter", f"--net=/run/netns/{space}", "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"])
        for node in self.nodes:
            self.make_routes(node)

    def make_routes(self, node):
        # No default route: pods do not reach the outside. Services want one; kube-proxy writes another address later.
        space = f"{self.mark}-{node}"
        self.run(["ip", "-n", space, "route", "replace", f"{SERVICES}.0/24", "via", self.address])
        for other in self.nodes:
            if other != node:
                self.run(["ip", "-n", space, "route", "replace", self.pods_of(other), "via", self.address_of(other)])

    def start_control_plane(self):
        pki = self.folder / "pki"
        etcd, peer = free_port(), free_port()
        self.spawn("etcd", ["etcd", "--data-dir", self.folder / "etcd", "--listen-client-urls", f"http://127.0.0.1:{etcd}",
                            "--advertise-client-urls", f"http://127.0.0.1:{etcd}",
                            "--listen-peer-urls", f"http://127.0.0.1:{peer}", "--unsafe-no-fsync"])
        self.spawn("apiserver", [
            self.bin / "kube-apiserver", f"--bind-address={self.address}", f"--advertise-address={self.address}",
            f"--secure-port={self.port}", f"--etcd-servers=http://127.0.0.1:{etcd}",
            f"--tls-cert-file={pki}/apiserver.crt", f"--tls-private-key-file={pki}/apiserver.key",
            f"--token-auth-file={pki}/tokens.csv", f"--client-ca-file={pki}/ca.crt",
            f"--kubelet-client-certificate={pki}/kubelet-client.crt", f"--kubelet-client-key={pki}/kubelet-client.key",
            "--service-account-issuer=https://kubernetes.default.svc", f"--service-account-key-file={pki}/sa.pub",
            f"--service-account-signing-key-file={pki}/sa.key", "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction", "--anonymous-auth=false",
            f"--service-cluster-ip-range={SERVICES}.0/24", "--profiling=false",
            "--kubelet-preferred-address-types=InternalIP"])
        self.wait_for(lambda: self.kubectl("get", "--raw", "/readyz"), "the API server is ready", 90, "apiserver")
        watch = ["list", "watch"]
        self.apply(
            *node_objects("mlbench-test-dns", "system:coredns", [
                {"apiGroups": [""], "resources": ["endpoints", "services", "pods", "namespaces"], "verbs": watch},
                {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": watch}]),
            *node_objects("mlbench-test-kubelet-client", "apiserver-kubelet-client", []))
        configs = {name: f"--kubeconfig={self.config_of(name)}" for name in ("kcm", "scheduler")}
        self.spawn("kcm", [
            self.bin / "kube-controller-manager", configs["kcm"], f"--authentication-kubeconfig={self.config_of('kcm')}",
            f"--authorization-kubeconfig={self.config_of('kcm')}", f"--service-account-private-key-file={pki}/sa.key",
            f"--root-ca-file={pki}/ca.crt", "--use-service-account-credentials", "--bind-address=127.0.0.1",
            f"--secure-port={free_port()}", "--leader-elect=false", "--node-monitor-grace-period=20s", "--profiling=false"])
        self.spawn("scheduler", [
            self.bin / "kube-scheduler", configs["scheduler"], f"--authentication-kubeconfig={self.config_of('scheduler')}",
            f"--authorization-kubeconfig={self.config_of('scheduler')}", "--bind-address=127.0.0.1",
            f"--secure-port={free_port()}", "--leader-elect=false"])
        corefile = self.folder / "Corefile"
        corefile.write_text(COREFILE.format(address=self.address, port=free_port(), config=self.config_of("dns")))
        self.spawn("dns", [self.bin / "coredns", "-conf", corefile])

    def snapshotter(self, folder):
        """overlayfs where it can be mounted, else whole copies."""
        parts = {name: folder / "try" / name for name in ("lower", "upper", "work", "merged")}
        for part in parts.values():
            part.mkdir(parents=True, exist_ok=True)
        options = f"lowerdir={parts['lower']},upperdir={parts['upper']},workdir={parts['work']}"
        try:
            self.run(["mount", "-t", "overlay", "overlay", "-o", options, parts["merged"]])
            self.run(["umount", parts["merged"]])
            return "overlayfs"
        except RuntimeError:
            return "native"

    def start_node(self, node):
        folder = self.folder / node
        for name in ("cni", "kubelet", "var"):
            (folder / name).mkdir(parents=True)
        snapshotter = self.snapshotter(folder)
        (folder / "containerd.toml").write_text(CONTAINERD.format(node=folder, pause=PAUSE_IMAGE, snapshotter=snapshotter))
        (folder / "snapshotter").write_text(snapshotter)
        (folder / "cni/10-test.conflist").write_text(json.dumps({
            "cniVersion": "0.4.0", "name": f"{self.mark}-{node}", "plugins": [
                {"type": "bridge", "bridge": "cni0", "isGateway": True, "hairpinMode": True,
                 "ipam": {"type": "host-local", "dataDir": str(folder / "ipam"), "ranges": [[{"subnet": self.pods_of(node)}]],
                          "routes": [{"dst": "0.0.0.0/0"}]}},
                {"type": "portmap", "capabilities": {"portMappings": True}}]}))
        (folder / "kubelet.json").write_text(json.dumps({
            "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", "address": self.address_of(node),
            "containerRuntimeEndpoint": f"unix://{folder}/c.sock",
            "authentication": {"anonymous": {"enabled": False}, "webhook": {"enabled": True},
                               "x509": {"clientCAFile": str(self.folder / "pki/ca.crt")}},
            "authorization": {"mode": "Webhook"}, "cgroupDriver": "cgroupfs", "cgroupRoot": f"/{self.mark}-{node}",
            "failCgroupV1": False, "failSwapOn": False, "localStorageCapacityIsolation": False, "clusterDNS": [self.address],
            "clusterDomain": "cluster.local", "resolvConf": "", "imageGCHighThresholdPercent": 100,
            "evictionHard": {"memory.available": "50Mi", "nodefs.available": "1%", "nodefs.inodesFree": "1%",
                             "imagefs.available": "1%"},
            "healthzBindAddress": "127.0.0.1", "syncFrequency": "10s", "nodeStatusUpdateFrequency": "4s",
            "shutdownGracePeriod": "0s", "volumePluginDir": str(folder / "volumeplugins"), "podLogsDir": str(folder / "podlogs")}))
        for controller in self.cgroups(""):
            (controller / f"{self.mark}-{node}").mkdir(exist_ok=True)
        space = f"--net=/run/netns/{self.mark}-{node}"
        pid = self.spawn(f"containerd-{node}", [
            "nsenter", space, "unshare", "--mount", "--uts", "sh", "-c", ENTER_NODE, "sh", node, folder / "var",
            "containerd", "-c", folder / "containerd.toml"])
        self.wait_for(lambda: self.ctr(node, "version"), f"containerd of {node} answers", 30, f"containerd-{node}")
        self.import_image(node, self.pause_image)
        inside = ["nsenter", "--target", pid, "--net", "--mount", "--uts"]
        self.spawn(f"kubelet-{node}", [
            *inside, self.bin / "kubelet", f"--config={folder}/kubelet.json", f"--kubeconfig={self.config_of(node)}",
            f"--root-dir={folder}/kubelet", f"--cert-dir={folder}/pki", f"--hostname-override={node}",
            f"--node-ip={self.address_of(node)}", "--v=1"])
        self.spawn(f"proxy-{node}", [
            *inside, self.bin / "kube-proxy", f"--kubeconfig={self.config_of('proxy')}", f"--hostname-override={node}",
            "--proxy-mode=iptables", f"--cluster-cidr=10.{150 + self.number}.0.0/16", "--conntrack-max-per-core=0",
            "--conntrack-tcp-timeout-established=0", "--conntrack-tcp-timeout-close-wait=0",
            "--healthz-bind-address=127.0.0.1:10256", "--metrics-bind-address=127.0.0.1:10249"])

    # ---- images

    def ctr(self, node, *words, timeout=ASK_S):
        return self.run(["ctr", "--address", self.folder / node / "c.sock", "--namespace", "k8s.io", *words], timeout=timeout)

    def import_image(self, node, archive):
        snapshotter = (self.folder / node / "snapshotter").read_text()
        self.ctr(node, "images", "import", "--snapshotter", snapshotter, archive, timeout=600)

    def load(self, archive):
        for node in self.nodes:
            self.import_image(node, archive)

    def busybox_image(self, name, archive):
        """An image with a shell and the usual small programs, of docker's form."""
        files = {"bin/busybox": busybox().read_bytes(), "etc/nsswitch.conf": b"hosts: files dns\n",
                 "etc/passwd": b"root:x:0:0:root:/:/bin/sh\n"}
        for word in self.run(["ldd", busybox()]).split():
            if word.startswith("/"):
                files[word.lstrip("/")] = pathlib.Path(word).read_bytes()
        layer = io.BytesIO()
        with tarfile.open(fileobj=layer, mode="w") as tar:
            for folder in ("bin", "tmp", "proc", "sys", "dev", "etc"):
                entry = tarfile.TarInfo(folder)
                entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if folder == "tmp" else 0o755
                tar.addfile(entry)
            for path, content in files.items():
                entry = tarfile.TarInfo(path)
                entry.size, entry.mode = len(content), 0o755
                tar.addfile(entry, io.BytesIO(content))
            for applet in self.run([busybox(), "--list"]).split():
                if applet != "busybox":
                    entry = tarfile.TarInfo(f"bin/{applet}")
                    entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
                    tar.addfile(entry)
        wait = "trap exit TERM INT; while :; do sleep 3600 & wait; done"
        digest = hashlib.sha256(layer.getvalue()).hexdigest()
        config = json.dumps({"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": ["sha256:" + digest]},
                             "config": {"Env": ["PATH=/bin"], "Cmd": ["/bin/sh", "-c", wait]}}).encode()
        manifest = json.dumps([{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]).encode()
        with tarfile.open(archive, "w") as tar:
            for path, content in (("manifest.json", manifest), ("config.json", config), ("layer.tar", layer.getvalue())):
                entry = tarfile.TarInfo(path)
                entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content))

    # ---- faults

    def cut(self, node):
        """Its cable is pulled: of its processes none hears of it."""
        self.run(["ip", "-n", f"{self.mark}-sw", "link", "set", f"{self.mark}-p{node[1:]}", "down"])

    def heal(self, node):
        self.run(["ip", "-n", f"{self.mark}-sw", "link", "set", f"{self.mark}-p{node[1:]}", "up"])
        self.make_routes(node)
        self.wait_for(lambda: self.is_ready(node), f"{node} is ready again", 90)

    # ---- its end

    def settings_back(self):
        for name, value in self.settings.items():
            with contextlib.suppress(RuntimeError):
                self.run(["sysctl", "-qw", f"{name}={value}"])

    @staticmethod
    def cgroups(name):
        """That group of each hierarchy; "": their roots."""
        top = pathlib.Path("/sys/fs/cgroup")
        roots = [top] if (top / "cgroup.controllers").exists() else list(top.glob("*/"))
        found = {(root / name).resolve() for root in roots if (root / "cgroup.procs").exists()}
        return [group for group in found if (group / "cgroup.procs").exists()]

    def end(self, name):
        """SIGTERM, then SIGKILL."""
        path = self.folder / "pids" / name
        if not path.exists():
            return
        pid = int(path.read_text())
        path.unlink()
        child = self.children.get(name)
        if child is None and environment_of(pid).get("KUBECONFIG") != str(self.kubeconfig):
            return  # long gone, and its number is another's
        for number in (signal.SIGTERM, signal.SIGKILL):
            if child is not None and child.poll() is not None:
                break
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
            deadline = time.monotonic() + STOP_PATIENCE_S
            while alive(pid) and time.monotonic() < deadline:
                if child is not None:
                    child.poll()
                time.sleep(0.05)
        if child is not None:
            child.wait(STOP_PATIENCE_S)

    def end_containers(self, node):
        for _ in range(10):
            inside = set()
            for group in self.cgroups(f"{self.mark}-{node}"):
                for file in group.rglob("cgroup.procs"):
                    with contextlib.suppress(OSError):
                        inside |= set(map(int, file.read_text().split()))
            for pid in pids():
                with contextlib.suppress(OSError):
                    words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
                    if b"containerd-shim" in words.split(b"\0")[0] and f"{self.folder}/{node}/".encode() in words:
                        inside.add(pid)
            inside = {pid for pid in inside if alive(pid)}
            if not inside:
                return
            for pid in inside:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.2)

    def stop(self):
        if self.number is None:
            return
        for name in ("scheduler", "kcm"):
            self.end(name)
        for node in self.nodes:
            self.end(f"kubelet-{node}")
            self.end(f"proxy-{node}")
        for node in self.nodes:
            self.end_containers(node)
            self.end(f"containerd-{node}")
        for name in ("dns", "apiserver", "etcd"):
            self.end(name)
        mounts = [line.split()[1] for line in pathlib.Path("/proc/mounts").read_text().splitlines()]
        for mount in sorted((one for one in mounts if one.startswith(f"{self.folder}/")), reverse=True):
            with contextlib.suppress(RuntimeError):
                self.run(["umount", "-l", mount])
        with contextlib.suppress(RuntimeError):
            self.run(["ip", "link", "del", f"{self.mark}-host"])
        for space in [*self.nodes, "sw"]:
            with contextlib.suppress(RuntimeError):
                self.run(["ip", "netns", "del", f"{self.mark}-{space}"])
        for node in self.nodes:
            for group in self.cgroups(f"{self.mark}-{node}"):
                for folder, _, _ in os.walk(group, topdown=False):
                    with contextlib.suppress(OSError):
                        os.rmdir(folder)
        self.settings_back()
        # The images of the nodes are large.
        for name in [*self.nodes, "etcd", "pids", "cluster.json"]:
            subprocess.run(["rm", "-rf", "--one-file-system", self.folder / name], timeout=300, check=False)
        if self.lock:
            self.lock.close()
        self.number = None

    @classmethod
    def of(cls, folder):
        """That a program which is gone left there."""
        known = json.loads((pathlib.Path(folder) / "cluster.json").read_text())
        cluster = cls(folder, len(known["nodes"]))
        cluster.number, cluster.settings = known["number"], known["settings"]
        return cluster


if __name__ == "__main__":
    lack = missing()
    if lack:
        print("missing capability:", lack)
        sys.exit(77)
    match sys.argv[1:]:
        case ["up", where]:
            made = KubeCluster(where)
            try:
                made.start()
            except BaseException:
                made.stop()
                raise
            print(f"export KUBECONFIG={made.kubeconfig} PATH={made.bin}:$PATH")
        case ["down", where]:
            KubeCluster.of(where).stop()
        case _:
            sys.exit(__doc__)
