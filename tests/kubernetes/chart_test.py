"""What helm makes of the chart (golden/), and the manifests that mlbench prints, against Kubernetes' own OpenAPI document.

    chart_test.py [unittest arguments]          needs MLBENCH_BIN_DIR or MLBENCH_TEST_MLBENCH; no helm, no cluster
"""

import copy
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

import openapi
import rendered_chart

TEMPLATE = "io.k8s.api.core.v1.PodTemplateSpec"
KUBECONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "nowhere",
    "clusters": [{"name": "nowhere", "cluster": {"server": "https://127.0.0.1:1"}}],
    "users": [{"name": "nobody", "user": {"token": "none"}}],
    "contexts": [{"name": "nowhere", "context": {"cluster": "nowhere", "user": "nobody", "namespace": "lab"}}],
}
WORKER = {"app.kubernetes.io/name": "mlbench", "app.kubernetes.io/instance": "bench",
          "app.kubernetes.io/component": "rank"}
MASTER = {**WORKER, "app.kubernetes.io/component": "master"}


def mlbench_path():
    if "MLBENCH_BIN_DIR" in os.environ:
        return os.path.join(os.environ["MLBENCH_BIN_DIR"], "mlbench")
    return os.environ["MLBENCH_TEST_MLBENCH"]


class KubernetesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.document = openapi.Document()

    def assert_valid(self, objects):
        self.assertTrue(objects, "there are no objects")
        self.assertEqual(self.document.errors(objects), [])


