#!/usr/bin/env python3
"""sbom: what a release consists of, as SPDX 2.3 in JSON.

	usage: .ci/sbom.py TREE NAME VERSION SECONDS >sbom.spdx.json

TREE is an unpacked archive. Each of its files is there with its checksums and its licence (as debian/copyright
says), and each Debian package that building takes, in the version that this machine has. SECONDS: when it was
made, so that the same source says the same.
"""
import hashlib
import json
import os
import re
import subprocess
import sys
import time

LICENCES = {"GPL-2": "GPL-2.0-only", "GPL-2 or BSD-2-Clause": "GPL-2.0-only OR BSD-2-Clause",
            "GPL-2 with Linux-syscall-note exception or BSD-2-Clause":
            "(GPL-2.0-only WITH Linux-syscall-note) OR BSD-2-Clause"}


def digest(kind, data):
    return {"algorithm": kind.upper(), "checksumValue": hashlib.new(kind, data).hexdigest()}


def licences(tree):
    """Pairs of a path's beginning and a licence, the one that counts last."""
    with open(f"{tree}/debian/copyright") as file:
        found = re.findall(r"^Files: (\S+)\n(?:.*\n)*?License: (.+)$", file.read(), re.M)
    return [(pattern.rstrip("*"), LICENCES.get(name, name)) for pattern, name in found]


def files_of(tree):
    rules = licences(tree)
    for directory, names, here in os.walk(tree):
        names.sort()
        for name in sorted(here):
            path = os.path.relpath(os.path.join(directory, name), tree)
            if os.path.islink(os.path.join(tree, path)):
                continue
            with open(os.path.join(tree, path), "rb") as file:
                data = file.read()
            licence = [name for prefix, name in rules if path.startswith(prefix)][-1]
            yield {"SPDXID": "SPDXRef-File-" + hashlib.sha1(path.encode()).hexdigest()[:16],
                   "fileName": f"./{path}", "checksums": [digest("sha1", data), digest("sha256", data)],
                   "licenseConcluded": licence, "licenseInfoInFiles": [licence], "copyrightText": "NOASSERTION"}


def packages_to_build(tree):
    with open(f"{tree}/.ci/deps.sh") as file:
        names = re.search(r"^build='([^']*)'", file.read(), re.M)[1].split()
    for name in names:
        done = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", name], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        package = {"SPDXID": "SPDXRef-Package-" + re.sub(r"[^A-Za-z0-9.-]", "-", name), "name": name,
                   "downloadLocation": "NOASSERTION", "filesAnalyzed": False, "licenseConcluded": "NOASSERTION",
                   "licenseDeclared": "NOASSERTION", "copyrightText": "NOASSERTION"}
        if done.stdout:
            package["versionInfo"] = done.stdout
            package["externalRefs"] = [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                                        "referenceLocator": f"pkg:deb/debian/{name}@{done.stdout}"}]
        yield package


def main():
    tree, name, version, seconds = sys.argv[1:]
    files = list(files_of(tree))
    needed = list(packages_to_build(tree))
    code = hashlib.sha1("".join(sorted(file["checksums"][0]["checksumValue"] for file in files)).encode()).hexdigest()
    ours = {"SPDXID": "SPDXRef-Package", "name": name, "versionInfo": version, "downloadLocation": "NOASSERTION",
            "filesAnalyzed": True, "packageVerificationCode": {"packageVerificationCodeValue": code},
            "licenseConcluded": "BSD-2-Clause AND GPL-2.0-only", "licenseDeclared": "BSD-2-Clause AND GPL-2.0-only",
            "licenseInfoFromFiles": sorted({file["licenseConcluded"] for file in files}),
            "copyrightText": f"2026 the {name} authors", "supplier": f"Organization: the {name} authors"}
    relations = [("SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-Package")]
    relations += [("SPDXRef-Package", "CONTAINS", file["SPDXID"]) for file in files]
    relations += [(package["SPDXID"], "BUILD_DEPENDENCY_OF", "SPDXRef-Package") for package in needed]
    document = {
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"{name}-{version}", "documentNamespace": f"urn:sha1:{code}:{name}-{version}",
        "creationInfo": {"created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(int(seconds))),
                         "creators": ["Tool: ringtail/.ci/sbom.py"]},
        "packages": [ours, *needed], "files": files,
        "relationships": [{"spdxElementId": a, "relationshipType": kind, "relatedSpdxElement": b}
                          for a, kind, b in relations]}
    json.dump(document, sys.stdout, indent=1)
    print()


main()
