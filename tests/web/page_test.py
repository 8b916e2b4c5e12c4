#!/usr/bin/env python3
"""The page in a browser: headless Chromium, a software renderer, real keys, clicks and taps.

usage: page_test.py SITE NATIVE [TestClass.test_name ...]
  SITE: the static folder; NATIVE: the command-line program, whose numbers the page must give byte by byte.
Pictures are left in $FLASHSCOPE_PICTURES when that names a folder.
"""
import functools
import gzip
import http.server
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from browser import Browser, Driver

SITE, NATIVE = sys.argv[1:3]

# One problem for each algorithm, mask, dtype and pass that counts or times in its own way, small enough for a page.
PROBLEMS = [
    "algorithm=flash_v2 dtype=fp16 batch=1 heads=1 seqlen=1024 head-dim=64 br=64 bc=64",
    "algorithm=flash_v2 heads=16 seqlen=2048",
    "algorithm=flash_v2_tensor heads=8 seqlen=1000 causal",
    "algorithm=flash_v3 heads=8 seqlen=2048 head-dim=128",
    "algorithm=flash_v1 dtype=fp32 heads=2 seqlen=333 br=31 bc=33",
    "algorithm=three_pass heads=4 seqlen=777 dtype=fp32",
    "algorithm=three_pass_naive heads=2 seqlen=257 dtype=fp32",
    "algorithm=three_pass_tensor heads=4 seqlen=1024 gpu=nvidia-a100-80gb-sxm",
    "algorithm=split_kv heads=16 kv-heads=2 seqlen-q=1 seqlen-k=8192",
    "algorithm=flash_v2_tensor heads=8 kv-heads=2 seqlen=1500 window=200,0 start=warm",
    "algorithm=flash_v2 heads=4 seqlen=512 block-mask=local:0.5:1",
    "algorithm=flash_v2 heads=4 seqlen=1024 pass=backward",
]


def serve(folder):
    """A file server for `folder` on a free port; returns its address."""
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"


def setUpModule():
    global driver, root, page
    driver = Driver()
    root = tempfile.mkdtemp(prefix="flashscope-web-")
    os.makedirs(root + "/any/where")
    os.symlink(os.path.abspath(SITE), root + "/any/where/page")  # any path does
    page = serve(root) + "/any/where/page/"


def tearDownModule():
    driver.close()


class PageTest(unittest.TestCase):
    def browser(self, address="", **how):
        browser = Browser(driver, **how)
        self.addCleanup(browser.close)
        browser.open(address if address.startswith("http") else page + address)
        return browser

    def running(self, address="?seqlen=512&heads=2", **how):
        browser = self.browser(address, **how)
        browser.wait_running()
        self.settle(browser)
        return browser

    def settle(self, browser, seconds=120):
        """Until nothing is computed and nothing moves."""
        end, quiet_since, frames = time.time() + seconds, time.time(), -1
        while time.time() < end:
            now, busy = browser.js("return [Page.frames, Page.busy]")
            if now != frames or busy:
                frames, quiet_since = now, time.time()
            if time.time() - quiet_since > 0.6:
                return
            time.sleep(0.05)
        self.fail(f"still computing after {seconds} s; console: {browser.console()}")

    def state(self, browser):
        self.settle(browser)
        return browser.js("return location.hash")

    def field(self, browser, name):
        found = re.search("[#,]" + name + "=([^,]*)", self.state(browser))
        return found.group(1) if found else ""

    def snapshot(self, browser):
        self.settle(browser)
        browser.key("F4")
        return browser.downloaded(".json").decode()

    def picture(self, browser, name=""):
        """The page as it is shown, with no pointer over it and no notice left."""
        browser.js("Page.moveTo(-1e6, -1e6); Page.event()")
        time.sleep(0.2)
        self.settle(browser)
        folder = os.environ.get("FLASHSCOPE_PICTURES")
        return browser.screenshot(os.path.join(folder, name + ".png") if folder and name else None)


