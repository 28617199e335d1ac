#!/usr/bin/env python3
"""What is said of a failure: which case, why, in a line; and which lines of its output are shown. And what a
virtual machine's console becomes: passed, failed, late."""
import contextlib
import io
import os
import subprocess
import sys
import tempfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../..")
sys.path[:0] = [os.path.join(ROOT, "tests"), os.path.join(ROOT, "tests/tools")]
import check  # noqa: E402
import outcome  # noqa: E402

wrong = 0


def so(name, holds, *facts):
    global wrong
    print(f"{'ok' if holds else 'not ok'} {name}")
    if not holds:
        print("\n".join(f"# {fact!r}" for fact in facts))
    wrong += not holds


GUEST = ("ok build\n" + "".join(f"ok module-single case_{i}\n" for i in range(20)) +
         "not ok module-single device_bells\n# | [    4.8] # device_bells\n"
         "# | # tests/kmod/test_device.c:330: rung is 0, not 1 (1)\n" +
         "".join(f"ok module-single case_{i}\n" for i in range(20, 90)))
so("the case that failed among many that passed is named, with what it said",
   outcome.reasons(GUEST) == ["module-single device_bells: tests/kmod/test_device.c:330: rung is 0, not 1 (1)"],
   outcome.reasons(GUEST))
shown = outcome.excerpt(GUEST, check.OUTPUT_LINES_SHOWN)
so("and is shown, however much comes after it", "not ok module-single device_bells" in shown and
   any("rung is 0" in line for line in shown) and "..." in shown and shown[-1] == "ok module-single case_89",
   shown)
CMOCKA = """[  ERROR   ] --- 0x1 != 0x2
[   LINE   ] --- tests/unit/a.c:6: error: Failure!
[  ERROR   ] --- 0
[   LINE   ] --- tests/unit/a.c:7: error: Failure!
[ RUN      ] one
[  FAILED  ] one
[ RUN      ] two
[       OK ] two
[ RUN      ] three
[  FAILED  ] three
[  PASSED  ] 1 test(s).
[  FAILED  ] 2 test(s), listed below:
[  FAILED  ] one
[  FAILED  ] three
"""
so("cmocka's cases have each its own reason", outcome.reasons(CMOCKA) == [
    "one: 0x1 != 0x2 (tests/unit/a.c:6)", "three: 0 (tests/unit/a.c:7)"], outcome.reasons(CMOCKA))
so("and are counted", (outcome.passed(CMOCKA), outcome.failed(CMOCKA)) == (1, 2))
SCENARIO = "reload: seed 1\nreload: FAILED: not so: stat exits with 0\n    1\n--- ringtaild-1, stderr:\n" \
           + "log\n" * 300 + "reload: failed, in 1.0 s\n"
so("a scenario's reason is before its logs", outcome.reasons(SCENARIO) ==
   ["reload: FAILED: not so: stat exits with 0"], outcome.reasons(SCENARIO))
so("a hang says so", outcome.reasons("begin\n\nno end after 300 s\n") == ["no end after 300 s"])
so("silence says so", outcome.reasons("") == ["it says nothing"])


def run(script, **options):
    """The results of one job that is this shell script."""
    with tempfile.TemporaryDirectory() as directory:
        results = check.Results(directory)
        with contextlib.redirect_stdout(io.StringIO()):
            check.run_jobs([check.Job("machine", ["sh", "-c", script],
                                      {"MARKER": f"{directory}/marker"}, **options)], results)
        return results


so("the summary names the case and its reason",
   run(f"printf %b '{GUEST.replace(chr(10), chr(92) + 'n')}'; exit 1").failed_lines() ==
   ["machine: " + outcome.reasons(GUEST)[0]])

# ---- A machine's console ------------------------------------------------------------------------

CONSOLE = """SeaBIOS
@run load
@ok load
@run exact
[    4.0] # exact
what it says
@ok exact
@run bells
# tests/kmod/test_device.c:330: rung is 0, not 1 (1)
[    4.1] # slow
@{bells}
@run slow
waiting
@{slow}
@run counted
[  PASSED  ] 5 test(s).
@ok counted
{end}
"""


def report(bells="ok bells", slow="ok slow", end="@end", ended=0):
    with tempfile.NamedTemporaryFile("w") as console:
        console.write(CONSOLE.format(bells=bells, slow=slow, end=end))
        console.flush()
        done = subprocess.run(["sh", "-c", f". tests/kernels/console.sh; ended={ended}; report_guest m "
                               f"{console.name} 10"], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    return done.returncode, done.stdout


status, said = report()
so("a machine where all passed", status == 0 and outcome.passed(said) == 5 + 5 and not outcome.failed(said), said)
status, said = report(bells="not bells")
so("a case that failed says what it said", status == 1 and "rung is 0" in outcome.reasons(said)[0], said)
LATE = "late slow: it was killed after 60 s"
status, said = report(slow=LATE)
so("a case that was late is no failure", status == check.LATE and outcome.late(said) == ["slow"] and
   not outcome.failed(said) and "# | waiting" in said, said)
status, said = report(bells="not bells", slow=LATE)
so("a failure beside one that was late", status == 1 and outcome.failed(said) == 1, said)
status, said = report(end="", ended=124)
so("a machine that had to be ended was late", status == check.LATE and outcome.late(said) == ["guest"], said)
status, said = report(end="", ended=0)
so("a machine that ended by itself before its end has failed", status == 1 and "guest" in said, said)
status, said = report(slow=LATE, end="[  5.0] WARNING: CPU: 0 PID: 9 at mm/slub.c\n@end")
so("late with a kernel that complains: failed", status == 1 and "slub.c" in outcome.reasons(said)[-1], said)
status, said = report(end="[  5.0] BUG: unable to handle page fault", ended=124)
so("a machine that hangs after its kernel complained has failed", status == 1 and
   not outcome.late(said), said)



def died_before_us(text):
    with tempfile.NamedTemporaryFile("w") as console:
        console.write(text)
        console.flush()
        return not subprocess.run(["sh", "-c", f". tests/kernels/console.sh; died_before_us {console.name}"],
                                  cwd=ROOT).returncode


PANIC = "[    0.7] Kernel panic - not syncing: Attempted to kill the idle task!\n"
so("a kernel that died before anything ran is booted again", died_before_us("SeaBIOS\n" + PANIC))
so("one that died of what ran is not", not died_before_us("SeaBIOS\n@begin\n" + PANIC))
so("one that runs is not", not died_before_us("SeaBIOS\n@begin\n@run load\n"))

# ---- What is late runs again, alone, and nothing else -------------------------------------------

PARTLY = f"echo ok one; test $RT_RUN && echo $RT_RUN >$MARKER.again && exit 0; " \
         f"echo late m slow: killed; echo late m slower; exit {check.LATE}"
with tempfile.TemporaryDirectory() as place:
    results = run(PARTLY.replace("$MARKER", f"{place}/marker"), again=True, only="RT_RUN")
    with open(f"{place}/marker.again") as file:
        so("only what was late runs again", file.read() == "slow,slower\n")
so("and is unstable", [job.name for job in results.unstable] == ["machine (alone)"] and not results.failed and results.passed == 2)
results = run(f"test $RT_RUN && echo not ok slow && exit 1; echo late m slow; exit {check.LATE}", again=True,
              only="RT_RUN")
so("what fails then has failed", results.failed == ["machine (alone)"], results.failed)
sys.exit(1 if wrong else 0)
