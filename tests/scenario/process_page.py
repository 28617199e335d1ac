#!/usr/bin/env python3
"""What the status page shows of one process: its calls, files and peers, exactly; files and peers only to whom the daemon
would stream them; of few processes at once, and no longer than somebody looks. A page of another site may link to it, and
has nothing recorded. In a browser a name is text, whatever is in it, and all of the page is had by keyboard."""
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import ringtail
from lib import http, tls
from lib.chromium import Browser
from lib.process import wait_until

OPENS, STATS, BYTES = 300, 50, 20
HOSTILE = '<img src=x onerror=alert(1)>"\\'
LOAD = f"""
import os, socket, sys
place, port, hostile = sys.argv[1], int(sys.argv[2]), sys.argv[3]
open("/proc/self/comm", "w").write("<b>load&")
"x".encode("idna")              # what is imported later would be opened later
os.write(1, b"ready")
while os.read(0, 1):
    for _ in range({OPENS}):
        try:
            os.open(place + "/" + hostile, os.O_RDONLY | os.O_DIRECTORY)
        except NotADirectoryError:
            pass
    for _ in range({STATS}):
        os.stat(place)
    peer = socket.create_connection(("127.0.0.1", port))
    for _ in range({BYTES}):
        peer.sendall(b"x")
    os.write(1, b"done")
"""
CLOSEUPS = 4                    # HTTP_CLOSEUPS_MAX
OTHER_SITE = """<!doctype html><title>another site</title>
<a id=linked href="%(origin)s#process/%(pid)d">the page of a process</a> <a id=asked href="%(api)s">what it calls</a>
<script>
const loaded = element => new Promise(done => {
    element.onload = element.onerror = done;
    element.src = "%(api)s";
    document.body.append(element);
});
const tried = Promise.allSettled([
    fetch("%(api)s"), fetch("%(api)s", {mode: "no-cors", credentials: "include"}), fetch("%(origin)smetrics", {mode: "no-cors"}),
    loaded(new Image()), loaded(document.createElement("script")), loaded(document.createElement("iframe")),
]);
</script>"""
ATTEMPTS = 6                    # in it
FOLDED = """busy;main;outer;inner 30
busy;main;outer;entry_SYSCALL_64_[k];vfs_read_[k] 10
busy;main;<img src=x onerror=alert(1)> 50
idle;main 10
not a stack
"""


class Load:
    def __init__(self, case, port):
        case.write(HOSTILE, "")
        self.process = case.start(sys.executable, "-I", "-S", "-c", LOAD, case.dir, str(port), HOSTILE,
                                  stdin=subprocess.PIPE)
        self.pid, self.popen, self.runs = self.process.pid, self.process.popen, 0
        self.process.wait_for("ready", "out")

    def run(self):
        self.popen.stdin.write(b"x")
        self.popen.stdin.flush()
        self.runs += 1
        wait_until(lambda: self.process.read("out").count("done") == self.runs, "the load has run")

    def end(self):
        self.popen.stdin.close()
        self.popen.wait()


def ask(daemon, pid, expected=200):
    status, _, body = http.get(daemon, f"/api/process/{pid}")
    if status != expected:
        raise AssertionError(f"{status}: {body}")
    return json.loads(body) if status == 200 else body


def await_live(daemon, pid):
    return wait_until(lambda: ask(daemon, pid)["live"], f"the daemon records process {pid}")


def by_name(rows):
    return {row["name"]: row for row in rows}


def settled(daemon, pid):
    """All that the load has done has come: its last is a write."""
    def look():
        shown = ask(daemon, pid)
        calls = by_name(shown["calls"])
        return shown if "write" in calls and not shown["in_flight"] else None
    return wait_until(look, f"what process {pid} did")


def check_ledger(case, shown, what):
    case.check_equal((shown["residual"], shown["lost"]), (0, []), f"{what}: nothing is lost, and the ledger closes")
    case.check_equal(shown["delivered"], sum(row["calls"] for row in [*shown["calls"], shown["other_calls"]]),
                     f"{what}: each event is counted once")


def check_counts(case, shown, port, path):
    calls, files, peers = (by_name(shown[name]) for name in ("calls", "files", "peers"))
    case.check_equal((calls["openat"]["calls"], calls["openat"]["errors"]), (OPENS, OPENS), "each open, and that it failed")
    case.check_equal(sum(calls["openat"]["buckets"]), OPENS, "and how long it took")
    case.check_equal(shown["comm"], "<b>load&", "its name")
    case.check_equal(calls["connect"]["calls"], 1, "its connection")
    case.check_equal((files[path]["calls"], files[path]["errors"]), (OPENS, OPENS), "the file, by its name")
    sent = [row["calls"] for name, row in peers.items() if name.startswith("TCP ") and name.endswith(f"->127.0.0.1:{port}")]
    case.check(sum(sent) >= BYTES, "what it sent to its peer", peers)
    case.check(f"127.0.0.1:{port}" in peers, "where it connected to", list(peers))


