"""Headless Chromium with real input, driven through ChromeDriver (W3C WebDriver) by the standard library alone.

Nothing here waits for a time where it can wait for what it is waiting for: the page says when it is quiet (page.js)."""
import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

KEYS = {"PageDown": "\ue00f", "PageUp": "\ue00e", "Home": "\ue011", "End": "\ue010", "Right": "\ue014", "Left": "\ue012",
        "Enter": "\ue007", "Escape": "\ue00c", "Space": " ", "Control": "\ue009", "Shift": "\ue008", "Backspace": "\ue003",
        **{f"F{n}": chr(0xE030 + n) for n in range(1, 13)}}


def missing():
    """Programs that must be installed and are not."""
    return [name for name in ("chromium", "chromedriver") if not shutil.which(name)]


class Driver:
    """One ChromeDriver process; browsers are sessions of it."""

    def __init__(self):
        self.process = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                        text=True)
        for line in self.process.stdout:
            if "successfully on port" in line:
                self.address = "http://127.0.0.1:" + line.rstrip().rstrip(".").split()[-1]
                return
        raise RuntimeError("chromedriver did not start")

    def call(self, method, path, body=None):
        data = None if method == "GET" else json.dumps(body or {}).encode()
        request = urllib.request.Request(self.address + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=180) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"{path}: " + error.read().decode()[:400]) from None

    def close(self):
        self.process.terminate()
        self.process.wait()


