"""The real servers that exporters are tested against, built from the Go module proxy.

Each is a module at a fixed version, copied out of the module cache (`go install` refuses modules with
replace directives) and built once into a directory that outlives the run. What cannot be had is
returned with the reason.
"""
import json
import os
import re
import shutil
import subprocess
import urllib.request
import zipfile

GO_LEAST = (1, 24)
TOOLCHAIN = "v0.0.1-go1.26.0.linux-amd64"
PROXY = os.environ.get("GOPROXY", "https://proxy.golang.org").split(",")[0]
BUILD_SECONDS_MAX = 3000         # Loki: over 2,000 packages, ten minutes of two CPUs

# name: module, version, package in it
SERVERS = {
    "victoria-metrics": ("github.com/VictoriaMetrics/VictoriaMetrics", "v1.130.0",
                         "./app/victoria-metrics"),
    "victoria-logs": ("github.com/VictoriaMetrics/VictoriaLogs", "v1.43.1",
                      "./app/victoria-logs"),
    "jaeger": ("github.com/jaegertracing/jaeger", "v1.76.0", "./cmd/all-in-one"),
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


class Unavailable(Exception):
    pass


def run(words, **options):
    try:
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              stdin=subprocess.DEVNULL, timeout=BUILD_SECONDS_MAX, **options)
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{' '.join(words)}: no end after {BUILD_SECONDS_MAX} s") from None
    if done.returncode:
        raise Unavailable(f"{' '.join(words)}: {done.stderr.strip()[-600:]}")
    return done.stdout


def find_go(directory):
    """A Go that is new enough: the machine's, or the toolchain that the module proxy has."""
    for go in (shutil.which("go"), "/usr/local/go/bin/go", f"{directory}/go/bin/go"):
        if go and os.access(go, os.X_OK):
            found = re.search(r"go(\d+)\.(\d+)", run([go, "version"]))
            if found and (int(found[1]), int(found[2])) >= GO_LEAST:
                return go
    archive = f"{directory}/toolchain.zip"
    try:
        urllib.request.urlretrieve(f"{PROXY}/golang.org/toolchain/@v/{TOOLCHAIN}.zip", archive)
    except OSError as error:
        raise Unavailable(f"there is no Go here, nor at the module proxy: {error}") from None
    prefix = f"golang.org/toolchain@{TOOLCHAIN}/"
    with zipfile.ZipFile(archive) as files:
        for name in files.namelist():
            path = os.path.join(directory, "go", name[len(prefix):])
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with files.open(name) as source, open(path, "wb") as target:
                shutil.copyfileobj(source, target)
            if "/bin/" in name or "/pkg/tool/" in name:
                os.chmod(path, 0o755)
    os.remove(archive)
    return f"{directory}/go/bin/go"


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
    os.replace(f"{directory}/{name}.part", f"{directory}/{name}")
    shutil.rmtree(copy)


def build_collector(go, directory):
    env = {**environment(go), "GOBIN": directory}
    source = f"{directory}/src-otelcol"
    run([go, "install", f"go.opentelemetry.io/collector/cmd/builder@{COLLECTOR_VERSION}"],
        cwd=directory, env=env)
    with open(f"{directory}/otelcol.yaml", "w") as config:
        config.write(COLLECTOR.format(out=source))
    run([f"{directory}/builder", "--config", f"{directory}/otelcol.yaml"], cwd=directory, env=env)
    os.replace(f"{source}/otelcol", f"{directory}/otelcol")
    shutil.rmtree(source)


def build_all(directory, say):
    """Builds what is missing: {name: path}, and {name: why not}."""
    os.makedirs(directory, exist_ok=True)
    absent = dict(ABSENT)
    servers = {}
    for name in [*SERVERS, "otelcol"]:
        path = f"{directory}/{name}"
        try:
            if not os.access(path, os.X_OK):
                say(f"building {name}")
                go = find_go(directory)
                if name == "otelcol":
                    build_collector(go, directory)
                else:
                    build_module(go, directory, name)
            servers[name] = path
        except Unavailable as reason:
            absent[name] = str(reason)
    return servers, absent
