"""chromium: a headless browser, driven through a pipe by the DevTools protocol.

    with Browser(directory) as browser:
        page = browser.open("http://127.0.0.1:7118/")
        page.evaluate("document.title")

What the page writes to its console, what it throws and what it asks the network for is kept.
"""
import base64
import json
import os
import select
import shutil
import subprocess
import time

from .process import PATIENCE_S


class BrowserFailure(Exception):
    pass


class Browser:
    def __init__(self, directory):
        program = shutil.which("chromium")
        if not program:
            raise BrowserFailure("there is no chromium")
        to_read, self.write_fd = os.pipe()
        self.read_fd, to_write = os.pipe()
        # DevTools reads descriptor 3 and writes descriptor 4.
        low = [os.dup(fd) for fd in (to_read, to_write)]
        command = (f'exec "$@" 3<&{low[0]} 4>&{low[1]} {low[0]}<&- {low[1]}>&-')
        with open(os.path.join(directory, "chromium.log"), "wb") as log:
            self.popen = subprocess.Popen(
                ["bash", "-c", command, "bash", program, "--headless", "--no-sandbox",
                 "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage",
                 "--disable-background-networking", "--disable-component-update",
                 "--disable-sync", "--disable-extensions", "--mute-audio", "--hide-scrollbars",
                 f"--user-data-dir={directory}/profile", "--remote-debugging-pipe",
                 "about:blank"],
                pass_fds=low, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                env={**os.environ, "HOME": directory}, start_new_session=True)
        for fd in (to_read, to_write, *low):
            os.close(fd)
        self.buffer, self.number, self.pages = b"", 0, {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        if self.popen.poll() is None:
            try:
                self.call("Browser.close")
                self.popen.wait(PATIENCE_S)
            except (BrowserFailure, OSError, subprocess.TimeoutExpired):
                self.popen.kill()
                self.popen.wait(PATIENCE_S)
        os.close(self.write_fd)
        os.close(self.read_fd)

    def _receive(self, deadline):
        """One message; None at the deadline."""
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.read_fd], [], [], max(0, deadline - time.monotonic()))
            if not ready:
                return None
            more = os.read(self.read_fd, 1 << 16)
            if not more:
                raise BrowserFailure("chromium is gone")
            self.buffer += more
        text, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(text)

    def _note(self, message):
        page = self.pages.get(message.get("sessionId"))
        if page:
            page.note(message)

    def call(self, method, session=None, **params):
        self.number += 1
        request = {"id": self.number, "method": method, "params": params}
        if session:
            request["sessionId"] = session
        os.write(self.write_fd, json.dumps(request).encode() + b"\0")
        deadline = time.monotonic() + PATIENCE_S
        while True:
            message = self._receive(deadline)
            if message is None:
                raise BrowserFailure(f"{method}: no answer")
            if message.get("id") == self.number:
                if "error" in message:
                    raise BrowserFailure(f"{method}: {message['error']['message']}")
                return message["result"]
            self._note(message)

    def wait(self, seconds):
        """Lets the page live, and takes what it says meanwhile."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            message = self._receive(deadline)
            if message:
                self._note(message)

    def open(self, url, **media):
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session)
        self.pages[session] = page
        for domain in ("Page", "Runtime", "Network", "Log"):
            page.call(f"{domain}.enable")
        page.look(**media)
        page.call("Page.navigate", url=url)
        deadline = time.monotonic() + PATIENCE_S
        while not page.evaluate(f"document.URL === {json.dumps(url)} &&"
                                " document.readyState === 'complete'"):
            if time.monotonic() > deadline:
                raise BrowserFailure(f"{url} does not load")
            self.wait(0.05)
        return page


class Page:
    def __init__(self, browser, session):
        self.browser, self.session = browser, session
        self.errors, self.requests = [], []

    def note(self, message):
        method, params = message["method"], message["params"]
        if method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
            self.errors.append(str([one.get("value") for one in params["args"]]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.errors.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])

    def call(self, method, **params):
        return self.browser.call(method, self.session, **params)

    def look(self, width=1280, height=900, mobile=False, dark=False):
        """As which device, and in which colours, the page is seen."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=2 if mobile else 1, mobile=mobile)
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def evaluate(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True,
                           awaitPromise=True)
        if "exceptionDetails" in result:
            raise BrowserFailure(result["exceptionDetails"]["text"])
        return result["result"].get("value")

    def press(self, key):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key)

    def screenshot(self, path):
        """The whole page, however long."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True,
                         clip={"x": 0, "y": 0, "width": size["width"], "height": size["height"],
                               "scale": 1})
        with open(path, "wb") as file:
            file.write(base64.b64decode(shot["data"]))