class Size(unittest.TestCase):
    def test_program_and_folder_are_small(self):
        size, packed = 0, 0
        for name in os.listdir(SITE):
            with open(os.path.join(SITE, name), "rb") as file:
                content = file.read()
            size += len(content)
            if name.endswith((".js", ".wasm")):
                packed += len(gzip.compress(content))
        print(f"wasm + js {packed:,} bytes gzipped, folder {size:,} bytes")
        self.assertLessEqual(packed, 2_000_000)
        self.assertLessEqual(size, 6_000_000)


class Speed(PageTest):
    def test_first_frame_and_frames_while_playing(self):
        browser = self.browser()
        browser.wait_running()
        first = browser.js("return performance.getEntriesByName('first frame')[0].startTime") / 1000
        self.settle(browser)
        self.picture(browser, "start")
        browser.key("Space")
        time.sleep(0.5)
        before, began = browser.js("return [Page.frames, performance.now()]")
        time.sleep(3)
        after, ended = browser.js("return [Page.frames, performance.now()]")
        rate = 1000 * (after - before) / (ended - began)
        print(f"first frame after {first:.2f} s, {rate:.0f} frames a second while playing")
        self.assertEqual(self.playing(browser), True)
        self.assertLessEqual(first, 2)
        self.assertGreaterEqual(rate, 10)

    def playing(self, browser):
        """Still under way: frames are drawn without any event."""
        before = browser.js("return Page.frames")
        time.sleep(0.3)
        return browser.js("return Page.frames") > before


class Numbers(PageTest):
    def test_count_and_engine_are_those_of_the_native_program(self):
        browser = self.running()
        for problem in PROBLEMS:
            with self.subTest(problem=problem):
                options = ["--" + option for option in problem.split()]
                native = subprocess.run([NATIVE, "simulate", "--json", *options], capture_output=True, text=True, check=True)
                expected = re.sub(r',"training_step":\{[^{}]*\}', "", native.stdout.strip())
                got = browser.js(
                    "const text = Page.text(arguments[0]), json = Module._flashscope_simulate(text);"
                    "const result = UTF8ToString(json); _free(text); _free(json); return result;",
                    problem.replace(" ", "\n"))
                self.assertEqual(got.strip(), expected)


class Lesson(PageTest):
    def test_lesson_from_its_address_to_a_link_in_a_fresh_profile(self):
        browser = self.running("?lesson=3")
        self.assertEqual(self.field(browser, "view"), "learn")
        # To the question that takes a number, and to the end, with keys.
        browser.key("PageDown")
        self.assertEqual(self.field(browser, "step"), "1")
        self.picture(browser, "lesson")
        self.type_into_first_field(browser, "12")
        browser.key("Enter")
        self.assertIn("answers=", self.state(browser))
        for _ in range(12):
            browser.key("PageDown")
        last = int(self.field(browser, "step"))
        self.assertGreaterEqual(last, 5)
        browser.key(*["PageUp"] * (last - 1))
        self.assertEqual(self.field(browser, "step"), "1")
        for _ in range(last - 1):
            browser.key("PageDown")
        self.assertEqual(self.field(browser, "step"), str(last))
        snapshot, picture = self.link_is_equal(browser, "lesson-end")
        self.assertEqual(json.loads(snapshot)["view"], "learn")
        # The step with the answer, too: what was typed and how it was graded is in the link. The bar of the steps seen is
        # each reader's own, so the pictures differ there.
        browser.key(*["PageUp"] * (last - 1))
        self.link_is_equal(browser, "lesson-answered", pictures=False)
        # Progress is kept: a page without a link opens the lesson where it was left.
        browser.open(page + "?lesson=3&projector")
        browser.wait_running()
        self.assertEqual(self.field(browser, "step"), "1")

    def type_into_first_field(self, browser, text):
        """Clicks down a column of the page until text is taken: there is no other way to see a canvas's fields."""
        for y in range(200, browser.height - 60, 12):
            browser.click(480, y)
            time.sleep(0.15)
            if browser.js("return Page.typing"):
                browser.key(*text)
                self.settle(browser)
                return
        self.fail("no text field")

    def link_is_equal(self, browser, name, pictures=True):
        """The link that Ctrl+C copies, opened elsewhere, gives the same JSON and the same picture."""
        snapshot = self.snapshot(browser)
        browser.key("c", hold=["Control"])
        time.sleep(0.3)
        link = browser.js_promise("return await navigator.clipboard.readText()")
        self.assertTrue(link.startswith(page + "#fs1,"), link)
        time.sleep(10.5)  # notices go after ten seconds
        picture = self.picture(browser, name)
        other = self.running(link)
        same = self.picture(other, name + "-from-link")
        self.assertEqual(self.snapshot(other), snapshot)
        if pictures:
            self.assertEqual(same, picture, "the pictures differ")
        return snapshot, picture


