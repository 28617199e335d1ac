#!/usr/bin/env python3
"""The status page in a real browser: its numbers move under load, nothing but the daemon is asked for
anything, no error is on the console, it works by keyboard, and says so when the daemon is gone.

Leaves screenshots in BUILD/screenshots: a phone's and a desktop's, dark and light.
"""
import os
import shutil
import sys

import ringtail
from lib import exporting, http
from lib.backend import Backend
from lib.chromium import Browser
from lib.process import Skip, wait_until

LOAD = """
import os, time
parent = os.getppid()
while os.getppid() == parent:
    for _ in range(400):
        os.getppid()
        try:
            os.stat("/nowhere")
        except OSError:
            pass
    time.sleep(0.005)
"""
RATE = 100                      # of exported events, in a second
LOOKS = [("desktop", 1280, 900, False), ("phone", 390, 844, True), ("wall", 2560, 1440, False)]
# Text, and what it stands on: WCAG 2 AA asks for 4.5 to 1.
TEXTS = [("--ink", "--paper"), ("--ink", "--bar"), ("--ink", "--bad-paper"), ("--soft", "--paper"), ("--accent", "--paper"),
         ("--good", "--paper"), ("--bad", "--paper"), ("--paper", "--ink")]
CONTRAST = 4.5


def text(page, element):
    return page.evaluate(f"document.getElementById('{element}').textContent")


def await_page(browser, page, expression, what):
    def look():
        browser.wait(0.1)
        return page.evaluate(expression)
    return wait_until(look, what)


def check_numbers(case, browser, page):
    await_page(browser, page, "document.getElementById('lamp').textContent === 'live'",
               "the page says that the daemon lives")
    await_page(browser, page, "columns.length >= 4", "the map has seconds in it")
    before = page.evaluate("before.syscalls")
    await_page(browser, page, f"before.syscalls > {before} + 1000",
               "the count of system calls goes on")
    shown = text(page, "calls-rate")
    case.check(shown.endswith("/s") and shown[0].isdigit(), "the rate of calls is a number", shown)
    await_page(browser, page,
               "[...document.querySelectorAll('#syscalls td:first-child')]"
               ".some(cell => cell.textContent === 'getppid')", "getppid is among the calls")
    await_page(browser, page,
               "[...document.querySelectorAll('#processes td:first-child')]"
               ".some(cell => cell.textContent.startsWith('python'))",
               "the load is among the processes")
    case.check(not page.evaluate("before.processes.some(one => one.pid === 0)"), "the idle task is no process")
    verdict = text(page, "verdict")
    case.check(verdict.startswith("✓ all"), "the ledger is green", verdict)
    case.check(page.evaluate("document.querySelectorAll('#rings .sum').length") ==
               page.evaluate("before.rings.length + 2"),
               "each ring has its equation, and so have the spool and the export")
    case.check(page.evaluate("document.querySelectorAll('#clients .sum').length") == 1,
               "the client has its equation")


def equations(page):
    """What is on the page: names, terms as they are written, verdicts, and where those stand."""
    return page.evaluate("""[...document.querySelectorAll('.sum')].map(line => ({
        name: line.querySelector('.name').firstChild.textContent,
        terms: [...line.querySelectorAll('.term')].map(term => ({sign: term.dataset.sign || '',
            value: Number(term.querySelector('b').textContent.replace(/\\D/g, '')),
            label: term.querySelector('span').textContent})),
        verdict: line.querySelector('.verdict').textContent,
        right: Math.round(line.querySelector('.verdict').getBoundingClientRect().right)}))""")


def check_equations(case, page):
    """The terms that are written there add up, so that the verdict beside them is true."""
    shown = equations(page)
    for equation in shown:
        whole, *parts = equation["terms"]
        case.check_equal([part["sign"] for part in parts], ["="] + ["+"] * (len(parts) - 1),
                         f"{equation['name']} is a sum")
        case.check(whole["value"] == sum(part["value"] for part in parts) and
                   equation["verdict"] == "✓ balanced", "that adds up as it is written", equation)
    export, = [equation for equation in shown if equation["name"].startswith("loki")]
    asked = {term["label"]: term["value"] for term in export["terms"]}
    case.check(asked["events"] and asked["not asked for"], "the export has terms to add", asked)
    spool, = [equation for equation in shown if equation["name"].startswith("spool")]
    case.check(spool["terms"][0]["value"], "and so has the spool", spool)


def check_units(case, page):
    """A number at the border of a unit is one of the next, and not 1000 of this one."""
    for call, shown in (("time(999)", "999 ns"), ("time(999999)", "1.00 ms"), ("time(999.4e6)", "999 ms"),
                        ("time(999999999)", "1.00 s"), ("time(9.996e3)", "10.0 µs"), ("time(99.96e3)", "100 µs"),
                        ("short(999999)", "1.00 M"), ("short(9.97)", "10"), ("short(2.25)", "2.3"),
                        ("short(999.7)", "1.00 k"), ("bytes(1048575)", "1.00 MiB"), ("bytes(1023)", "1023 B"),
                        ("percent(9.97)", "10")):
        case.check_equal(page.evaluate(call).replace("\u2009", " "), shown, f"{call} is shown so")