class OpenApiTest(KubernetesTest):
    def test_what_is_wrong_is_found(self):
        [job] = [{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}, "spec": {"template": {"spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "a", "image": "b", "resources": {"limits": {"memory": "4Gi", "cpu": 1}}}]}}}}]
        self.assertEqual(self.document.errors([job]), [])

        def spoilt(change):
            other = copy.deepcopy(job)
            change(other, other["spec"]["template"]["spec"], other["spec"]["template"]["spec"]["containers"][0])
            return self.document.errors([{"kind": "List", "items": [other]}])

        path = "Job.spec.template.spec"
        for change, expected in (
            (lambda job, pod, one: one.update(imagePullPolicies="Never"), f"{path}.containers[0]: unknown member imagePullPolicies"),
            (lambda job, pod, one: one.pop("name"), f"{path}.containers[0]: no name"),
            (lambda job, pod, one: pod.pop("containers"), f"{path}: no containers"),
            (lambda job, pod, one: job["spec"].update(completions="4"), "Job.spec.completions: expected integer, got '4'"),
            (lambda job, pod, one: job["spec"].update(completions=True), "Job.spec.completions: expected integer, got True"),
            (lambda job, pod, one: one["resources"]["limits"].update(memory="4 GB"),
             f"{path}.containers[0].resources.limits.memory: expected a quantity, got '4 GB'"),
            (lambda job, pod, one: pod.update(hostname=None), f"{path}.hostname: null"),
            (lambda job, pod, one: job.update(apiVersion="batch/v2"), "batch/v2 Job: unknown kind"),
        ):
            self.assertEqual(spoilt(change), [expected])


class ChartTest(KubernetesTest):
    def setUp(self):
        self.objects = {name: rendered_chart.golden(name)["objects"] for name in rendered_chart.VARIANTS}

    def one(self, variant, kind, name):
        [found] = [one for one in self.objects[variant] if (one["kind"], one["metadata"]["name"]) == (kind, name)]
        return found

    def overlay(self, variant):
        return json.loads(self.one(variant, "ConfigMap", "bench-workers")["data"]["pod.json"])

    def test_the_golden_rendering_is_of_this_chart(self):
        for variant in rendered_chart.VARIANTS:
            self.assertEqual(rendered_chart.golden(variant)["chart_sha256"], rendered_chart.chart_sha256(),
                             "the chart was changed: python3 tests/kubernetes/rendered_chart.py writes the golden ones anew")

    def test_it_meets_the_official_schema(self):
        for variant, objects in self.objects.items():
            self.assert_valid(objects)
            self.assertEqual(self.document.errors_of(self.overlay(variant), TEMPLATE), [])

    def test_every_name_is_of_the_release(self):
        for objects in self.objects.values():
            for one in objects:
                self.assertTrue(one["metadata"]["name"].startswith("bench-"), one["metadata"]["name"])
                self.assertEqual(one["metadata"].get("namespace"), None if one["kind"].startswith("Cluster") else "lab")
                self.assertEqual(one["metadata"]["labels"]["app.kubernetes.io/instance"], "bench")

    def test_the_master_may_not_do_more_than_it_does(self):
        beyond = [one for one in self.objects["default"] if one["kind"].startswith("Cluster")]
        self.assertFalse(beyond, "rights beyond the namespace")
        for objects in self.objects.values():
            [role] = [one for one in objects if one["kind"] == "Role"]
            rights = {(group, resource, verb) for rule in role["rules"] for group in rule["apiGroups"]
                      for resource in rule["resources"] for verb in rule["verbs"]}
            self.assertEqual(rights, rendered_chart.RIGHTS)
            self.assertNotIn("*", {word for right in rights for word in right})

    def test_it_lists_nodes_where_that_is_asked_for(self):
        name = "bench-lab-nodes"  # of the release and its namespace: another one's is another
        role, binding = self.one("full", "ClusterRole", name), self.one("full", "ClusterRoleBinding", name)
        self.assertEqual(role["rules"], [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}])
        self.assertEqual(binding["roleRef"]["name"], name)
        self.assertEqual(binding["subjects"], [{"kind": "ServiceAccount", "name": "bench-master", "namespace": "lab"}])

    def test_no_container_has_rights_on_its_node(self):
        for variant in self.objects:
            pod = self.one(variant, "Deployment", "bench-master")["spec"]["template"]["spec"]
            self.assertEqual(pod["securityContext"]["runAsUser"], 10001)
            self.assertTrue(pod["securityContext"]["runAsNonRoot"])
            for one in pod["initContainers"] + pod["containers"]:
                self.assertEqual(one["securityContext"], {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                                                          "capabilities": {"drop": ["ALL"]}})
                self.assertNotIn("hostPort", json.dumps(one))
            self.assertFalse({"hostNetwork", "hostPID", "hostIPC"} & set(pod))

    def test_ways_in(self):
        for variant in self.objects:
            master = self.one(variant, "NetworkPolicy", "bench-master")["spec"]
            workers = self.one(variant, "NetworkPolicy", "bench-workers")["spec"]
            self.assertEqual(master["podSelector"]["matchLabels"], MASTER)
            self.assertEqual(workers["podSelector"]["matchLabels"], WORKER)
            self.assertEqual(workers["ingress"], [{"from": [{"podSelector": {"matchLabels": WORKER}}]}])
            self.assertEqual(master["ingress"][0]["from"], [{"podSelector": {"matchLabels": WORKER}}])
            # What that policy goes by, the master's pods have; those of runs: test_a_job.
            template = self.one(variant, "Deployment", "bench-master")["spec"]["template"]
            self.assertEqual(template["metadata"]["labels"], MASTER)
        self.assertEqual(len(self.one("default", "NetworkPolicy", "bench-master")["spec"]["ingress"]), 1)
        dashboard = self.one("full", "NetworkPolicy", "bench-master")["spec"]["ingress"][1]
        self.assertEqual(dashboard["ports"], [{"protocol": "TCP", "port": "http"}])
        self.assertEqual(self.one("default", "Service", "bench-master")["spec"]["type"], "ClusterIP")

    def test_what_the_master_is_told(self):
        [container] = self.one("full", "Deployment", "bench-master")["spec"]["template"]["spec"]["containers"]
        told = {one["name"]: one.get("value") for one in container["env"]}
        self.assertEqual({name: told[name] for name in ("MLBENCH_MAX_WORKERS", "MLBENCH_WORKER_MAX_CPU",
                                                        "MLBENCH_MAX_GPU_PER_WORKER", "MLBENCH_WORKER_IMAGE",
                                                        "MLBENCH_DATA_VOLUME", "MLBENCH_RELEASE")},
                         {"MLBENCH_MAX_WORKERS": "4", "MLBENCH_WORKER_MAX_CPU": "3", "MLBENCH_MAX_GPU_PER_WORKER": "1",
                          "MLBENCH_WORKER_IMAGE": "registry.example/team/mlbench-worker-cuda:1.2",
                          "MLBENCH_DATA_VOLUME": "corpora", "MLBENCH_RELEASE": "bench"})

    def test_the_master_has_time_to_stop_its_runs(self):
        for variant in self.objects:
            pod = self.one(variant, "Deployment", "bench-master")["spec"]["template"]["spec"]
            [stop] = [word for word in pod["containers"][0]["args"] if word.startswith("--stop-runs=")]
            self.assertRegex(stop, r"=\d+s$")
            self.assertLess(int(stop.partition("=")[2][:-1]) + 5, pod["terminationGracePeriodSeconds"])

    def test_jobs_can_belong_to_the_masters_pod(self):
        [container] = self.one("default", "Deployment", "bench-master")["spec"]["template"]["spec"]["containers"]
        fields = {one["name"]: one["valueFrom"]["fieldRef"]["fieldPath"] for one in container["env"] if "valueFrom" in one}
        self.assertEqual(fields, {"MLBENCH_POD_IP": "status.podIP", "MLBENCH_POD_NAME": "metadata.name",
                                  "MLBENCH_POD_UID": "metadata.uid"})

    def test_the_options_of_the_master_are_its_own(self):
        for variant in self.objects:
            [container] = self.one(variant, "Deployment", "bench-master")["spec"]["template"]["spec"]["containers"]
            self.assertEqual((container["command"], container["args"][0]),
                             (["tini", "--", "mlbench", "serve"], "--listen=0.0.0.0:8080"))
            with tempfile.TemporaryDirectory(prefix="mlbench-serve-") as home:
                # An address that is none: it gets no further than its options.
                done = subprocess.run([mlbench_path(), "serve", "--listen=nowhere", *container["args"][1:]], capture_output=True,
                                      text=True, timeout=60, env={**os.environ, "MLBENCH_HOME": home})
            self.assertIn("--listen 'nowhere': expected", done.stderr)

    def test_the_token_stands_in_no_other_object(self):
        for objects in self.objects.values():
            for one in objects:
                if one["kind"] != "Secret":
                    self.assertNotIn("MADE", json.dumps(one))
        self.assertFalse([one for one in self.objects["full"] if one["kind"] == "Secret"], "there is one already")


class ManifestTest(KubernetesTest):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="mlbench-manifests-")))
        config = self.folder / "kubeconfig"
        config.write_text(json.dumps(KUBECONFIG))
        config.chmod(0o600)
        self.environment = {**os.environ, "MLBENCH_HOME": str(self.folder / "home"), "KUBECONFIG": str(config),
                            "MLBENCH_WORKER_IMAGE": "mlbench-worker:test", "MLBENCH_RELEASE": "bench"}

    def emitted(self, kind, *options):
        words = [mlbench_path(), "run", "shape", "4", "--executor", "kubernetes", "--local", "--emit", kind, *options]
        done = subprocess.run(words, env=self.environment, capture_output=True, text=True, timeout=120, cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        value = json.loads(done.stdout)
        return value if isinstance(value, list) else value["items"] if value.get("kind") == "List" else [value]

    def test_a_job(self):
        objects = self.emitted("job", "--memory", "4Gi", "--data-volume", "corpora", "--", "sh", "-c", "true")
        self.assert_valid(objects)
        [job] = [one for one in objects if one["kind"] == "Job"]
        self.assertEqual(job["spec"]["completionMode"], "Indexed")
        self.assertEqual((job["spec"]["completions"], job["spec"]["parallelism"], job["spec"]["backoffLimit"]), (4, 4, 0))
        self.assertEqual(job["spec"]["template"]["spec"]["restartPolicy"], "Never")
        labels = job["spec"]["template"]["metadata"]["labels"]
        self.assertEqual({name: labels[name] for name in WORKER}, WORKER, "the chart's policies go by them")
        self.assertNotIn("privileged\": true", json.dumps(objects))
        self.assertFalse((self.folder / "home/runs/shape-4").exists(), "it was to print a manifest, and no more")

    def test_pods_of_every_kind(self):
        for kind, count in (("job", 1), ("jobset", 1), ("trainjob", 0), ("mpijob", 2)):
            templates = list(openapi.pod_templates(self.emitted(kind, "--", "sh", "-c", "true")))
            self.assertEqual(len(templates), count, kind)
            for template in templates:
                self.assertEqual(self.document.errors_of(template, TEMPLATE), [], kind)

    def test_a_dry_run_says_what_would_be_made(self):
        words = [mlbench_path(), "run", "shape", "2", "--executor", "kubernetes", "--local", "--dry-run", "--", "true"]
        done = subprocess.run(words, env=self.environment, capture_output=True, text=True, timeout=120, cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        lists = list(self.lists_in(done.stdout))
        self.assert_valid(lists)
        self.assertEqual({one["kind"] for each in lists for one in each["items"]}, {"Job", "Secret", "Service"})

    @staticmethod
    def lists_in(text):
        """The lists of objects in a text of other words and values."""
        decoder, at = json.JSONDecoder(), text.find("{")
        while at >= 0:
            try:
                value, length = decoder.raw_decode(text[at:])
            except json.JSONDecodeError:
                at = text.find("{", at + 1)
                continue
            if value.get("kind") == "List":
                yield value
            at = text.find("{", at + length)


if __name__ == "__main__":
    unittest.main()
