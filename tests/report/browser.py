"""A headless Chromium, driven through its own pipe: the DevTools protocol without a library and without a port."""

import base64
import json
import os
import shutil
import subprocess
import tempfile

NAMES = ("chromium", "chromium-browser", "google-chrome")


def find():
    """The path of a Chromium, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One page. Chromium reads commands from its descriptor 3 and writes answers to 4, each ended by a zero byte."""

    def __init__(self, program):
        self.profile = tempfile.TemporaryDirectory(prefix="iclab-browser-")
        to_us, from_it = os.pipe()
        to_it, from_us = os.pipe()
        options = ["--headless=new", "--remote-debugging-pipe", "--disable-gpu", "--no-first-run",
                   "--disable-background-networking", "--disable-dev-shm-usage", "--hide-scrollbars",
                   "--force-color-profile=srgb", f"--user-data-dir={self.profile.name}"]
        if os.geteuid() == 0:
            options.append("--no-sandbox")  # Chromium refuses to run as root with one
        # Only a shell says which descriptor becomes which.
        command = f'exec "$@" 3<&{to_it} 4>&{from_it}'
        with open(os.path.join(self.profile.name, "log"), "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(["sh", "-c", command, "sh", program, *options], stdout=log, stderr=log,
                                            stdin=subprocess.DEVNULL, pass_fds=(to_it, from_it))
        os.close(to_it)
        os.close(from_it)
        self.commands = os.fdopen(from_us, "wb", 0)
        self.answers = os.fdopen(to_us, "rb")
        self.number = 0
        self.session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Page.enable")

    def receive(self):
        message = bytearray()
        while (byte := self.answers.read(1)) != b"\0":
            if not byte:
                raise RuntimeError("Chromium ended: " + self.log())
            message += byte
        return json.loads(message)

    def log(self):
        with open(os.path.join(self.profile.name, "log"), encoding="utf-8", errors="replace") as file:
            return file.read()[-2000:]

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        self.commands.write(json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def show(self, path, width, height, scheme):
        """Loads a file in a window so large, light or dark."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                  mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.call("Page.navigate", url="file://" + os.path.abspath(path))
        while self.evaluate("document.readyState") != "complete":
            pass

    def evaluate(self, script):
        """What JavaScript evaluates to. It runs beside the page, whose own policy forbids scripts."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"].get("exception", {}).get("description", "script failed"))
        return result["result"].get("value")

    def picture(self, path, width, height):
        """A PNG of the upper part of the page."""
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True,
                         clip={"x": 0, "y": 0, "width": width, "height": height, "scale": 1})["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

    def close(self):
        try:
            self.session = None
            self.call("Browser.close")
        except (RuntimeError, OSError):
            pass
        self.commands.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.answers.close()
        self.profile.cleanup()
