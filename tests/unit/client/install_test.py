#!/usr/bin/env python3
"""What `make install` leaves is enough for another program: the example of docs/libringtail.md is
built with nothing else."""
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../..")
failed = 0


def check(name, wrong):
    global failed
    print(f"{'not ok' if wrong else 'ok'} {name}")
    if wrong:
        print(f"    {wrong.strip()}")
    failed += bool(wrong)


def run(*words, **environment):
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env={**os.environ, **environment})
    return done.returncode, done.stdout


with tempfile.TemporaryDirectory() as root:
    code, said = run("make", "-C", ROOT, "install", "-o", "all", f"DESTDIR={root}",
                     "PREFIX=/opt/ringtail")
    check("installs", said if code else "")
    found = {"PKG_CONFIG_PATH": f"{root}/opt/ringtail/lib/pkgconfig",
             "PKG_CONFIG_SYSROOT_DIR": root}
    code, flags = run("pkg-config", "--cflags", "--libs", "ringtail", **found)
    check("pkg-config knows it", flags if code else "")
    with open(f"{ROOT}/docs/libringtail.md") as page, open(f"{root}/example.c", "w") as example:
        example.write(re.search(r"```c\n(.*?)```", page.read(), re.DOTALL).group(1))
    code, said = run("cc", "-Wall", "-Wextra", "-Werror", "-o", f"{root}/example",
                     f"{root}/example.c", *flags.split())
    check("the example is built", said if code else "")
    own = f"{root}/etc/ringtail/ringtaild.conf"
    with open(own, "a") as config:
        config.write("# ours\n")
    install = ("-C", ROOT, "-o", "all", f"DESTDIR={root}", "PREFIX=/opt/ringtail")
    code, said = run("make", "install", *install)
    with open(own) as config:
        check("a configuration that is there stays", said if code or "# ours" not in config.read()
              else "")
    code, said = run("make", "uninstall", *install)
    left = [os.path.join(directory, name) for directory, _, names in os.walk(root)
            for name in names if not name.startswith("example")]
    check("uninstall leaves the configuration alone, and nothing else",
          said if code else " ".join(left) if left != [own] else "")
sys.exit(1 if failed else 0)
