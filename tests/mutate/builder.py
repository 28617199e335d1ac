"""builder: builds a test of a tree in which one file is another, and nothing else of it.

Only the objects that the file goes into are compiled again, and the programs that the test runs linked
again, in a folder of the mutant's own: the tree stays as it is, and several mutants can be built at once.
What no object's list of dependencies names (kmod/bpf, where it is loaded into the kernel; a generator) is
built by make in a tree of its own instead: see `Tree`.
"""
import os
import re
import shlex
import shutil
import subprocess

OPTIMISED_AS_ONE = ("-flto=auto", "-ffat-lto-objects")
PROGRAMS = ("ringtaild", "tracectl")
TIMEOUT_S = 600
# What a test's object wraps, as the Makefile asks for it.
WRAPPED = re.compile(r"\$\(nm ([^|]*\S) *\|[^)]*\)")


class DoesNotBuild(Exception):
    """With what the compiler said."""


class Commands:
    """How the tree's objects are compiled, what its archives hold, and how its programs are linked: as
    make would do it all."""

    def __init__(self, tree, build):
        self.tree, self.compile, self.archive, self.link = tree, {}, {}, {}
        self.needs = {}
        listed = subprocess.run(["make", "-Bn", "V=1", f"BUILD={build}", "all", "tests"], cwd=tree, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
        for line in listed.splitlines():
            self.take(line)

    def take(self, line):
        if not re.search(r"\bar rcs | -o ", line):
            return
        words = shlex.split(WRAPPED.sub(lambda nm: "wrapped:" + nm.group(1).replace(" ", ":"),
                                        line.split("&&")[-1]))
        if words[0] == "ar":
            self.archive[words[2]] = words[3:]
        elif "-c" in words and words[words.index("-c") + 1].endswith(".c"):
            self.compile[words[words.index("-o") + 1]] = words
        elif "-o" in words and "-c" not in words:
            self.link[words[words.index("-o") + 1]] = words

    def needs_of(self, obj):
        """The files of the tree that the object was made of."""
        if obj not in self.needs:
            path = os.path.join(self.tree, re.sub(r"\.o$", ".d", obj))
            words = open(path).read().replace("\\\n", " ").split() if os.path.exists(path) else []
            self.needs[obj] = {os.path.normpath(word) for word in words if not word.endswith(":")}
        return self.needs[obj]

    def objects_of(self, program):
        """Its own, and all that lie in its archives."""
        found = []
        for word in self.link[program]:
            found += [word] if word in self.compile else self.archive.get(word, [])
        return list(dict.fromkeys(found))

    def made_of(self, program, path):
        """The program's objects that the file goes into."""
        return [obj for obj in self.objects_of(program) if path in self.needs_of(obj)]


def run(command, cwd):
    done = subprocess.run(command, cwd=cwd, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          errors="replace", timeout=TIMEOUT_S)
    if done.returncode:
        raise DoesNotBuild(done.stdout[-2000:])


class Overlay:
    """The tree with another text for one file. `place` is a folder of its own."""

    def __init__(self, commands, place, path, text):
        self.commands, self.place, self.path = commands, place, path
        self.compiled, self.archives, self.linked = {}, {}, {}
        shutil.rmtree(place, ignore_errors=True)
        target = os.path.join(place, "source", path)
        os.makedirs(os.path.dirname(target))
        with open(target, "w") as file:
            file.write(text)
        # What it includes from its own folder.
        beside = os.path.join(commands.tree, os.path.dirname(path))
        for name in os.listdir(beside):
            if name != os.path.basename(path):
                os.symlink(os.path.join(beside, name), os.path.join(os.path.dirname(target), name))

    def inside(self, path):
        """Where it stands in the overlay; its folder is made."""
        target = os.path.join(self.place, path)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        return target

    def object(self, obj):
        """The object, compiled again if the file goes into it."""
        if self.path not in self.commands.needs_of(obj):
            return obj
        if obj not in self.compiled:
            words = [word for word in self.commands.compile[obj]
                     if word not in OPTIMISED_AS_ONE + ("-MMD", "-MP")]
            source = words[words.index("-c") + 1]
            if source == self.path:
                words[words.index("-c") + 1] = os.path.join(self.place, "source", source)
            words[words.index("-o") + 1] = self.inside(obj)
            # What a mutant leaves unused is no error.
            run(words[:1] + ["-w", "-I" + os.path.join(self.place, "source")] +
                [word for word in words[1:] if word != "-Werror"], self.commands.tree)
            self.compiled[obj] = self.inside(obj)
        return self.compiled[obj]

    def library(self, archive):
        """The archive, made again (of names alone) if the file goes into any of its objects."""
        if archive not in self.archives:
            old = self.commands.archive[archive]
            new = [self.object(obj) for obj in old]
            self.archives[archive] = archive
            if new != old:
                run(["ar", "rcsT", self.inside(archive), *(os.path.join(self.commands.tree, obj) for obj in new)],
                    self.commands.tree)
                self.archives[archive] = self.inside(archive)
        return self.archives[archive]

    def program(self, program):
        """The program, linked again if the file goes into it."""
        if program not in self.linked:
            words = [self.object(word) if word in self.commands.compile else
                     self.library(word) if word in self.commands.archive else word
                     for word in self.commands.link[program] if word not in OPTIMISED_AS_ONE]
            words = [flag for word in words for flag in self.wraps(word)]
            self.linked[program] = program
            if self.commands.made_of(program, self.path):
                words[words.index("-o") + 1] = self.inside(program)
                run(words, self.commands.tree)
                self.linked[program] = self.inside(program)
        return self.linked[program]

    def wraps(self, word):
        """The word, or the flags that it stands for."""
        if not word.startswith("wrapped:"):
            return [word]
        symbols = subprocess.run(["nm", *map(self.object, word.split(":")[1:])], cwd=self.commands.tree, text=True,
                                 stdout=subprocess.PIPE, check=True).stdout
        return ["-Wl,--wrap=" + name for name in re.findall(r" T __wrap_(\w+)", symbols)]

    def build_folder(self, build):
        """What RINGTAIL_BUILD names: the tree's own, with the programs of the overlay."""
        folder = os.path.join(self.place, "programs")
        if not os.path.isdir(folder):
            os.makedirs(folder)
            for name in os.listdir(os.path.join(self.commands.tree, build)):
                if name not in PROGRAMS:
                    os.symlink(os.path.join(self.commands.tree, build, name), os.path.join(folder, name))
            for name in PROGRAMS:
                os.symlink(os.path.join(self.commands.tree, self.program(f"{build}/{name}")),
                           os.path.join(folder, name))
        return folder


class Tree:
    """A tree in which the file itself is another, until `restore`; make builds what needs it."""

    def __init__(self, tree, path, text):
        self.tree, self.path = tree, path
        with open(os.path.join(tree, path)) as file:
            self.sound = file.read()
        self.put(text)

    def put(self, text):
        with open(os.path.join(self.tree, self.path), "w") as file:
            file.write(text)

    def restore(self):
        self.put(self.sound)
