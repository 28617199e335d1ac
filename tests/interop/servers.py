"""The real servers that exporters are tested against, built from the Go module proxy.

Each is a module at a fixed version, which Go checks against its checksum database, copied out of the module
cache (`go install` refuses modules with replace directives) and built once; tests/tools/cache.py says
where it is kept. What cannot be had is returned with the reason.

	usage: servers.py NAME DIRECTORY [--kept]

builds that one into the directory. Exit 77: the module proxy cannot be reached; with --kept: it was not built
before.
"""
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
import zipfile

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))

import cache  # noqa: E402

GO_LEAST = (1, 24)
TOOLCHAIN = "v0.0.1-go1.26.0.linux-amd64"
TOOLCHAIN_SHA256 = "38461905b98c59173672814302e222ab43b652274bc0c95817b08b71ab66b705"
PROXY = os.environ.get("GOPROXY", "https://proxy.golang.org").split(",")[0]
BUILD_SECONDS_MAX = 3000         # Loki: over 2,000 packages, ten minutes of two CPUs

# name: module, version, package in it
SERVERS = {
    "victoria-metrics": ("github.com/VictoriaMetrics/VictoriaMetrics", "v1.130.0",
                         "./app/victoria-metrics"),
    "victoria-logs": ("github.com/VictoriaMetrics/VictoriaLogs", "v1.43.1",
                      "./app/victoria-logs"),
    "jaeger": ("github.com/jaegertracing/jaeger", "v1.76.0", "./cmd/all-in-one"),
    "prometheus-3": ("github.com/prometheus/prometheus", "v0.305.0", "./cmd/prometheus"),    # 3.5.0
    "loki": ("github.com/grafana/loki/v3", "v3.7.8", "./cmd/loki"),
}
# name: modules that the server's go.mod takes from its own repository, where a module's archive does
# not have them: the version that it requires is taken from the proxy instead.
UNREPLACED = {"loki": ["github.com/grafana/loki/pkg/push"]}
COLLECTOR_VERSION = "v0.120.0"
COLLECTOR = f"""dist:
  name: otelcol
  output_path: {{out}}
receivers:
  - gomod: go.opentelemetry.io/collector/receiver/otlpreceiver {COLLECTOR_VERSION}
exporters:
  - gomod: github.com/open-telemetry/opentelemetry-collector-contrib/exporter/fileexporter {COLLECTOR_VERSION}
providers:
  - gomod: go.opentelemetry.io/collector/confmap/provider/envprovider v1.26.0
  - gomod: go.opentelemetry.io/collector/confmap/provider/fileprovider v1.26.0
"""

# Known not to be had, and why; said at each run.
ABSENT = {
    "victoria-traces": "the Go module proxy answers 403 for every version of "
                       "github.com/VictoriaMetrics/VictoriaTraces; Jaeger stands in for it",
    "tempo": "the Go module proxy answers 403 for github.com/grafana/tempo; Jaeger stands in for it",
    "grafana": "the Go module proxy answers 403 for github.com/grafana/grafana, Debian has none; each "
               "query of its dashboards is tried on Prometheus (tests/scenario/grafana_queries.py)",
}


PROBES, PROBE_NAP_S = 3, 5
# What Go says where its proxy, or the checksum database, does not answer as it should.
NETWORK = re.compile(r"dial tcp|no such host|i/o timeout|connection re(set|fused)|TLS handshake|"
                     r"unexpected EOF|timeout awaiting|network is unreachable|"
                     r": (403|429|5\d\d) [A-Z]|502 Bad|stream error|server misbehaving")


class Unavailable(Exception):
    """`unreachable`: for want of the network, and of nothing that is ours."""

    def __init__(self, reason, unreachable=False):
        super().__init__(reason)
        self.unreachable = unreachable


def run(words, **options):
    try:
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              stdin=subprocess.DEVNULL, timeout=BUILD_SECONDS_MAX, **options)
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{' '.join(words)}: no end after {BUILD_SECONDS_MAX} s") from None
    if done.returncode:
        raise Unavailable(f"{' '.join(words)}: {done.stderr.strip()[-600:]}",
                          bool(NETWORK.search(done.stderr)))
    return done.stdout


def probe_proxy():
    """Raises Unavailable if the module proxy does not answer."""
    for left in reversed(range(PROBES)):
        try:
            urllib.request.urlopen(f"{PROXY}/golang.org/toolchain/@v/{TOOLCHAIN}.info",
                                   timeout=20).close()
            return
        except (urllib.error.URLError, OSError) as error:
            if not left:
                raise Unavailable(f"the Go module proxy {PROXY} does not answer: {error}",
                                  unreachable=True) from None
            time.sleep(PROBE_NAP_S)