def check_roles(case, load):
    """Without viewer-strings no name comes; without a role nothing does."""
    daemon = case.daemon("--http=127.0.0.1:0")
    await_live(daemon, load.pid)
    load.run()
    shown = settled(daemon, load.pid)
    case.check_equal((shown["texts"], shown["files"], shown["peers"]), (False, [], []), "a viewer sees no names")
    case.check("viewer-strings = yes" in shown["why_not"][1], "and how that is changed", shown["why_not"])
    case.check_equal(by_name(shown["calls"])["openat"]["calls"], OPENS, "but the calls")
    case.check(HOSTILE not in json.dumps(shown), "nothing of a name is in the answer")
    check_ledger(case, shown, "a viewer")
    case.check_balanced(daemon)
    daemon.stop()
    daemon = case.daemon("--http=127.0.0.1:0", "--viewer=user:root")
    case.check("viewer = local" in ask(daemon, load.pid, 403), "somebody without a role sees no process")
    case.check_equal(http.get(daemon, "/api/live")[0], 200, "but the page's other numbers")
    case.check_equal(daemon.stat()["counters"]["http_denied"], 1, "the refusal is counted")
    case.check_balanced(daemon)
    daemon.stop()


def check_strangers(case, load):
    """Off loopback: with a token alone; an operator's sees names."""
    import http.client
    import ssl
    server = tls.Server(case)
    path, (alice, root) = tls.tokens(case, "alice", "root")
    daemon = case.daemon(*server.options(), f"--tokens={path}", "--viewer=token:alice", "--operator=token:root", "--viewer=cert:carol",
                         "--http=0.0.0.0:0")

    def get(token):
        context = ssl.create_default_context(cafile=server.server_ca.cert)
        connection = http.client.HTTPSConnection("127.0.0.1", ringtail_port(daemon), context=context)
        headers = {"Authorization": "Bearer " + open(token).read().strip()} if token else {}
        connection.request("GET", f"/api/process/{load.pid}", headers=headers)
        answer = connection.getresponse()
        body = answer.read().decode()
        connection.close()
        return answer.status, json.loads(body) if answer.status == 200 else body

    status, body = get(None)
    case.check(status == 401 and "calls" not in body, "a stranger sees no process", status, body)
    case.check_equal((get(alice)[1]["texts"], get(root)[1]["texts"]), (False, True), "each role sees what it may")
    case.check_balanced(daemon)
    daemon.stop()


def ringtail_port(daemon):
    return http.address_of(daemon)[1]


def check_bounds(case, daemon, load):
    """So many at once; when nobody looks any more, there is room again, and nothing is recorded."""
    pids = [load.pid, os.getpid(), os.getppid(), 1]
    for pid in pids[:CLOSEUPS]:
        ask(daemon, pid)
    case.check("other processes" in ask(daemon, daemon.pid, 503), "one too many is refused")
    ask(daemon, load.pid)
    wait_until(lambda: http.get(daemon, f"/api/process/{daemon.pid}")[0] == 200, "there is room when nobody looks")


def check_sites(case, daemon):
    """As browsers ask for the page of another site: nothing is recorded, nor told; a link is followed."""
    def look(path, site, **more):
        fields = {f"Sec-Fetch-{name.title()}": value for name, value in more.items()}
        return http.get(daemon, path, headers={"Sec-Fetch-Site": site, **fields})[0]
    asked = f"/api/process/{os.getpid()}"
    before = daemon.stat()["counters"]["http_denied"]
    for site in ("cross-site", "same-site"):
        for path in (asked, "/api/live", "/api/history", "/metrics", "/"):
            case.check_equal(look(path, site, mode="no-cors", dest="image"), 403, f"{path} is not for a {site} page")
        for path, status in (("/", 200), ("/metrics", 200), (asked, 403), ("/api/live", 403)):
            case.check_equal(look(path, site, mode="navigate", dest="document"), status, f"a {site} link to {path}")
        case.check_equal(look("/", site, mode="navigate", dest="iframe"), 403, f"a frame in a {site} page")
        case.check_equal(look("/healthz", site, mode="cors", dest="empty"), 200, "that it lives anybody may know")
    case.check_equal(http.get(daemon, asked, headers={"Origin": "https://example.org"})[0], 403, "an old browser has an Origin")
    case.check_equal(daemon.stat()["counters"]["http_denied"] - before, 17, "each refusal is counted")
    now_ns = time.monotonic_ns()
    case.check(ask(daemon, os.getpid())["began_ns"] >= now_ns, "nothing was recorded for them")
    for site in ("same-origin", "none"):
        case.check_equal(look(asked, site, mode="cors", dest="empty"), 200, f"{site} is the page itself, or its user")