class Pointer(PageTest):
    """G04: scaling, and the browser's canvas."""

    def help_button(self, browser):
        return browser.width - 18, 16

    def test_G04_clicks_and_taps_hit_at_pixel_ratios_1_and_2(self):
        for ratio in (1, 2):
            for size in ((1280, 720), (1283, 717)):
                with self.subTest(ratio=ratio, size=size):
                    browser = self.running(width=size[0], height=size[1], ratio=ratio)
                    self.assertEqual(browser.js("return [canvas.width, canvas.height]"), [size[0] * ratio, size[1] * ratio])
                    browser.click(*self.help_button(browser))
                    self.assertEqual(self.field(browser, "help"), "1")
                    browser.key("Escape")
                    self.assertEqual(self.field(browser, "help"), "")
                    self.picture(browser, f"ratio-{ratio}-{size[0]}")
                    browser.tap(*self.help_button(browser))
                    self.assertEqual(self.field(browser, "help"), "1")

    def test_G04_a_tap_leaves_no_tooltip(self):
        browser = self.running(touch=True)
        browser.tap(*self.help_button(browser))
        self.assertEqual(self.field(browser, "help"), "1")
        browser.key("Escape")
        self.assertEqual(self.field(browser, "help"), "")
        tapped = browser.screenshot()
        self.assertEqual(tapped, self.picture(browser, "tapped"))

    def test_G04_memory_grows_and_the_page_goes_on(self):
        browser = self.running()
        before = browser.js("return HEAP8.length")
        browser.js("Page.dropFiles([new File([new Uint8Array(200e6).fill(32)], 'large.json')])")
        browser.wait("memory to grow", f"HEAP8.length > {before}")
        self.settle(browser)
        browser.click(*self.help_button(browser))
        self.assertEqual(self.field(browser, "help"), "1")

    def test_resize(self):
        browser = self.running()
        browser.cdp("Emulation.setDeviceMetricsOverride",
                    {"width": 1000, "height": 800, "deviceScaleFactor": 1.5, "mobile": False})
        browser.wait("the canvas to follow", "canvas.width === 1500 && canvas.height === 1200")
        self.picture(browser, "resized")
        browser.click(1000 - 14, 12)
        self.assertEqual(self.field(browser, "help"), "1")


class Context(PageTest):
    def test_G04_lost_and_restored(self):
        browser = self.running("?lesson=3&step=2")
        before = self.picture(browser)
        for _ in range(2):
            browser.js("window.lose = canvas.getContext('webgl2').getExtension('WEBGL_lose_context'); lose.loseContext()")
            browser.wait("the loss", "Page.isLost")
            browser.key("F2")  # nothing to save, and nothing breaks
            time.sleep(0.3)
            browser.js("lose.restoreContext()")
            browser.wait("the context", "!Page.isLost")
            time.sleep(10.5)
            self.assertEqual(self.picture(browser, "restored"), before)


