#!/usr/bin/env python3
"""A Rust program with probes (client/rust) is listed and recorded as one in C is, without other crates; one whose
format does not fit its fields is not compiled."""
import os
import subprocess

import binding
from binding import ROOT, Program, await_ended, ringtail

BUILD_S = 300
CRATE = os.path.join(ROOT, "client", "rust")
PASSED = 50
FORKS = """
extern "C" { fn fork() -> i32; fn waitpid(pid: i32, status: *mut i32, options: i32) -> i32; }
fn main() {
    println!("{}", if ringtail_probe::attach() { "attached" } else { "alone" });
    std::io::stdin().read_line(&mut String::new()).unwrap();
    let child = unsafe { fork() };
    for i in 0..PASSED {
        let text = "t".repeat(6 * i) + "\\u{e4}";
        ringtail_probe::probe!(rust_example, passed, "%d %s", is_child: bool = child == 0, text: &str = &text);
    }
    if child != 0 {
        unsafe { waitpid(child, std::ptr::null_mut(), 0) };
    }
}
""".replace("PASSED", str(PASSED))
WRONG = 'fn main() { ringtail_probe::probe!(app, wrong, "%d", text: &str = "a"); }\n'


def rustc(*words):
    return subprocess.run(["rustc", "--edition", "2021", "-O", "-D", "warnings", *words], stderr=subprocess.PIPE,
                          text=True, timeout=BUILD_S)


def be_forked(case, binary):
    """Its child is a process of its own; texts are cut at whole characters."""
    socket = os.path.join(case.path("forks"), "programs.sock")
    daemon = case.daemon(f"--programs={socket}")
    program = Program(case, binary, socket)
    case.check(program.attached, "one that forks is attached")
    stream = case.stream(daemon, "-p", "rust_example:passed", "-o", "json")
    case.check_equal(program.go().process.wait().code, 0, "it ends well")
    await_ended(daemon)
    stream.await_all(2 * PASSED)
    case.check_balanced(daemon)
    done = stream.interrupt()
    case.check_stream(done, events=2 * PASSED)
    case.check_equal(sorted({(event["args"]["is_child"], event["pid"] == program.pid) for event in done.lines}),
                     [(0, True), (1, False)], "and its child is a process of its own")
    texts = [event["args"]["text"] for event in done.lines if event["pid"] == program.pid]
    case.check_equal(texts, ["t" * i * 6 + chr(228) if i * 6 + 2 <= 128 else "t" * min(i * 6, 128)
                             for i in range(PASSED)], "texts are cut at whole characters")


def main(case):
    library, program = case.path("libringtail_probe.rlib"), case.path("rust-example")
    use = ("--extern", f"ringtail_probe={library}")
    for words in (("--crate-type", "rlib", "--crate-name", "ringtail_probe", "-o", library, f"{CRATE}/src/lib.rs"),
                  (*use, "-o", program, f"{CRATE}/examples/turns.rs")):
        done = rustc(*words)
        case.check_equal((done.returncode, done.stderr), (0, ""), f"{os.path.basename(words[-1])} is compiled")
    done = rustc(*use, "-o", case.path("wrong-example"), case.write("wrong.rs", WRONG))
    case.check(done.returncode != 0 and "the probe's fields do not fit its format" in done.stderr,
               "a format that does not fit its fields is told", done.stderr)
    forks = case.path("rust-forks")
    done = rustc(*use, "-o", forks, case.write("forks.rs", FORKS))
    case.check_equal((done.returncode, done.stderr), (0, ""), "a program that forks is compiled")
    be_forked(case, forks)
    binding.check(case, program, "rust_example")


ringtail.run(main)
