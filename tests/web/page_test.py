#!/usr/bin/env python3
"""The page in a browser: headless Chromium, a software renderer, real keys, clicks and taps.

usage: page_test.py SITE NATIVE [TestClass.test_name ...]
  SITE: the static folder; NATIVE: the command-line program, whose numbers the page must give byte by byte.
'./dev test web' builds both. Pictures are left in $FLASHSCOPE_PICTURES when that names a folder.
"""
import functools
import gzip
import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from browser import Browser, Driver, missing

SITE, NATIVE = sys.argv[1:3]
PICTURES = os.environ.get("FLASHSCOPE_PICTURES")

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


class Server(http.server.SimpleHTTPRequestHandler):
    """Files as they are; under /fault/KIND/FILE/ the page with one file that does not arrive as it should."""
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        if self.path.startswith("/fault/"):
            kind, victim, name = self.path.split("/", 4)[2:]
            self.path = "/any/where/page/" + name
            if name.split("?")[0] == victim:
                return self.fault(kind, self.translate_path(self.path))
        super().do_GET()

    def fault(self, kind, path):
        if kind == "404":
            return self.send_error(404)
        with open(path, "rb") as file:
            content = file.read()
        self.send_response(200)
        self.send_header("Content-Type", self.guess_type(path))
        half = content[:len(content) // 2]
        sent = half if kind in ("cut", "short") else b"not what it should be\n" * (len(content) // 22) + b" " * (len(content) % 22)
        self.send_header("Content-Length", str(len(half if kind == "short" else content)))
        self.end_headers()
        self.wfile.write(sent)
        self.close_connection = True


def serve(folder):
    """A file server for `folder` on a free port; returns its address."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Server, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"


def setUpModule():
    global driver, shared, root, origin, page
    driver = Driver()
    shared = Browser(driver)
    root = tempfile.mkdtemp(prefix="flashscope-web-")
    os.makedirs(root + "/any/where")
    os.symlink(os.path.abspath(SITE), root + "/any/where/page")  # any path does
    origin = serve(root)
    page = origin + "/any/where/page/"


def tearDownModule():
    shared.close()
    driver.close()
    shutil.rmtree(root)


class PageTest(unittest.TestCase):
    """One browser serves all tests that need no profile of their own; what the site kept is forgotten before each."""

    def setUp(self):
        self.began = time.time()

    def tearDown(self):
        print(f"[{time.time() - self.began:.1f} s] ", end="", flush=True)

    def browser(self, address="", fresh=False, webgl=True, **look):
        browser = shared
        if fresh:
            browser = Browser(driver, webgl=webgl, **look)
            self.addCleanup(browser.close)
        else:
            browser.look(**look)
            browser.forget(origin)
        browser.open(address if address.startswith("http") else page + address)
        return browser

    def running(self, address="?seqlen=512&heads=2", **how):
        browser = self.browser(address, **how)
        browser.wait_running()
        browser.settle()
        return browser

    def address(self, browser):
        browser.settle()
        return browser.js("return location.hash")

    def field(self, browser, name):
        found = re.search("[#,]" + name + "=([^,]*)", self.address(browser))
        return found.group(1) if found else ""

    def snapshot(self, browser):
        browser.settle()
        browser.key("F4")
        return browser.downloaded(".json").decode()

    def picture(self, browser, name=""):
        """The page as it is shown, with no pointer over it and no notice left."""
        browser.key("Escape")
        browser.js("Page.moveTo(-1e6, -1e6); Page.event()")
        browser.settle()
        return browser.screenshot(os.path.join(PICTURES, name + ".png") if PICTURES and name else None)

    def lives(self, browser):
        """It draws what is asked for."""
        browser.key("F1")
        self.assertEqual(self.field(browser, "help"), "1")
        browser.key("Escape")
        self.assertEqual(self.field(browser, "help"), "")


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
    FIRST_FRAME_S, FRAMES_PER_S, STARTS = 2, 10, 3

    def test_first_frame_and_frames_while_playing(self):
        """The best of up to three starts: what else the machine does can only make one slower."""
        best_first, best_rate = float("inf"), 0
        for start in range(self.STARTS):
            first, rate = self.start_and_play(start == 0)
            best_first, best_rate = min(best_first, first), max(best_rate, rate)
            if best_first <= self.FIRST_FRAME_S and best_rate >= self.FRAMES_PER_S:
                break
        self.assertLessEqual(best_first, self.FIRST_FRAME_S)
        self.assertGreaterEqual(best_rate, self.FRAMES_PER_S)

    def start_and_play(self, picture):
        browser = Browser(driver)  # nothing kept, nothing compiled before
        try:
            # The first frame is there when the renderer has drawn it, not when it was told to.
            browser.before_pages("new MutationObserver((_, observer) => {"
                                 "  if (!document.body || !document.body.classList.contains('running')) return;"
                                 "  observer.disconnect();"
                                 "  const gl = document.getElementById('canvas').getContext('webgl2');"
                                 "  gl.readPixels(0, 0, 1, 1, gl.RGBA, gl.UNSIGNED_BYTE, new Uint8Array(4));"
                                 "  window.drawnAt = performance.now();"
                                 "}).observe(document, {attributes: true, childList: true, subtree: true});")
            browser.open(page)
            browser.wait("the first frame", "window.drawnAt")
            first = browser.js("return window.drawnAt") / 1000
            browser.settle()
            whole = browser.js("return performance.now()") / 1000
            if picture:
                self.picture(browser, "start")
            browser.key("Space")
            before, began = browser.js("return [Page.frames, performance.now()]")
            time.sleep(2)
            after, ended = browser.js("return [Page.frames, performance.now()]")
            self.assertFalse(browser.js("return Page.isQuiet()"))  # still under way
        finally:
            browser.close()
        rate = 1000 * (after - before) / (ended - began)
        print(f"first frame after {first:.2f} s, all numbers after {whole:.2f} s, {rate:.0f} frames a second while playing")
        return first, rate


class Numbers(PageTest):
    def test_count_and_engine_are_those_of_the_native_program(self):
        browser = self.running()
        natives = [subprocess.Popen([NATIVE, "simulate", "--json", *("--" + option for option in problem.split())],
                                    stdout=subprocess.PIPE, text=True) for problem in PROBLEMS]
        for problem, native in zip(PROBLEMS, natives):
            with self.subTest(problem=problem):
                output = native.communicate()[0]
                self.assertEqual(native.returncode, 0)
                expected = output.strip()
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
        self.type_into_first_field(browser, "12 %")  # a per cent sign is what links escape with
        browser.key("Enter")
        self.assertIn("answers=", self.address(browser))
        browser.key(*["PageDown"] * 12)
        last = int(self.field(browser, "step"))
        self.assertGreaterEqual(last, 5)
        other = self.browser("?lesson=1", fresh=True)
        other.wait_running()
        snapshot = self.link_is_equal(browser, other, "lesson-end")
        self.assertEqual(json.loads(snapshot)["view"], "learn")
        # The step with the answer, too: what was typed and how it was graded is in the link. The bar of the steps seen is
        # each reader's own, so the pictures differ there.
        browser.key(*["PageUp"] * (last - 1))
        self.assertEqual(self.field(browser, "step"), "1")
        self.link_is_equal(browser, other, "lesson-answered", pictures=False)
        self.assertIn("answers=", self.address(other))
        # Progress is kept: a page without a link opens the lesson where it was left.
        browser.open(page + "?lesson=3&projector")
        browser.wait_running()
        self.assertEqual(self.field(browser, "step"), "1")

    def type_into_first_field(self, browser, text):
        """Clicks down a column of the page until text is taken: there is no other way to see a canvas's fields."""
        for y in range(200, browser.height - 60, 14):
            browser.click(480, y)
            browser.settle()
            if browser.js("return Page.typing"):
                browser.key(*text)
                browser.settle()
                return
        self.fail("no text field")

    def link_is_equal(self, browser, other, name, pictures=True):
        """The link that Ctrl+C copies, opened elsewhere, gives the same JSON and the same picture."""
        snapshot = self.snapshot(browser)
        browser.key("c", hold=["Control"])
        link = browser.js_promise("return await navigator.clipboard.readText()")
        self.assertTrue(link.startswith(page + "#fs1,"), link)
        picture = self.picture(browser, name)
        other.open("about:blank")  # an address that differs after # alone would not load the page anew
        other.open(link)
        other.wait_running()
        same = self.picture(other, name + "-from-link")
        self.assertEqual(self.snapshot(other), snapshot)
        if pictures:
            self.assertEqual(same, picture, "the pictures differ")
        return snapshot


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

    def test_G04_taps_hit_on_a_telephone_and_two_fingers_break_nothing(self):
        browser = self.running("?lesson=3&step=2&seqlen=512&heads=2", width=390, height=844, ratio=3, touch=True)
        self.assertEqual(browser.js("return [canvas.width, canvas.height]"), [1170, 2532])
        self.picture(browser, "telephone-lesson")
        browser.tap(273, 820)  # Back
        self.assertEqual(self.field(browser, "step"), "")
        browser.tap(346, 820)  # Next
        self.assertEqual(self.field(browser, "step"), "1")
        browser.tap(124, 13)  # Explore
        self.assertEqual(self.field(browser, "view"), "")
        browser.settle()
        self.picture(browser, "telephone-explore")
        def problem():  # two fingers zoom the stage, as a wheel does
            return re.sub("level=[0-9],", "", self.address(browser))
        before = problem()

        finger = self.finger
        browser.act(finger("one", (150, 250), (60, 150), (20, 60)), finger("two", (200, 300), (300, 400), (380, 500)))  # apart
        browser.act(finger("one", (20, 60), (150, 250)), finger("two", (380, 500), (200, 300)))                       # together
        browser.act(finger("one", (150, 400), (150, 200)), finger("two", (230, 400), (230, 200)))                     # both upwards
        browser.act(finger("one", (100, 200), (300, 350), (380, 840)))                                                # one, out of the page
        self.assertEqual(browser.js("return [window.scrollX, window.scrollY, visualViewport.scale]"), [0, 0, 1])
        self.assertEqual(problem(), before)
        browser.tap(375, 13)
        self.assertEqual(self.field(browser, "help"), "1")

    def test_G04_two_fingers_put_down_at_once_click_nothing(self):
        browser = self.running("?view=learn", fresh=True, width=390, height=844, ratio=3, touch=True)
        browser.act(self.finger("one", (150, 185), (150, 187)), self.finger("two", (230, 220), (230, 222)))
        browser.settle()
        self.assertEqual(self.field(browser, "lesson"), "")
        self.picture(browser, "telephone-list")
        browser.tap(150, 185)  # one does
        browser.settle()
        self.assertEqual(self.field(browser, "lesson"), "three-passes")

    @staticmethod
    def finger(name, *places):
        """Down at the first place, over the others, up."""
        moves = [{"type": "pointerMove", "duration": 60 if n else 0, "x": x, "y": y} for n, (x, y) in enumerate(places)]
        steps = [moves[0], {"type": "pointerDown", "button": 0}, *moves[1:], {"type": "pointerUp", "button": 0}]
        return {"type": "pointer", "id": name, "parameters": {"pointerType": "touch"}, "actions": steps}

    def test_G04_memory_grows_and_the_page_goes_on(self):
        browser = self.running()
        before = browser.js("return HEAP8.length")
        browser.js("Page.dropFiles([new File([new Uint8Array(200e6).fill(120)], 'large.json')])")
        browser.wait("memory to grow", f"HEAP8.length > {before}")
        browser.settle()
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
            browser.js("lose.restoreContext()")
            browser.wait("the context", "!Page.isLost")
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
        browser.wait("the lesson", "frames[0].location.hash.includes('lesson=') && frames[0].Page.isQuiet()")
        if PICTURES:
            browser.screenshot(PICTURES + "/frame.png")
        browser.js("document.body.style.height = '3000px'; scrollTo(0, 20)")
        browser.click(300, 300)
        self.assertIn("step=1", browser.js("return frames[0].location.hash"))
        self.assertEqual(browser.js("return scrollY"), 20)  # what is around the frame does not move for it

    def test_what_is_missing_is_said(self):
        browser = self.browser(fresh=True, webgl=False)
        browser.wait("the message", "document.getElementById('what').textContent.includes('WebGL 2')")
        if PICTURES:
            browser.screenshot(PICTURES + "/no-webgl.png")
        browser.before_pages("delete window.WebAssembly")
        browser.open(page)
        browser.wait("the message", "document.getElementById('what').textContent.includes('WebAssembly')")


class LongRun(PageTest):
    """Work of many seconds, in a page with one thread."""
    RIGHT = 1100  # a column through the panel of numbers, where its buttons begin

    def watch(self, browser):
        browser.js("window.gaps = []; let last = performance.now();"
                   "(function tick() { const now = performance.now(); gaps.push(now - last); last = now; requestAnimationFrame(tick); })();")

    def longest_gap(self, browser, name):
        longest = browser.js("return Math.max(...gaps.slice(2))")
        print(f"{name}: longest pause of the page {longest:.0f} ms")
        return longest

    def press(self, browser, x, done):
        """Clicks down a column until JavaScript says that it had an effect; returns where."""
        for y in range(browser.height - 170, 300, -9):
            browser.click(x, y)
            browser.frame()
            browser.frame()
            if browser.js("return " + done):
                return y
        self.fail("no such button")

    def cancelled(self, browser, name):
        """Presses Cancel: work ends at once, is called cancelled, and the page goes on."""
        before = browser.js("return [Page.frames, performance.now()]")
        self.press(browser, 1250, "!Page.busy")
        browser.settle(5)
        print(f"{name}: {browser.js('return performance.now()') - before[1]:.0f} ms from the first click to quiet")
        self.picture(browser, name)
        self.assertIn("cancelled", self.snapshot(browser))
        self.lives(browser)

    def test_a_long_simulation_is_cancelled(self):
        browser = self.browser("?seqlen=65536&heads=32&left=flash_v1&right=flash_v2&br=64&bc=64")
        browser.wait_running()
        browser.wait("work", "Page.busy")
        self.watch(browser)
        browser.click(browser.width - 18, 16)  # the page answers
        browser.wait("help", "location.hash.includes('help=1')", 10)
        browser.key("Escape")
        browser.wait("work to show its progress", "Page.busy && gaps.length > 20")
        if PICTURES:
            browser.screenshot(PICTURES + "/simulating.png")
        longest = self.longest_gap(browser, "simulating")
        self.cancelled(browser, "simulation-cancelled")
        self.assertLess(longest, 500)

    def test_a_long_count_asks_first_and_is_cancelled(self):
        # 16.8 million tiles, all of them in one CTA of flash_v1.
        browser = self.running("?seqlen=65536&heads=1&left=flash_v1&right=flash_v2&br=16&bc=16")
        self.assertIn("a long run", self.snapshot(browser))
        self.watch(browser)
        self.press(browser, self.RIGHT, "Page.busy")
        browser.wait("work", "Page.busy && gaps.length > 20")
        longest = self.longest_gap(browser, "counting")
        self.cancelled(browser, "count-cancelled")
        self.assertLess(longest, 500)


class Trouble(PageTest):
    """What users, servers and browsers do wrong."""

    def test_an_address_that_makes_no_sense_opens_the_page_all_the_same(self):
        browser = self.running("?lesson=nothing-of-the-kind&seqlen=512&heads=2&br=-5&nonsense=1#fs1,nonsense")
        self.lives(browser)
        token = self.address(browser)
        for wrong in ("#" + "x" * 100_000, "#fs1," + "seqlen_q=1," * 20_000, token[:len(token) // 2], token[:-3], "#fs9" + token[4:],
                      "#%E0%A4%A", "#fs1,seqlen_q=999999999999999999999", "#fs1,view=", "#,,,", "#fs1,t=nan"):
            with self.subTest(address=wrong[:60]):
                browser.js("location.hash = arguments[0]", wrong)
                browser.settle()
        self.lives(browser)
        browser.js("location.hash = arguments[0]", re.sub("view=[a-z]*", "view=explore", token))
        browser.settle()
        self.assertIn(self.field(browser, "view"), ("", "explore"))
        # Some escape all of a link that they carry.
        browser = self.running("#" + token[1:].replace(",", "%2C").replace("=", "%3D"))
        self.assertEqual(self.address(browser), token)

    def test_a_link_that_is_cut_or_not_ours_says_so_and_opens_the_page(self):
        whole = self.address(self.running("?seqlen=512&heads=2&right=flash_v3"))
        for name, token in (("cut", whole[:whole.index("=")]), ("garbled", whole.replace("=", "&", 1)),
                            ("of a later version", "#fs7" + whole[4:]), ("long", "#" + "x" * 100_000),
                            ("long and almost right", "#fs1" + ",batch=1x" * 11_000)):
            with self.subTest(link=name):
                browser = self.browser("?seqlen=512&heads=2#" + token[1:])
                browser.wait_running()
                browser.settle()
                said = " ".join(browser.console())
                self.assertRegex(said, "In the address: state: ('|batch=1x is not a whole number)")
                self.assertIsNone(browser.js("return document.getElementById('next').textContent || null"))
                if PICTURES and name in ("cut", "of a later version"):
                    browser.screenshot(PICTURES + f"/link-{name.replace(' ', '-')}.png")
        self.lives(browser)

    def test_storage_refused_or_full_is_said_once_and_nothing_else_changes(self):
        for name, code in (("refused", "Object.defineProperty(window, 'localStorage',"
                            "{get() { throw new DOMException('refused', 'SecurityError'); }});"),
                           ("full", "Storage.prototype.setItem = () => { throw new DOMException('full', 'QuotaExceededError'); };")):
            with self.subTest(storage=name):
                undo = shared.before_pages(code)
                try:
                    browser = self.running()
                finally:
                    undo()
                browser.key("t")
                browser.settle()
                if PICTURES:
                    browser.screenshot(PICTURES + f"/storage-{name}.png")
                self.assertTrue(browser.js("return Page.keepsNothing"))
                self.assertEqual(self.field(browser, "theme"), "dark")
                self.lives(browser)

    def test_a_file_of_the_folder_that_does_not_arrive_is_named(self):
        for kind in ("404", "cut", "short", "garbage"):
            for victim in ("flashscope.js", "flashscope.wasm", "flashscope.data"):
                with self.subTest(kind=kind, file=victim):
                    browser = self.browser(f"{origin}/fault/{kind}/{victim}/index.html")
                    browser.wait("the message", "document.getElementById('what').textContent !== 'Loading …'")
                    said = browser.js("return document.getElementById('message').innerText")
                    self.assertIn("FlashScope", said)
                    self.assertIn("All files of the folder belong together", said)
                    if victim != "flashscope.js":
                        self.assertIn(victim, said)
                    if PICTURES:
                        browser.screenshot(PICTURES + f"/{kind}-{victim}.png")

    def test_dropped_files_that_are_nothing_of_ours(self):
        browser = self.running()
        before = self.address(browser)
        for name, content in (("empty.md", "''"), ("empty.json", "''"), ("plain.md", "'no lesson'"), ("list.json", "'[1, 2'"),
                              ("recording.json", "'{\"gpu\": \"x\", \"rows\": []}'"), ("noise.md", "new Uint8Array(5000).fill(255)"),
                              ("noise.json", "new Uint8Array(5000)"), ("photo.png", "new Uint8Array([137, 80, 78, 71])"),
                              ("..", "'x'"), ("a/b\\c.md", "'x'"), ("x".ljust(300, "y") + ".json", "'{}'"),
                              ("deep.json", "'['.repeat(100000)")):
            with self.subTest(file=name[:20]):
                browser.js(f"Page.dropFiles([new File([{content}], arguments[0])])", name)
                browser.settle()
        browser.js("const folder = new File([], 'folder'); folder.arrayBuffer = () => Promise.reject(new Error('a folder'));"
                   "Page.dropFiles([folder])")
        browser.settle()
        if PICTURES:
            browser.screenshot(PICTURES + "/dropped.png")
        self.lives(browser)
        self.assertEqual(self.address(browser), before)

    def test_tiny_and_odd_sizes(self):
        browser = self.running()
        before = self.picture(browser)
        for width, height, ratio in ((1, 1, 1), (60, 40, 1), (320, 200, 1), (3000, 150, 1), (150, 1600, 1), (390, 844, 3)):
            with self.subTest(size=(width, height, ratio)):
                browser.look(width, height, ratio)
                browser.wait("the canvas to follow", f"canvas.width === {width * ratio} && canvas.height === {height * ratio}")
                browser.settle()
        browser.look()
        browser.wait("the canvas to follow", "canvas.width === 1280 && canvas.height === 720")
        self.assertEqual(self.picture(browser), before)

    def test_double_clicks_everywhere(self):
        browser = self.running()
        for y in range(20, browser.height, 100):
            for x in range(220, browser.width, 140):  # left of it are sliders: they may ask for hours of work
                browser.click(x, y, times=2)
        browser.settle()
        browser.key("Escape")
        self.assertIsNone(browser.js("return document.getElementById('next').textContent || null"))
        self.lives(browser)

    def test_two_tabs_keep_the_progress_of_both(self):
        """The first tab saves last: what the second reached meanwhile stays."""
        browser = self.running("?lesson=2&step=2")
        first = browser.call("GET", "/window")
        second = browser.call("POST", "/window/new", {"type": "tab"})["handle"]
        browser.call("POST", "/window", {"handle": second})
        browser.look()
        browser.open(page + "?lesson=4&step=3")
        browser.wait_running()
        browser.settle()
        self.turn_page(browser)
        browser.call("DELETE", "/window")
        browser.call("POST", "/window", {"handle": first})
        self.turn_page(browser)
        furthest = {name: lesson["furthest"] for name, lesson in self.kept_lessons(browser).items()}
        self.assertEqual(furthest, {"three-passes": 2, "tiles": 3})

    def turn_page(self, browser):
        browser.key("PageDown")
        browser.settle()

    def kept_lessons(self, browser):
        kept = browser.js("return Object.entries(localStorage).find(([key]) => key.endsWith('progress.json'))[1]")
        return json.loads(kept)["lessons"]


if __name__ == "__main__":
    absent = missing() + [path for path in (SITE + "/index.html", NATIVE) if not os.path.exists(path)]
    if absent:
        sys.exit("page_test.py: missing: " + ", ".join(absent) +
                 "; './dev test web' installs and builds what it needs (packages.txt, [web])")
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