class Files(PageTest):
    def test_exports_are_downloads(self):
        browser = self.running()
        browser.key("F2")
        png = browser.downloaded(".png")
        self.assertEqual(png[:8], b"\x89PNG\r\n\x1a\n")
        self.assertEqual((int.from_bytes(png[16:20], "big"), int.from_bytes(png[20:24], "big")), (1280, 720))
        browser.key("F3")
        self.assertIn(b"quantity", browser.downloaded(".csv"))
        browser.key("F4")
        self.assertEqual(json.loads(browser.downloaded(".json"))["view"], "explore")
        browser.key("F6")
        trace = json.loads(browser.downloaded(".json"))
        self.assertGreater(len(trace["traceEvents"]), 100)

    def test_own_machine_and_own_lesson(self):
        browser = self.running()
        with open(os.path.join(os.path.dirname(__file__), "../../sim/machine/nvidia-t4.json")) as file:
            machine = json.load(file)
        machine["name"] = "my-card"
        browser.js("Page.dropFiles([new File([arguments[0]], 'my-card.json')])", json.dumps(machine))
        self.assertEqual(self.field(browser, "gpu"), "my-card")
        lesson = ("+++\nid = \"mine\"\nnumber = 99\ntitle = \"A lesson of my own\"\nsummary = \"One step.\"\n"
                  "+++\n\n## Only this\n\nText of my own.\n")
        browser.js("Page.dropFiles([new File([arguments[0]], 'mine.md')])", lesson)
        self.assertEqual(self.field(browser, "lesson"), "mine")
        self.picture(browser, "own-lesson")


class Embedded(PageTest):
    def test_in_a_frame_of_a_course_page(self):
        with open(root + "/course.html", "w") as file:
            file.write("<!doctype html><title>course</title><h1>Week 3</h1>"
                       "<iframe src='any/where/page/?lesson=3&step=2' width=1000 height=560></iframe>")
        browser = self.browser(page.replace("/any/where/page/", "/course.html"))
        browser.wait("the frame", "frames[0].document.body && frames[0].document.body.classList.contains('running')")
        browser.wait("the lesson", "frames[0].location.hash.includes('lesson=')")
        time.sleep(3)
        folder = os.environ.get("FLASHSCOPE_PICTURES")
        if folder:
            browser.screenshot(folder + "/frame.png")
        browser.click(300, 300)
        self.assertIn("step=1", browser.js("return frames[0].location.hash"))

    def test_what_is_missing_is_said(self):
        browser = self.browser(webgl=False)
        browser.wait("the message", "document.getElementById('what').textContent.includes('WebGL 2')")
        folder = os.environ.get("FLASHSCOPE_PICTURES")
        if folder:
            browser.screenshot(folder + "/no-webgl.png")
        browser.cdp("Page.addScriptToEvaluateOnNewDocument", {"source": "delete window.WebAssembly"})
        browser.open(page)
        browser.wait("the message", "document.getElementById('what').textContent.includes('WebAssembly')")

    def test_an_address_that_makes_no_sense_opens_the_page_all_the_same(self):
        for address in ("?lesson=nothing-of-the-kind", "?seqlen=-5&nonsense=1", "#fs1,nonsense", "#%E0%A4%A"):
            with self.subTest(address=address):
                self.running(address)


class LongRun(PageTest):
    def test_page_lives_while_a_long_problem_is_simulated(self):
        # 16384 tokens by small tiles: many seconds of work.
        browser = self.browser("?seqlen=16384&heads=32&left=flash_v1&right=flash_v2&br=16&bc=16")
        browser.wait_running()
        browser.js("window.gaps = []; let last = performance.now();"
                   "(function tick() { const now = performance.now(); gaps.push(now - last); last = now; requestAnimationFrame(tick); })();")
        browser.wait("work", "Page.busy")
        time.sleep(2)
        browser.click(browser.width - 18, 16)  # the page answers
        browser.wait("help", "location.hash.includes('help=1')", 10)
        longest = browser.js("return Math.max(...gaps.slice(2))")
        print(f"longest pause of the page while it computes: {longest:.0f} ms")
        self.assertLess(longest, 500)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
