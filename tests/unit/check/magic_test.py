#!/usr/bin/env python3
"""file(1) with our magic knows a recording and a segment, of every version, and takes nothing else for one; the MIME
type has the same beginnings, and an icon of its own."""
import glob
import os
import re
import subprocess
import sys
import xml.etree.ElementTree

os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../.."))
MAGIC = "client/desktop/ringtail.magic"
TYPE = "application/vnd.ringtail.recording"
failed = 0


def check(name, good, *facts):
    global failed
    print(f"{'ok' if good else 'not ok'} {name}")
    for fact in facts if not good else ():
        print(f"    {fact}")
    failed += not good


def kind(path, *options):
    return subprocess.run(["file", "-b", "-m", MAGIC, *options, path], check=True, stdout=subprocess.PIPE,
                          text=True).stdout.strip()


with open("proto/frame_types.def") as file:
    numbers = dict(re.findall(r"^FRAME\((\w+),\s*(\d+),", file.read(), re.M))
places = "{http://www.freedesktop.org/standards/shared-mime-info}"
begins = [eval(f'b"{match.get("value")}"') for match in xml.etree.ElementTree.parse(
    "client/desktop/ringtail.xml").iter(f"{places}match")]
check("the MIME type begins with the first frame of a file", begins == [
    b"Rt\x01" + bytes([int(numbers[name])]) for name in ("SERVER_HELLO", "SEGMENT_HEAD")], begins)
# What desktops look for: the type's own icon, in the theme that all others fall back on.
icon = xml.etree.ElementTree.parse("client/desktop/ringtail.xml").find(f".//{places}icon").get("name")
with open("Makefile") as file:
    installs = re.findall(r"-m 0644 (\S+\.svg) \\\s+\S+/icons/hicolor/scalable/mimetypes/(\S+)\.svg", file.read())
check("the MIME type's icon is installed by the type's name", len(installs) == 1 and
      installs[0][1] == icon == TYPE.replace("/", "-"), icon, installs)
drawing = xml.etree.ElementTree.parse(installs[0][0]).getroot()
check("it is a square drawing of any size", drawing.tag == "{http://www.w3.org/2000/svg}svg" and
      drawing.get("viewBox") == "0 0 64 64" and not [at for at in drawing.iter() if "href" in str(at.attrib)])

recordings = ["tests/data/capture.rt", *glob.glob("tests/data/*/recording.rt")]
segments = glob.glob("tests/data/*/spool/*.*")
for paths, wanted in (recordings, "ringtail recording, version 1"), (segments, "ringtail spool segment, version 1"):
    for path in paths:
        check(f"{path} is a {wanted}", kind(path) == wanted and kind(path, "--mime-type") == TYPE, kind(path))
        with open(path, "rb") as file:
            check(f"{path} is {TYPE}", file.read(4) in begins)
check("there are both", len(recordings) > 1 and segments)
for path in "README.md", "tests/data/0.1.0/expected.json":
    check(f"{path} is none", "ringtail" not in kind(path), kind(path))
sys.exit(1 if failed else 0)