def serve_site(case, daemon, pid):
    """A site of others on this host: its port."""
    origin = "http://%s:%d/" % http.address_of(daemon)
    page = OTHER_SITE % {"origin": origin, "pid": pid, "api": f"{origin}api/process/{pid}"}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(page.encode())

        def log_message(self, *_):
            pass
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_address[1]


def check_other_site(case, browser, daemon):
    """In a browser: what its script, pictures and frames ask for is refused, and a link shows the page."""
    child = case.start("sleep", "600")
    port = serve_site(case, daemon, child.pid)
    for name in ("localhost", "127.0.0.1"):     # another site, and the same with another port
        before = daemon.stat()["counters"]["http_denied"]
        page = browser.open(f"http://{name}:{port}/")
        page.evaluate("tried.then(() => true)")
        denied = daemon.stat()["counters"]["http_denied"] - before
        case.check(denied >= ATTEMPTS, f"what a page at {name} asks for is refused", denied)
        page.evaluate("document.getElementById('asked').click()")
        await_page(browser, page, "document.body.textContent.includes('A page of another site')", "so is its link to the numbers")
    now_ns = time.monotonic_ns()
    page = browser.open(f"http://localhost:{port}/")
    page.evaluate("document.getElementById('linked').click()")
    await_page(browser, page, "typeof looked === 'object' && looked.kept.length > 0 && looked.kept.at(-1).live", "its link to the page works")
    case.check(page.evaluate("looked.kept[0].began_ns") >= now_ns, "and nothing was recorded before")
    child.kill()


def await_page(browser, page, expression, what, meanwhile=lambda: None):
    def look():
        meanwhile()
        browser.wait(0.1)
        return page.evaluate(expression)
    return wait_until(look, what)


def texts_of(page, body):
    return page.evaluate(f"[...document.querySelectorAll('#{body} td:first-child')].map(cell => cell.textContent)")


def check_looks(case, browser, page, view):
    for name, width, height, mobile in (("desktop", 1280, 900, False), ("phone", 390, 844, True), ("wall", 2560, 1440, False)):
        page.look(width, height, mobile, False)
        browser.wait(0.3)
        page.screenshot(os.path.join(ringtail.BUILD, "screenshots", f"{view}-{name}.png"))
        case.check(page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, f"{view}: nothing is wider than the {name}")
    page.look()


def check_page(case, browser, daemon, load, path):
    origin = "http://%s:%d/" % http.address_of(daemon)
    page = browser.open(origin + f"#process/{load.pid}")
    await_page(browser, page, "looked.kept.length && looked.kept.at(-1).live", "the page has the process")
    load.run()
    await_page(browser, page, "document.querySelectorAll('#process-calls tr').length > 2 &&"
               " document.querySelectorAll('#process-files td:first-child').length", "its calls and files are shown")
    case.check(path in texts_of(page, "process-files"), "the file is text", texts_of(page, "process-files"))
    case.check(page.evaluate("!document.querySelector('img') && !document.querySelector('main b b')"), "and nothing else")
    case.check(page.evaluate("document.querySelector('#process-ledger .verdict').textContent") == "✓ balanced", "with its ledger")
    for seconds in (60, 300, 10):
        page.evaluate(f"document.querySelector('[data-range=\"{seconds}\"]').click()")
        case.check_equal(page.evaluate("range"), seconds, f"the tables are of {seconds} s")
    page.evaluate("document.querySelector('[data-range=\"300\"]').click()")
    page.evaluate("document.activeElement.blur()")
    page.press("/")
    case.check_equal(page.evaluate("document.activeElement.id"), "search", "/ leads to the search")
    page.evaluate("$('search').value = 'openat'; $('search').dispatchEvent(new Event('input'))")
    case.check_equal(texts_of(page, "process-calls"), ["openat"], "which finds by name")
    opens = page.evaluate("document.querySelector('#process-calls td:nth-child(2)').textContent")
    case.check(int(re.sub(r"\D", "", opens)) >= OPENS, "over a range that holds them all", opens)
    page.evaluate("$('search').value = ''; $('search').dispatchEvent(new Event('input')); $('search').blur()")
    check_looks(case, browser, page, "process")
    check_icicle(case, browser, page)
    page.evaluate("$('process-title').focus()")
    page.press("Escape")
    await_page(browser, page, "!looked.pid && $('process').hidden", "Escape leads back")
    check_rows(case, browser, page, load)
    case.check_equal(page.errors, [], "nothing is wrong on the console")
    outside = [url for url in page.requests if not url.startswith(origin) and url != "data:,"]
    case.check_equal(outside, [], "the page asks nobody but the daemon")


