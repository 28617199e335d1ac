#!/usr/bin/env python3
"""ringtail-probe.h as compilers see it: C11 and C++17, in a program of several files, a shared object and without rseq;
in C++ in inline functions and members, and in templates, of which g++ says that it takes none; and what must not
compile: arguments that do not fit the format, numbers with a fraction, an eleventh argument."""
import ctypes
import os
import shutil
import subprocess
import sys
import tempfile

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")
STRICT = ["-O1", "-Wall", "-Wextra", "-Wshadow", "-Werror", f"-I{TOP}/proto"]
C = ["gcc", "-x", "c", "-std=gnu11", "-Wmissing-prototypes", *STRICT]
C_STRICT = ["gcc", "-x", "c", "-std=c11", "-D_GNU_SOURCE", *STRICT]
CXX = ["g++", "-x", "c++", "-std=c++17", *STRICT]
WHOLE = """
#include "ringtail-probe.h"

int other(void);

static const char *text_of(int n)
{
	return n ? "text" : NULL;
}

static inline void in_line(const char *text)
{
	RT_PROBE(app, in_line, "%s", text);
}

static int spans(int n)
{
	struct rt_span_context from;
	struct rt_span by_hand;
	char text[RT_TRACEPARENT_BYTES];

	RT_SPAN(app, whole, "%d", n);
	RT_SPAN(app, in_it, "no argument");
	rt_span_parse(NULL, &from);
	RT_SPAN_AS(named, &from, app, named, "%s", text_of(n));
	RT_SPAN_BEGIN(&by_hand, &named.context, app, by_hand, "%d %d", n, n);
	rt_span_end(&by_hand);
	named.status = n;
	return rt_span_current(&from) + rt_span_text(&from, text);
}

int main(int argc, char **argv)
{
	unsigned long long big = 1;
	bool_type flag = argc > 1;

	RT_PROBE(app, none, "none");
	RT_PROBE(app, all, "%d %hhu %hd %ld %llu %p %s %c %x %d", argc, (unsigned char)1, (short)-1, 2L, big, (void *)argv,
		 argv[0], 'c', 3u, flag);
	RT_PROBE(app, arrays, "%p %p %p %p %p %p", RT_ARRAY(argv[0], 2), RT_ARRAY(&big, 1u), RT_ARRAY(&flag, argc),
		 RT_ARRAY((const short *)0, 0), RT_ARRAY((const signed char *)argv[0], 1), RT_ARRAY((int *)0, 0));
	in_line("text");
	spans(argc);
	return other() + rt_probe_count() == 14 ? 0 : 1;
}
"""
OTHER = """
#include "ringtail-probe.h"

int other(void);

int other(void)
{
	char text[8] = "array";

	RT_PROBE(app, other, "%s %u", text, 1u);
	RT_PROBE(app, other, "%s", (const char *)text);
	return 0;
}
"""
# Of two files, one of which may be a shared object: each inline function is there once, whoever calls it.
INLINE = """
#include "ringtail-probe.h"

struct counted {
	int n;
	void in_member(int more) { RT_PROBE(app, in_member, "%d %d", this->n, more); RT_SPAN(app, in_span, "%d", n); }
};

inline void in_line(int n)
{
	auto also = [](int more) { RT_PROBE(app, in_lambda, "%d", more); };

	RT_PROBE(app, in_line, "%d", n);
	also(n);
}

TEMPLATE
int listed(int n);
"""
LISTED = """
int listed(int n)
{
	int known = 0;

	in_line(n);
	counted{n}.in_member(1);
	RT_PROBE(app, plain, "%d", n);
	for (const uint32_t *word = __start_rt_probe_words; word < __stop_rt_probe_words; word++)
		known += rt_probe_site_of(word) != NULL;
	return known == (int)rt_probe_count() ? known : -1;
}
"""
CALLS = """
int main(int argc, char **)
{
	in_line(argc);
	counted{argc}.in_member(2);
	IN_TEMPLATE
	return listed(argc) == WANTED && rt_probe_count() == COUNT ? 0 : 1;
}
"""
TEMPLATE = 'template <class type> void in_template(type n) { RT_PROBE(app, in_template, "%d", (int)n); }'
ONE = '#include "ringtail-probe.h"\nvoid f(int n, double d, const char *t);\nvoid f(int n, double d, const char *t)\n' \
      '{ (void)n; (void)d; (void)t; RT_PROBE(app, name, %s); }\n'
REFUSED = {
    "a text where the format has a number": '"%d", t',
    "a number where the format has a text": '"%s", n',
    "too few arguments": '"%d %d", n',
    "too many arguments": '"%d", n, n',
    "a number with a fraction": '"%f", d',
    "an array where the format has a number": '"%d", RT_ARRAY(&n, 1)',
    "an array where the format has a text": '"%s", RT_ARRAY(&n, 1)',
    "an array of numbers with a fraction": '"%p", RT_ARRAY(&d, 1)',
    "an eleventh argument": '"%d%d%d%d%d%d%d%d%d%d%d", n, n, n, n, n, n, n, n, n, n, n',
}
failed = 0