class Browser:
    """A browser with a fresh profile. Positions are CSS pixels of the page."""

    def __init__(self, driver, width=1280, height=720, ratio=1, touch=False, webgl=True):
        self.driver, self.width, self.height = driver, width, height
        self.folder = tempfile.mkdtemp(prefix="flashscope-web-")
        flags = ["--headless", "--no-sandbox", "--disable-quic", "--no-first-run", "--disable-background-networking",
                 "--disable-component-update", "--disable-sync", "--hide-scrollbars", "--disable-dev-shm-usage",
                 "--user-data-dir=" + self.folder + "/profile", f"--window-size={width},{height}"]
        flags += ["--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"] if webgl else \
                 ["--disable-gpu", "--disable-software-rasterizer", "--disable-3d-apis"]
        options = {"binary": shutil.which("chromium"), "args": flags}
        capabilities = {"browserName": "chrome", "goog:chromeOptions": options,
                        "goog:loggingPrefs": {"browser": "ALL"}}
        session = driver.call("POST", "/session", {"capabilities": {"alwaysMatch": capabilities}})
        self.path = "/session/" + session["sessionId"]
        self.call("POST", "/timeouts", {"script": 120_000, "pageLoad": 120_000})
        self.look(width, height, ratio, touch)
        self.cdp("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": self.folder, "eventsEnabled": False})
        self.cdp("Browser.grantPermissions", {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]})

    def look(self, width=1280, height=720, ratio=1, touch=False):
        """What the page is shown on."""
        self.width, self.height = width, height
        self.cdp("Emulation.setDeviceMetricsOverride",
                 {"width": width, "height": height, "deviceScaleFactor": ratio, "mobile": False})
        self.cdp("Emulation.setTouchEmulationEnabled", {"enabled": touch})

    def forget(self, address):
        """Leaves the page, and with it what the browser kept for its site: as a fresh profile, but sooner."""
        self.open("about:blank")
        self.cdp("Storage.clearDataForOrigin", {"origin": address, "storageTypes": "local_storage"})
        for name in os.listdir(self.folder):
            if name != "profile":
                os.unlink(os.path.join(self.folder, name))

    def before_pages(self, code):
        """Runs in each page that is opened from now on, before its own scripts. Returns what undoes it."""
        script = self.cdp("Page.addScriptToEvaluateOnNewDocument", {"source": code})
        return lambda: self.cdp("Page.removeScriptToEvaluateOnNewDocument", script)

    def call(self, method, path, body=None):
        return self.driver.call(method, self.path + path, body)

    def cdp(self, command, parameters=None):
        return self.call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters or {}})

    def js(self, code, *arguments):
        return self.call("POST", "/execute/sync", {"script": code, "args": list(arguments)})

    def js_promise(self, code):
        return self.call("POST", "/execute/async",
                         {"script": "const done = arguments[0]; (async () => {" + code + "})().then(done, e => done('error: ' + e));",
                          "args": []})

    def open(self, address):
        self.call("POST", "/url", {"url": address})

    def wait(self, what, code, seconds=60):
        """Until the JavaScript expression is true; returns its value."""
        end = time.time() + seconds
        while time.time() < end:
            value = self.js("return " + code)
            if value:
                return value
            time.sleep(0.02)
        raise AssertionError(f"waited {seconds} s for {what}: {code}\nconsole: {self.console()}")

    def wait_running(self, seconds=60):
        self.wait("the first frame", "document.body.classList.contains('running')", seconds)

    def settle(self, seconds=120):
        """Until nothing is computed, nothing moves and the address is up to date."""
        quiet = self.js_promise(f"const end = performance.now() + {1000 * seconds};"
                                "while (!Page.isQuiet() && performance.now() < end) await new Promise((on) => setTimeout(on, 10));"
                                "return Page.isQuiet();")
        if quiet is not True:
            raise AssertionError(f"still computing after {seconds} s ({quiet}); console: {self.console()}")

    def frame(self):
        """Until the next frame is drawn, or there is none to come."""
        self.js_promise("const before = Page.frames;"
                        "while (Page.frames === before && !Page.isQuiet()) await new Promise((on) => setTimeout(on, 5));")

    def console(self):
        return [entry["message"] for entry in self.call("POST", "/se/log", {"type": "browser"})]

    def act(self, *sources):
        self.call("POST", "/actions", {"actions": list(sources)})

    def key(self, *names, hold=()):
        """Each key pressed and released, with those of `hold` down. The program keeps keys and letters in a queue, but what
        ends a field must be down while a frame is drawn: Dear ImGui 1.86 looks at the moment."""
        def do(actions):
            self.act({"type": "key", "id": "keys", "actions": [{"type": kind, "value": value} for kind, value in actions]})
        actions = [("keyDown", KEYS[h]) for h in hold]
        for name in names:
            value = KEYS.get(name, name)
            actions.append(("keyDown", value))
            if name in ("Enter", "Backspace"):
                do(actions)
                self.frame()
                actions = []
            actions.append(("keyUp", value))
        do(actions + [("keyUp", KEYS[h]) for h in hold])
        self.frame()

    def pointer(self, kind, steps):
        self.act({"type": "pointer", "id": kind, "parameters": {"pointerType": kind}, "actions": steps})

    def click(self, x, y, times=1):
        self.pointer("mouse", [{"type": "pointerMove", "duration": 0, "x": round(x), "y": round(y)}] +
                     [{"type": "pointerDown", "button": 0}, {"type": "pause", "duration": 20},
                      {"type": "pointerUp", "button": 0}] * times)

    def mouse_to(self, x, y):
        self.pointer("mouse", [{"type": "pointerMove", "duration": 0, "x": round(x), "y": round(y)}])

    def tap(self, x, y):
        self.pointer("touch", [{"type": "pointerMove", "duration": 0, "x": round(x), "y": round(y)},
                               {"type": "pointerDown", "button": 0}, {"type": "pause", "duration": 20},
                               {"type": "pointerUp", "button": 0}])

    def screenshot(self, path=None):
        png = base64.b64decode(self.call("GET", "/screenshot"))
        if path:
            with open(path, "wb") as file:
                file.write(png)
        return png

    def downloaded(self, extension, seconds=30):
        """The bytes of the one downloaded file that ends so, which is then removed."""
        end = time.time() + seconds
        while time.time() < end:
            for name in os.listdir(self.folder):
                if name.endswith(extension):
                    path = os.path.join(self.folder, name)
                    with open(path, "rb") as file:
                        content = file.read()
                    os.unlink(path)
                    return content
            time.sleep(0.02)
        raise AssertionError(f"no download *{extension}; console: {self.console()}")

    def close(self):
        try:
            self.call("DELETE", "")
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)