def check_rows(case, browser, page, load):
    """A row's name leads to its process, and keeps the focus while the rows change."""
    page.evaluate("$('search').value = '<B>LO'; $('search').dispatchEvent(new Event('input'))")
    await_page(browser, page, f"!!document.querySelector('#processes a[href=\"#process/{load.pid}\"]')", "the load is a row", load.run)
    case.check_equal(texts_of(page, "processes"), ["<b>load&"], "its name is text, and found whatever its case")
    page.evaluate("document.querySelector('#processes a').focus()")
    seen = page.evaluate("before.monotonic_ns")
    await_page(browser, page, f"before.monotonic_ns > {seen}", "the rows are new")
    case.check_equal(page.evaluate("document.activeElement.getAttribute('href')"), f"#process/{load.pid}", "the row has its focus still")
    page.evaluate("$('search').value = 'no such name'; $('search').dispatchEvent(new Event('input'))")
    case.check_equal(texts_of(page, "processes"), ["No busy process of that name."], "a search leaves rows out")
    case.check_equal(page.evaluate("document.activeElement.id"), "search", "and the focus is not lost")
    page.evaluate("$('search').value = '<B>LO'; $('search').dispatchEvent(new Event('input')); document.querySelector('#processes a').click()")
    await_page(browser, page, f"looked.pid === {load.pid} && looked.comm === '<b>load&'", "a row opens its process")


def check_icicle(case, browser, page):
    page.evaluate(f"openFolded(new File([{json.dumps(FOLDED)}], 'x'))")
    await_page(browser, page, "document.querySelectorAll('#icicle button').length === 10", "the stacks are frames")
    widths = page.evaluate("Object.fromEntries([...document.querySelectorAll('#icicle button')].map(b => [b.textContent, parseFloat(b.style.width)]))")
    case.check_equal((widths["all"], widths["busy"], widths["outer"], widths["vfs_read"]), (100, 90, 40, 10), "as wide as their counts")
    case.check(page.evaluate("!document.querySelector('img')"), "a function's name is text")
    page.evaluate("focusFrame(flame.root)")
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "ArrowRight"):
        page.press(key)
    case.check_equal(page.evaluate("document.activeElement.frame.name"), "outer", "the arrow keys walk the frames")
    page.evaluate("document.activeElement.click()")
    case.check_equal(page.evaluate("document.activeElement.style.width + ' ' + flame.top.name"), "100% outer", "a frame is zoomed into")
    said = page.evaluate("$('flame-reading').textContent")
    case.check("40 samples, 40 % of all" in said.replace("\u2009", ""), "and read out", said)
    page.press("Escape")
    page.press("Escape")
    case.check_equal(page.evaluate("flame.top.name + looked.pid"), f"busy{page.evaluate('looked.pid')}", "Escape zooms out")
    check_looks(case, browser, page, "icicle")


def accept(listener):
    """A peer that takes whoever comes, and keeps them."""
    taken = []
    while True:
        taken.append(listener.accept()[0])


def main(case):
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    threading.Thread(target=accept, args=(listener,), daemon=True).start()
    load = Load(case, port)
    check_roles(case, load)
    check_strangers(case, load)
    daemon = case.daemon("--http=127.0.0.1:0", "--viewer-strings=yes", "--ring-size=16MiB")
    path = os.path.join(case.dir, HOSTILE)
    await_live(daemon, load.pid)
    load.run()
    shown = settled(daemon, load.pid)
    check_counts(case, shown, port, path)
    check_ledger(case, shown, "with names")
    for wrong in ("0", "01", "x", "99999999", "1/../../live"):
        ask(daemon, wrong, 404)
    check_sites(case, daemon)
    check_bounds(case, daemon, load)
    if shutil.which("chromium"):
        os.makedirs(os.path.join(ringtail.BUILD, "screenshots"), exist_ok=True)
        with Browser(case.dir) as browser:
            check_page(case, browser, daemon, load, path)
            check_other_site(case, browser, daemon)
    load.end()
    case.check_balanced(daemon)
    case.check_equal(daemon.stop(), 0, "the daemon ends well")


ringtail.run(main)