def said(what, right, output=""):
    global failed
    print(f"{'ok' if right else 'not ok'} {what}")
    if not right:
        print("\n".join(f"    {line}" for line in output.splitlines()[:20]))
        failed += 1


def compile_text(compiler, text, out, *options):
    return subprocess.run([*compiler, *options, "-o", out, "-"], input=text, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=60)


def check_program(scratch, what, compiler, flag, *options):
    objects = [f"{scratch}/main.o", f"{scratch}/other.o"]
    for text, name in zip((WHOLE.replace("bool_type", flag), OTHER), objects):
        done = compile_text(compiler, text, name, "-c", *options)
        if done.returncode:
            return said(what, False, done.stdout)
    program = f"{scratch}/program"
    done = subprocess.run([compiler[0], "-o", program, *objects, "-pthread"], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=60)
    code = done.returncode or subprocess.run([program], timeout=20, env={"RINGTAIL_PROGRAMS": ""}).returncode
    return said(what, code == 0, done.stdout)


def check_shared_object(scratch):
    library = f"{scratch}/lib.so"
    done = compile_text(C, OTHER, library, "-shared", "-fPIC")
    os.environ["RINGTAIL_PROGRAMS"] = ""
    said("a shared object, loaded and called", done.returncode == 0 and ctypes.CDLL(library).other() == 0, done.stdout)


def check_inline(scratch, compiler, template="", is_shared=False):
    """Five probes are in both files, and one in the file that lists them: in one program, six; in two objects, five and six."""
    name = f"{compiler}, {'a shared object' if is_shared else 'two files'}{' and a template' if template else ''}"
    head = INLINE.replace("TEMPLATE", template)
    calls = CALLS.replace("IN_TEMPLATE", "in_template(1L);" if template else "").replace("WANTED", "6" if is_shared else
                                                                                          "7" if template else "6")
    calls = calls.replace("COUNT", "5" if is_shared else "7" if template else "6")
    words = [compiler, "-x", "c++", "-std=c++17", "-O2", "-fPIC", *STRICT]
    library = f"{scratch}/liblisted.so" if is_shared else f"{scratch}/listed.o"
    done = compile_text(words, head + LISTED, library, "-shared" if is_shared else "-c")
    if not done.returncode:
        done = compile_text(words, head + calls, f"{scratch}/calls.o", "-c")
    if not done.returncode:
        done = subprocess.run([compiler, "-rdynamic", "-o", f"{scratch}/inline", f"{scratch}/calls.o", library, "-pthread"],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
    code = done.returncode or subprocess.run([f"{scratch}/inline"], timeout=20, env={"RINGTAIL_PROGRAMS": ""}).returncode
    said(f"inline functions by {name}", code == 0, done.stdout)


def check_template_refused(scratch):
    done = compile_text(CXX, INLINE.replace("TEMPLATE", TEMPLATE) + "void f();\nvoid f() { in_template(1); }", f"{scratch}/t.o", "-c")
    said("g++ says that it takes no probe in a template", done.returncode != 0 and
         "call a function from there that is none" in done.stdout, done.stdout)


def main():
    scratch = tempfile.mkdtemp(prefix="ringtail-header-")
    try:
        check_program(scratch, "GNU C11, of two files", C, "_Bool")
        check_program(scratch, "strict C11 with _GNU_SOURCE", C_STRICT, "_Bool")
        check_program(scratch, "without rseq", C, "_Bool", "-DRT_PROBE_NO_RSEQ")
        check_program(scratch, "C++17, of two files", CXX, "bool")
        check_program(scratch, "pedantic C11", C_STRICT, "_Bool", "-Wpedantic")
        check_program(scratch, "C++17 by clang++", ["clang++", *CXX[1:]], "bool", "-Wpedantic")
        check_shared_object(scratch)
        check_inline(scratch, "g++")
        check_inline(scratch, "g++", is_shared=True)
        check_inline(scratch, "clang++")
        check_inline(scratch, "clang++", template=TEMPLATE)
        check_template_refused(scratch)
        for language, compiler in (("C", C), ("C++", CXX)):
            for what, arguments in REFUSED.items():
                # Whoever has only parsed it has refused it.
                done = compile_text(compiler, ONE % arguments, os.devnull, "-fsyntax-only")
                said(f"{language} refuses {what}", done.returncode != 0, done.stdout)
            done = compile_text(compiler, ONE % '"%d %s", n, t', f"{scratch}/taken.o", "-c")
            said(f"{language} takes what fits", done.returncode == 0, done.stdout)
            done = compile_text(compiler, ONE % '"%p", RT_ARRAY(&n, 1)', f"{scratch}/array.o", "-c")
            said(f"{language} takes an array", done.returncode == 0, done.stdout)
    finally:
        shutil.rmtree(scratch)
    return failed != 0


sys.exit(main())
