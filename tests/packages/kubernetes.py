#!/usr/bin/env python3
"""kubernetes: the schemas of Kubernetes know every field of systemd/kubernetes, and kustomize builds it: with the
namespace, the image and the configuration where they are to be.

	usage: kubernetes.py validate | kustomize	exit 77: what it takes cannot be downloaded
"""
import os
import re
import subprocess
import sys
import tempfile

import yaml

TOP = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
DIRECTORY = f"{TOP}/systemd/kubernetes"
sys.path[:0] = [f"{TOP}/tests/tools", f"{TOP}/tests/interop"]

import cache  # noqa: E402
import servers  # noqa: E402

VALIDATE = "kubernetes-validate==1.37.0"
KUSTOMIZE = "sigs.k8s.io/kustomize/kustomize/v5@v5.6.0"
SECONDS_MAX = 600
# What pip says of the network; what Go says, servers.py knows.
UNREACHABLE = re.compile("Could not find a version|No matching distribution|" + servers.NETWORK.pattern)
failed = 0


def check(name, good, *facts):
    global failed
    print(f"{'ok' if good else 'not ok'} {name}", flush=True)
    for fact in facts if not good else ():
        print(f"# | {str(fact)[-3000:]}", flush=True)
    failed += not good


def run(*words, **options):
    return subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=SECONDS_MAX, **options)


def fetched(what, done):
    """Ends this when that did not work: as a skip, if it was for the network alone."""
    if done.returncode == 0:
        return
    if UNREACHABLE.search(done.stdout):
        print(f"SKIP: {what} cannot be downloaded: {' '.join(done.stdout.split())[-300:]}")
        sys.exit(77)
    sys.exit(f"{done.stdout[-3000:]}\nnot ok {what} is to be had")


def find_validate():
    place = cache.directory("kubernetes") + f"/{VALIDATE}"
    program = f"{place}/bin/kubernetes-validate"
    if not os.path.exists(program):
        fetched("a Python of its own", run(sys.executable, "-m", "venv", place))
        fetched(VALIDATE, run(f"{place}/bin/pip", "install", "--quiet", "--disable-pip-version-check", VALIDATE))
    return program


def find_kustomize():
    place = cache.directory("kubernetes") + f"/{KUSTOMIZE.rsplit('@', 1)[1]}"
    program = f"{place}/kustomize"
    if not os.path.exists(program):
        try:
            go = servers.find_go()
        except servers.Unavailable as reason:
            print(f"SKIP: no Go for kustomize: {reason}")
            sys.exit(77)
        fetched("kustomize", run(go, "install", KUSTOMIZE, cwd="/", env={**servers.environment(go), "GOBIN": place}))
    return program


def validate():
    program = find_validate()
    done = run(program, "--strict", "daemonset.yaml", "namespace.yaml", cwd=DIRECTORY)
    check("Kubernetes knows every field", done.returncode == 0 and done.stdout.count(" passed ") == 2, done.stdout)
    with open(f"{DIRECTORY}/daemonset.yaml") as file:
        wrong = file.read().replace("hostPID:", "hostPid:")
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as own:
        own.write(wrong)
        own.flush()
        done = run(program, "--strict", own.name)
    check("and would not know a wrong one", done.returncode != 0 and "hostPid" in done.stdout, done.stdout)


def kustomize():
    done = run(find_kustomize(), "build", DIRECTORY)
    check("kustomize builds it", done.returncode == 0, done.stdout)
    if done.returncode:
        return
    made = {each["kind"]: each for each in yaml.safe_load_all(done.stdout)}
    check("a namespace, a configuration and a DaemonSet", set(made) == {"Namespace", "ConfigMap", "DaemonSet"}, list(made))
    with open(f"{DIRECTORY}/kustomization.yaml") as file:
        wanted = yaml.safe_load(file)
    with open(f"{DIRECTORY}/ringtaild.conf") as file:
        check("the configuration is the file", made["ConfigMap"]["data"] == {"ringtaild.conf": file.read()}, made["ConfigMap"])
    pod = made["DaemonSet"]["spec"]["template"]["spec"]
    [image] = wanted["images"]
    check("the image is the kustomization's", [one["image"] for one in pod["containers"]] ==
          [f"{image['newName']}:{image['newTag']}"], pod["containers"])
    check("all is in the namespace", {made[kind]["metadata"]["namespace"] for kind in ("ConfigMap", "DaemonSet")} ==
          {wanted["namespace"]} == {made["Namespace"]["metadata"]["name"]}, made)
    [mounted] = [volume["configMap"]["name"] for volume in pod["volumes"] if "configMap" in volume]
    check("the pod mounts that configuration", mounted == made["ConfigMap"]["metadata"]["name"] != "ringtail", mounted)


{"validate": validate, "kustomize": kustomize}[sys.argv[1]]()
sys.exit(1 if failed else 0)
