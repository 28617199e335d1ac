#!/usr/bin/env python3
"""The manifests of systemd/kubernetes/ fit each other and docs/containers.md: same capabilities, every mount has a volume, what the
kustomization names is there, and ringtaild takes the configuration. tests/packages/kubernetes.py asks Kubernetes' own schemas, and kustomize."""
import os
import re
import subprocess
import tempfile
import unittest

import yaml

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), *[".."] * 3)
DIRECTORY = os.path.join(TOP, "systemd", "kubernetes")
BUILD = os.path.join(TOP, os.environ.get("RINGTAIL_BUILD", "build"))


def load(name):
    with open(os.path.join(DIRECTORY, name)) as file:
        return yaml.safe_load(file)


class Kubernetes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.kustomization, cls.daemonset = load("kustomization.yaml"), load("daemonset.yaml")
        cls.pod = cls.daemonset["spec"]["template"]["spec"]
        [cls.container] = cls.pod["containers"]
        with open(os.path.join(TOP, "docs", "containers.md")) as page:
            cls.page = page.read()

    def test_the_page_and_the_manifest_ask_for_the_same(self):
        command = re.search(r"^podman run.*?^```", self.page, re.M | re.S)[0]
        added = re.findall(r"--cap-add=(\w+)", command)
        security = self.container["securityContext"]
        self.assertEqual(sorted(security["capabilities"]["add"]), sorted(added))
        self.assertEqual(security["capabilities"]["drop"], ["ALL"])
        self.assertFalse(security["privileged"] or security["allowPrivilegeEscalation"])
        self.assertTrue(self.pod["hostPID"] and "--pid=host" in command)
        paths = set(re.findall(r"-v (/[\w/]+):", command))
        self.assertEqual(paths, {volume["hostPath"]["path"] for volume in self.pod["volumes"] if "hostPath" in volume})

    def test_each_mount_has_its_volume(self):
        volumes = {volume["name"] for volume in self.pod["volumes"]}
        self.assertEqual({mount["name"] for mount in self.container["volumeMounts"]}, volumes)

    def test_the_kustomization_names_what_is_there(self):
        for name in self.kustomization["resources"]:
            self.assertEqual(load(name)["kind"], {"namespace.yaml": "Namespace", "daemonset.yaml": "DaemonSet"}[name])
        [config] = self.kustomization["configMapGenerator"]
        [mounted] = [volume["configMap"]["name"] for volume in self.pod["volumes"] if "configMap" in volume]
        self.assertEqual(config["name"], mounted)
        self.assertEqual(config["files"], ["ringtaild.conf"])
        self.assertEqual([image["name"] for image in self.kustomization["images"]], [self.container["image"]])
        self.assertEqual(load("namespace.yaml")["metadata"]["name"], self.kustomization["namespace"])

    def test_the_selector_finds_the_pods(self):
        wanted = self.daemonset["spec"]["selector"]["matchLabels"]
        labels = self.daemonset["spec"]["template"]["metadata"]["labels"]
        self.assertTrue(wanted and wanted.items() <= labels.items())

    def test_ringtaild_takes_the_configuration(self):
        with open(os.path.join(DIRECTORY, "ringtaild.conf")) as file:
            text = file.read()
        with tempfile.NamedTemporaryFile("w", suffix=".conf") as own:
            # The account is the image's.
            own.write(text.replace("user = ringtail\n", "user = nobody\n"))
            own.flush()
            done = subprocess.run([f"{BUILD}/ringtaild", "--config", own.name, "--check-config"], capture_output=True,
                                  text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