def unpack(archive, prefix, directory):
    with zipfile.ZipFile(archive) as files:
        for name in files.namelist():
            path = os.path.join(directory, name[len(prefix):])
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with files.open(name) as source, open(path, "wb") as target:
                shutil.copyfileobj(source, target)
            if "/bin/" in name or "/pkg/tool/" in name:
                os.chmod(path, 0o755)


def find_go():
    """A Go that is new enough: the machine's, or the toolchain that the module proxy has."""
    kept = cache.directory("go") + f"/{TOOLCHAIN}"
    for go in (shutil.which("go"), "/usr/local/go/bin/go", f"{kept}/bin/go"):
        if go and os.access(go, os.X_OK):
            found = re.search(r"go(\d+)\.(\d+)", run([go, "version"]))
            if found and (int(found[1]), int(found[2])) >= GO_LEAST:
                return go
    archive, part = f"{kept}.zip", f"{kept}.part"
    try:
        urllib.request.urlretrieve(f"{PROXY}/golang.org/toolchain/@v/{TOOLCHAIN}.zip", archive)
    except OSError as error:
        raise Unavailable(f"there is no Go here, nor at the module proxy: {error}",
                          unreachable=True) from None
    with open(archive, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != TOOLCHAIN_SHA256:
        os.remove(archive)
        raise Unavailable(f"the Go toolchain's SHA-256 is {digest}, not {TOOLCHAIN_SHA256}")
    shutil.rmtree(part, ignore_errors=True)
    unpack(archive, f"golang.org/toolchain@{TOOLCHAIN}/", part)
    os.remove(archive)
    os.replace(part, kept)
    return f"{kept}/bin/go"


def environment(go):
    return {**os.environ, "GOFLAGS": "-buildvcs=false", "GOTOOLCHAIN": "local",
            "PATH": f"{os.path.dirname(go)}:{os.environ['PATH']}"}


def build_module(go, directory, name):
    module, version, package = SERVERS[name]
    env = environment(go)
    answer = json.loads(run([go, "mod", "download", "-json", f"{module}@{version}"],
                            cwd=directory, env=env))
    copy = f"{directory}/src-{name}"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(answer["Dir"], copy)
    run(["chmod", "-R", "u+w", copy])
    for replaced in UNREPLACED.get(name, ()):
        run([go, "mod", "edit", f"-dropreplace={replaced}"], cwd=copy, env=env)
        env["GOFLAGS"] += " -mod=mod"   # go.sum lacks it
    run([go, "build", "-o", f"{directory}/{name}.part", package], cwd=copy, env=env)
    shutil.rmtree(copy)
    return f"{directory}/{name}.part"


def build_collector(go, directory):
    env = {**environment(go), "GOBIN": directory}
    source = f"{directory}/src-otelcol"
    run([go, "install", f"go.opentelemetry.io/collector/cmd/builder@{COLLECTOR_VERSION}"],
        cwd=directory, env=env)
    with open(f"{directory}/otelcol.yaml", "w") as config:
        config.write(COLLECTOR.format(out=source))
    run([f"{directory}/builder", "--config", f"{directory}/otelcol.yaml"], cwd=directory, env=env)
    os.replace(f"{source}/otelcol", f"{directory}/otelcol.part")
    shutil.rmtree(source)
    return f"{directory}/otelcol.part"


NAMES = [*SERVERS, "otelcol"]


def version_of(name):
    return COLLECTOR_VERSION if name == "otelcol" else SERVERS[name][1]


def kept_at(name):
    """Where it is, or would be."""
    return f"{cache.directory('servers')}/{name}-{version_of(name)}"


def build(name, directory):
    """It is DIRECTORY/NAME then."""
    kept = kept_at(name)
    if not os.access(kept, os.X_OK):
        probe_proxy()
        go, where = find_go(), os.path.dirname(kept)
        os.replace(build_collector(go, where) if name == "otelcol" else
                   build_module(go, where, name), kept)
    link = f"{directory}/{name}"
    if os.path.lexists(link):
        os.remove(link)
    os.symlink(kept, link)


def build_all(directory, say):
    """Builds what is missing: {name: path}, and {name: why not}."""
    os.makedirs(directory, exist_ok=True)
    absent = dict(ABSENT)
    servers = {}
    for name in NAMES:
        try:
            if not os.access(kept_at(name), os.X_OK):
                say(f"building {name}")
            build(name, directory)
            servers[name] = f"{directory}/{name}"
        except Unavailable as reason:
            absent[name] = str(reason)
    return servers, absent


def main():
    name, directory, *kept = sys.argv[1:]
    os.makedirs(directory, exist_ok=True)
    if kept and not os.access(kept_at(name), os.X_OK):
        print(f"{name} takes long to build: make interop does so")
        sys.exit(77)
    try:
        build(name, directory)
    except Unavailable as reason:
        print(" ".join(str(reason).split()))
        sys.exit(77 if reason.unreachable else 1)
    print(f"{name} {version_of(name)}")


if __name__ == "__main__":
    main()
