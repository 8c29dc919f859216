"""A headless Chromium, driven through its DevTools protocol over a pipe: no library, no port, no network."""

import json
import os
import select
import shutil
import subprocess
import tempfile
import time


def find_chromium():
    """Its path, or None."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class BrowserError(Exception):
    pass


class Browser:
    """One page. What it logs is in `messages`, what it asks the network for in `requests`."""

    def __init__(self, width=1400, height=1600, dark=False):
        self.profile = tempfile.mkdtemp(prefix="clusterbench-browser-")
        self.messages, self.requests, self.number, self.buffer = [], [], 0, b""
        here_in, there_out = os.pipe()  # Chromium reads from its descriptor 3 and writes to 4
        there_in, here_out = os.pipe()
        command = [find_chromium(), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                   "--no-first-run", "--disable-background-networking", "--disable-component-update",
                   "--remote-debugging-pipe", f"--user-data-dir={self.profile}", "about:blank"]
        wiring = 'exec 3<&"$1" 4>&"$2"; shift 2; exec "$@"'
        self.process = subprocess.Popen(
            ["bash", "-c", wiring, "wiring", str(there_in), str(there_out), *command],
            pass_fds=(there_in, there_out), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True)
        os.close(there_in)
        os.close(there_out)
        self.into, self.out_of = here_out, here_in
        self.session = None
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(each for each in targets if each["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def close(self):
        try:
            self.session = None
            self.call("Browser.close")
            self.process.wait(10)
        except (BrowserError, OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        os.close(self.into)
        os.close(self.out_of)
        shutil.rmtree(self.profile, ignore_errors=True)

    def receive(self, until):
        while b"\0" not in self.buffer:
            if not select.select([self.out_of], [], [], max(0.0, until - time.monotonic()))[0]:
                raise BrowserError("the browser does not answer")
            read = os.read(self.out_of, 1 << 20)
            if not read:
                raise BrowserError("the browser has ended")
            self.buffer += read
        text, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(text)

    def note(self, event):
        kind, values = event.get("method"), event.get("params", {})
        if kind == "Runtime.consoleAPICalled":
            self.messages.append(" ".join(str(each.get("value", each.get("description")))
                                          for each in values["args"]))
        elif kind == "Runtime.exceptionThrown":
            self.messages.append(json.dumps(values["exceptionDetails"])[:2000])
        elif kind == "Log.entryAdded":
            self.messages.append(values["entry"]["text"])
        elif kind == "Network.requestWillBeSent":
            self.requests.append(values["request"]["url"][:200])

    def call(self, method, timeout=60, **values):
        self.number += 1
        request = {"id": self.number, "method": method, "params": values}
        if self.session:
            request["sessionId"] = self.session
        text = json.dumps(request).encode() + b"\0"
        while text:
            text = text[os.write(self.into, text):]
        until = time.monotonic() + timeout
        while True:
            answer = self.receive(until)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise BrowserError(f"{method}: {answer['error']}")
                return answer["result"]
            self.note(answer)

    # ---- what a person does

    def run(self, script):
        """The value of an expression; promises are awaited."""
        done = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in done:
            raise BrowserError(f"{script}: {done['exceptionDetails']}")
        return done["result"].get("value")

    def open(self, path, timeout=60):
        self.call("Page.navigate", url=path.as_uri())
        self.wait("document.body && document.body.dataset.ready === 'true'", timeout)

    def wait(self, condition, timeout=20):
        until = time.monotonic() + timeout
        while not self.run(condition):
            if time.monotonic() > until:
                raise BrowserError(f"never: {condition}; {self.messages}")
            time.sleep(0.02)

    def move(self, x, y):
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def click(self, selector):
        """With the mouse, in the middle of the first element that fits."""
        box = self.run(f"(() => {{const e = document.querySelector({json.dumps(selector)}); "
                       "e.scrollIntoView({block: 'center'}); const b = e.getBoundingClientRect(); "
                       "return [b.x + b.width / 2, b.y + b.height / 2];})()")
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left", clickCount=1)

    def press(self, key, code=None, text=None):
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, code=code or key,
                  windowsVirtualKeyCode={"Enter": 13, "Tab": 9, " ": 32, "ArrowDown": 40}.get(key, 0),
                  **({"text": text} if text else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, code=code or key)

    def choose(self, name, value):
        """Of a select: as the browser does when the user picks."""
        self.run(f"(() => {{const e = document.querySelector({json.dumps(f'select[name={name}]')}); "
                 f"e.value = {json.dumps(value)}; e.dispatchEvent(new Event('change', {{bubbles: true}}));}})()")

    def picture(self, path):
        import base64
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))