def check_windows(case, browser, page):
    """All columns are of the same second: each call's bucket counts add up to no more than those of all."""
    case.check(page.evaluate("""columns.filter(column => column.working).every(column =>
        column.working.every((n, i) => n <= column.duration[i]))"""), "what does not wait is a part of all calls")
    await_page(browser, page, "columns.some(column => column.working && sum(column.working) < sum(column.duration))",
               "calls that wait are left out")
    case.check(page.evaluate("""before.calls.every(call => sum(bucketsSince(call, call)) === 0)"""),
               "a p99 is of the last second, and not of what was before")


def check_picture(case, page):
    """The map has more than its background in it, of the time before the page was there, too."""
    case.check(page.evaluate("columns[0].at < performance.timeOrigin"),
               "the map begins before the page was opened")
    case.check(page.evaluate("columns.every((column, i) => !i || columns[i - 1].at < column.at)"),
               "its seconds are in order")
    colours = page.evaluate("""(() => {
        const heat = document.getElementById("heat");
        const data = heat.getContext("2d").getImageData(0, 0, heat.width, heat.height).data;
        const seen = new Set();
        for (let i = 0; i < data.length; i += 4)
            if (data[i + 3] === 255) seen.add(data[i] << 16 | data[i + 1] << 8 | data[i + 2]);
        return seen.size;
    })()""")
    case.check(colours > 3, "the map is drawn in several colours", colours)


def check_keyboard(case, page):
    page.evaluate("document.getElementById('heat').focus()")
    page.press("ArrowLeft")
    page.press("ArrowLeft")
    reading = text(page, "reading")
    case.check("calls" in reading and reading.startswith("At "),
               "the arrow keys read the map", reading)
    page.evaluate("document.querySelector('[data-map=sched_latency]').click()")
    case.check("waits" in text(page, "reading"), "the other map is read the same way",
               text(page, "reading"))
    page.evaluate("document.querySelector('[data-map=working]').click()")
    case.check("calls" in text(page, "reading"), "so is the map without calls that wait", text(page, "reading"))
    page.evaluate("document.querySelector('[data-map=duration]').click()")
    page.press("Escape")


def luminance(colour):
    parts = [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]
    parts = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def check_contrast(case, page, look):
    """Of all text with what is behind it, in the colours that are in force."""
    low = {}
    for text_colour, paper in TEXTS:
        light = sorted((luminance(page.evaluate(f"colour('{name}')")) for name in (text_colour, paper)), reverse=True)
        contrast = (light[0] + 0.05) / (light[1] + 0.05)
        if contrast < CONTRAST:
            low[text_colour, paper] = round(contrast, 2)
    case.check(not low, f"{look}: all text is at least {CONTRAST} to 1", low)


def take_screenshots(case, browser, page):
    directory = os.path.join(ringtail.BUILD, "screenshots")
    os.makedirs(directory, exist_ok=True)
    for name, width, height, mobile in LOOKS:
        for dark in (False, True):
            page.look(width, height, mobile, dark)
            browser.wait(0.4)
            page.evaluate("draw()")
            page.screenshot(os.path.join(directory, f"{name}-{'dark' if dark else 'light'}.png"))
            right = {equation["right"] for equation in equations(page)}
            case.check(len(right) == 1, "the verdicts stand in one column", right)
            wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
            case.check(wide <= 0, f"nothing is wider than the {name}", wide)
            check_contrast(case, page, f"{name}, {'dark' if dark else 'light'}")


def main(case):
    if not shutil.which("chromium"):
        raise Skip("there is no chromium")
    backend = Backend()
    daemon = case.daemon("--http=127.0.0.1:0", backend.url("loki"),
                         *(word for word in exporting.options() if "rate" not in word),
                         f"--export-rate={RATE}", "--durability=written",
                         f"--state-dir={case.path('state')}")
    exporting.await_begun(daemon)
    exporting.fail_often(10 * RATE)

    def is_exported():
        export = exporting.stat(daemon, backend)
        return export["accepted"] and export["filtered"]
    wait_until(is_exported, "some of it is exported, and not all")
    case.start(sys.executable, "-c", LOAD)
    stream = case.stream(daemon, "-p", "syscall:getppid:call", "-o", "none")
    origin = "http://%s:%d/" % http.address_of(daemon)
    wait_until(lambda: http.get(daemon, "/api/history")[2].count('"at"') >= 3,
               "the daemon remembers some seconds")
    with Browser(case.dir) as browser:
        page = browser.open(origin)
        check_numbers(case, browser, page)
        check_equations(case, page)
        check_units(case, page)
        check_windows(case, browser, page)
        check_picture(case, page)
        check_keyboard(case, page)
        take_screenshots(case, browser, page)
        outside = [url for url in page.requests
                   if not url.startswith(origin) and url != "data:,"]
        case.check_equal(outside, [], "the page asks nobody but the daemon")
        case.check(len(page.requests) > 4, "it asks each second", page.requests)
        case.check_equal(page.errors, [], "nothing is wrong on the console")

        stream.signal(2)
        stream.wait()
        case.check_balanced(daemon)
        case.check_equal(daemon.stop(), 0, "the daemon ends well")
        await_page(browser, page, "document.body.classList.contains('gone')",
                   "the page says that the daemon is gone")
        case.check("does not answer" in text(page, "gone"), "in words", text(page, "gone"))


ringtail.run(main)
