// The page below the program: what page.h declares, and GLFW's input. Emscripten's own GLFW listens to the mouse alone,
// takes wheels for pixels and loses a button that is released outside; this one listens to pointers, so that fingers and
// pens come with the mouse, and every position is in pixels of the canvas whatever the ratio of the device.
mergeInto(LibraryManager.library, {
  $Page__deps: ['$GLFW', '$FS', '$Asyncify', 'malloc'],
  $Page: {
    frames: 0,         // drawn so far
    busy: false,       // workers have more to do; the page's test asks
    eventSeen: false,  // since the last wait ended
    news: false,       // has_news
    tookKey: false,    // the key under way became an action
    typing: false,
    wakeUp: null,      // of the wait that an event ends
    timer: 0,
    isLost: false, isRestored: false,
    shownState: null,  // what stands after # because of show_state, at once or soon
    shownAt: 0, showTimer: 0,
    keepsNothing: false,  // storage is refused or full, and that was said
    wantedState: undefined,  // a state to go to; undefined: what the address says was not asked for yet
    leaveIn: 0,        // frames until a lifted finger hovers no more
    scrollIn: 0,       // frames until two fingers scroll: those before have seen the first one's press taken back
    byFinger: false,   // the last press
    fingers: null,     // that touch: where each was last
    field: null, picker: null,  // of the document: where screens' keyboards type, and the choice of files
    pasted: '',
    told: null,        // what only turned out after the call that asked for it
    clipboard: 0,      // the memory that the program was last given of it
    prefix: 'flashscope:',

    text: function(string) {
      const size = lengthBytesUTF8(string) + 1, memory = _malloc(size);
      stringToUTF8(string, memory, size);
      return memory;
    },

    // --- Waiting -------------------------------------------------------------------------------------------------
    event: function() {
      Page.eventSeen = true;
      if (Page.wakeUp) Page.wakeUp();
    },
    wait: function(milliseconds, drawing, resume) {
      Page.busy = milliseconds === 0;
      Page.fitCanvas();
      Page.countFrames();
      const go = () => {
        if (!Page.wakeUp) return;
        Page.wakeUp = null;
        clearTimeout(Page.timer);
        Page.eventSeen = false;
        if (drawing && Page.frames > 0) requestAnimationFrame(resume);
        else setTimeout(resume, 0);
      };
      Page.wakeUp = go;
      if (Page.eventSeen || drawing || milliseconds === 0) go();
      else if (milliseconds > 0) Page.timer = setTimeout(go, milliseconds);
    },

    // Nothing is computed, nothing moves and the address is up to date, until the next event.
    isQuiet: function() { return Page.frames > 0 && !!Page.wakeUp && !Page.eventSeen && !Page.showTimer; },

    // --- The canvas ----------------------------------------------------------------------------------------------
    fitCanvas: function() {
      const canvas = Module['canvas'], ratio = window.devicePixelRatio || 1, win = GLFW.active;
      const width = Math.max(1, Math.round(canvas.clientWidth * ratio));
      const height = Math.max(1, Math.round(canvas.clientHeight * ratio));
      if (!win || (canvas.width === width && canvas.height === height && win.width === width)) return;
      canvas.width = win.width = width;
      canvas.height = win.height = height;
      if (win.framebufferSizeFunc) {{{ makeDynCall('viii', 'win.framebufferSizeFunc') }}}(win.id, width, height);
    },
    // A course page around this one does not move for it.
    focus: function() { Module['canvas'].focus({ preventScroll: true }); },
    place: function(event) {
      const canvas = Module['canvas'], box = canvas.getBoundingClientRect();
      Page.moveTo((event.clientX - box.left) * canvas.width / box.width,
                  (event.clientY - box.top) * canvas.height / box.height);
    },
    moveTo: function(x, y) {
      const win = GLFW.active;
      Browser.mouseX = x;
      Browser.mouseY = y;
      if (win && win.cursorPosFunc) {{{ makeDynCall('vidd', 'win.cursorPosFunc') }}}(win.id, x, y);
    },
    button: function(domButton, pressed) {
      const win = GLFW.active, button = [0, 2, 1][domButton];
      if (!win || button === undefined) return;
      if (pressed) win.buttons |= 1 << button;
      else win.buttons &= ~(1 << button);
      if (win.mouseButtonFunc)
        {{{ makeDynCall('viiii', 'win.mouseButtonFunc') }}}(win.id, button, pressed ? 1 : 0, GLFW.getModBits(win));
    },
    scroll: function(x, y) {
      const win = GLFW.active;
      if (win && win.scrollFunc) {{{ makeDynCall('vidd', 'win.scrollFunc') }}}(win.id, x, y);
    },
    // A finger that is lifted is nowhere, but only once the frames have seen the release where it happened.
    countFrames: function() {
      if (Page.scrollIn > 0) --Page.scrollIn;
      if (Page.leaveIn > 0 && --Page.leaveIn === 0) {
        Page.moveTo(-1e6, -1e6);
        Page.eventSeen = true;
      }
    },

    onDown: function(event) {
      Page.event();
      Page.focus();
      try { Module['canvas'].setPointerCapture(event.pointerId); } catch (e) {}
      Page.byFinger = event.pointerType === 'touch';
      if (Page.byFinger) {
        Page.fingers.set(event.pointerId, event.clientY);
        if (Page.fingers.size > 1) {  // the second finger scrolls, and what the first one pressed is not clicked
          Page.scrollIn = 3;
          Page.moveTo(-1e6, -1e6);
          return Page.button(0, false);
        }
        Page.leaveIn = 0;
      }
      Page.place(event);
      Page.button(event.button, true);
    },
    onMove: function(event) {
      Page.event();
      if (event.pointerType !== 'touch') return Page.place(event);
      if (Page.fingers.size < 2) {
        if (Page.fingers.size === 1) Page.place(event);
        return;
      }
      const before = Page.fingers.get(event.pointerId);
      if (before === undefined) return;
      Page.fingers.set(event.pointerId, event.clientY);
      if (Page.scrollIn > 0) return;
      Page.place(event);
      Page.scroll(0, (event.clientY - before) / 2 / 30);  // half of what both fingers move; a wheel's notch is 30 px
    },
    onUp: function(event) {
      Page.event();
      if (event.pointerType === 'touch') {
        const count = Page.fingers.size;
        Page.fingers.delete(event.pointerId);
        if (count > 1) return;
        Page.leaveIn = 4;
      }
      Page.place(event);
      Page.button(event.button < 0 ? 0 : event.button, false);
    },
    onWheel: function(event) {
      Page.event();
      event.preventDefault();
      const unit = event.deltaMode === 1 ? 3 : event.deltaMode === 2 ? 1 : 100;
      Page.scroll(-event.deltaX / unit, -event.deltaY / unit);
    },

    // --- Keys ----------------------------------------------------------------------------------------------------
    onKeyDown: function(event) {
      Page.event();
      Page.tookKey = false;
      GLFW.onKeydown(event);
      if (Page.tookKey) event.preventDefault();
    },
    onKeyUp: function(event) { Page.event(); GLFW.onKeyup(event); },
    onKeyPress: function(event) { Page.event(); GLFW.onKeyPress(event); },
    character: function(text) {
      const win = GLFW.active;
      if (win && win.charFunc)
        for (const one of text) {{{ makeDynCall('vii', 'win.charFunc') }}}(win.id, one.codePointAt(0));
    },
    // Keyboards on the screen come with a text field, and tell it what changes instead of keys.
    onScreenInput: function(event) {
      Page.event();
      if (event.inputType === 'deleteContentBackward') {
        GLFW.onKeyChanged(8, 1);
        GLFW.onKeyChanged(8, 0);
      } else if (event.data) {
        Page.character(event.data);
      }
      event.target.value = '';
    },
    showKeyboard: function(typing) {
      if (typing === Page.typing) return;
      Page.typing = typing;
      if (!Page.byFinger) return;
      if (typing) Page.field.focus({ preventScroll: true });
      else Page.focus();
    },

    // --- Files ---------------------------------------------------------------------------------------------------
    dropFiles: async function(files) {
      const folder = '/home/web_user/opened';
      FS.mkdirTree(folder);
      const paths = [];
      for (const file of files) {
        const path = folder + '/' + file.name.replace(/\//g, '_');
        paths.push(path);
        // A folder, or more than memory holds: the program finds no such file, and says so.
        try { FS.writeFile(path, new Uint8Array(await file.arrayBuffer())); } catch (e) {}
      }
      const win = GLFW.active;
      if (!win || !win.dropFunc || !paths.length) return;
      const list = _malloc(4 * paths.length), texts = paths.map(Page.text);
      texts.forEach((text, n) => { HEAP32[(list >> 2) + n] = text; });
      {{{ makeDynCall('viii', 'win.dropFunc') }}}(win.id, paths.length, list);
      texts.concat(list).forEach((memory) => _free(memory));
      Page.event();
    },
    download: function(path) {
      const name = path.substring(path.lastIndexOf('/') + 1), link = document.createElement('a');
      link.href = URL.createObjectURL(new Blob([FS.readFile(path)]));
      link.download = name;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 10000);
      FS.unlink(path);
    },
    // Storage can be refused, as in some frames of other sites: then nothing is kept, and everything else works.
    restore: function() {
      try {
        for (let n = 0; n < localStorage.length; ++n) Page.restoreOne(localStorage.key(n));
      } catch (e) {}
    },
    restoreOne: function(key) {
      if (!key || !key.startsWith(Page.prefix)) return;
      const path = key.substring(Page.prefix.length), text = localStorage.getItem(key);
      if (text === null) return;
      FS.mkdirTree(path.substring(0, path.lastIndexOf('/')));
      FS.writeFile(path, text);
    },
    // True when it is news that nothing can be kept.
    keep: function(path) {
      try {
        localStorage.setItem(Page.prefix + path, FS.readFile(path, { encoding: 'utf8' }));
        Page.keepsNothing = false;
      } catch (e) {
        const said = Page.keepsNothing;
        Page.keepsNothing = true;
        return !said;
      }
      return false;
    },

    // --- The address ---------------------------------------------------------------------------------------------
    // At most every 300 ms: browsers allow some hundred changes in half a minute, and a slider that is dragged makes more.
    showState: function(token) {
      if (token === Page.shownState) return;
      Page.shownState = token;
      if (Page.showTimer) return;
      const show = () => {
        Page.showTimer = 0;
        Page.shownAt = performance.now();
        try { history.replaceState(null, '', '#' + Page.shownState); } catch (e) {}
      };
      const left = Page.shownAt + 300 - performance.now();
      if (left <= 0) show();
      else Page.showTimer = setTimeout(show, left);
    },
    // A token is plain letters, and what is escaped in it is the program's own. But some who carry links escape all of it.
    stateOfAddress: function() {
      const token = location.hash.substring(1);
      if (token.includes(',')) return token;
      try { return decodeURIComponent(token); } catch (e) { return token; }
    },
    copy: function(text) {
      Page.pasted = text;
      const byHand = () => {
        Page.field.value = text;
        Page.field.select();
        const isCopied = document.execCommand('copy');
        Page.field.value = '';
        Page.focus();
        if (isCopied) return;
        Page.told = 'This browser does not let the page copy; its address is the link to what is seen';
        Page.news = true;
        Page.event();
      };
      if (navigator.clipboard) navigator.clipboard.writeText(text).catch(byHand);
      else byHand();
    },

    listen: function() {
      const canvas = Module['canvas'];
      Page.fingers = new Map();
      Page.field = document.getElementById('text');
      Page.picker = document.getElementById('files');
      canvas.addEventListener('pointerdown', Page.onDown);
      canvas.addEventListener('pointermove', Page.onMove);
      canvas.addEventListener('pointerup', Page.onUp);
      canvas.addEventListener('pointercancel', Page.onUp);
      canvas.addEventListener('pointerleave', (event) => {
        if (event.pointerType === 'mouse') { Page.event(); Page.moveTo(-1e6, -1e6); }
      });
      canvas.addEventListener('wheel', Page.onWheel, { passive: false });
      canvas.addEventListener('contextmenu', (event) => event.preventDefault());
      window.addEventListener('keydown', Page.onKeyDown);
      window.addEventListener('keyup', Page.onKeyUp);
      window.addEventListener('keypress', Page.onKeyPress);
      window.addEventListener('blur', (event) => { Page.event(); GLFW.onBlur(event); });
      window.addEventListener('resize', () => { Page.news = true; Page.event(); });
      document.addEventListener('visibilitychange', () => { Page.news = true; Page.event(); });
      window.addEventListener('paste', (event) => {
        Page.pasted = event.clipboardData.getData('text');
        Page.news = true;
        Page.event();
      });
      Page.field.addEventListener('input', Page.onScreenInput);
      Page.field.addEventListener('keypress', (event) => event.stopPropagation());  // input tells it
      window.addEventListener('dragover', (event) => event.preventDefault());
      window.addEventListener('drop', (event) => {
        event.preventDefault();
        Page.dropFiles(event.dataTransfer.files);
      });
      Page.picker.addEventListener('change', () => {
        Page.dropFiles(Page.picker.files).then(() => { Page.picker.value = ''; });
      });
      window.addEventListener('hashchange', () => {
        const token = Page.stateOfAddress();
        if (token === Page.shownState || !token) return;
        Page.shownState = null;  // one that makes no sense is replaced by the present state
        Page.wantedState = token;
        Page.news = true;
        Page.event();
      });
      // Another tab's progress: saving joins it with ours.
      window.addEventListener('storage', (event) => { try { Page.restoreOne(event.key); } catch (e) {} });
      canvas.addEventListener('webglcontextlost', (event) => {
        event.preventDefault();  // else it is never given back
        Page.isLost = true;
        document.body.classList.add('lost');
        Page.event();
      });
      canvas.addEventListener('webglcontextrestored', () => {
        Page.isLost = false;
        document.body.classList.remove('lost');
        Page.isRestored = Page.news = true;
        Page.event();
      });
    },
  },

  glfwInit__deps: ['$Page', '$GLFW'],
  glfwInit: function() {
    GLFW.initialTime = GLFW.getTime();
    GLFW.hints = GLFW.defaultHints;
    GLFW.windows = [];
    GLFW.active = null;
    Page.shownAt = performance.now();  // not before the first frame: it costs some milliseconds
    Page.listen();
    return 1;
  },
  glfwTerminate: function() {},
  glfwGetKeyName__sig: 'iii',
  glfwGetKeyName: function() { return 0; },
  glfwSetClipboardString__deps: ['$Page'],
  glfwSetClipboardString: function(win, text) { Page.copy(UTF8ToString(text)); },
  glfwGetClipboardString__deps: ['$Page'],
  glfwGetClipboardString: function() {
    if (Page.clipboard) _free(Page.clipboard);
    Page.clipboard = Page.text(Page.pasted);
    return Page.clipboard;
  },
  glfwSwapBuffers__deps: ['$Page'],
  glfwSwapBuffers: function() {
    if (++Page.frames === 1) {
      performance.mark('first frame');
      document.body.classList.add('running');
    }
  },
  glfwSwapInterval: function() {},

  page_wait__deps: ['$Page', '$Asyncify'],
  page_wait__sig: 'vdi',
  page_wait: function(milliseconds, drawing) {
    return Asyncify.handleSleep((resume) => Page.wait(milliseconds, drawing, resume));
  },
  page_has_news__deps: ['$Page'],
  page_has_news: function() {
    const news = Page.news;
    Page.news = false;
    return news ? 1 : 0;
  },
  page_took_key__deps: ['$Page'],
  page_took_key: function() { Page.tookKey = true; },
  page_wants_text__deps: ['$Page'],
  page_wants_text: function(typing) { Page.showKeyboard(!!typing); },
  page_context__deps: ['$Page'],
  page_context: function() {
    if (Page.isLost) return 1;
    if (!Page.isRestored) return 0;
    Page.isRestored = false;
    return 2;
  },
  page_address__deps: ['$Page'],
  page_address: function() { return Page.text(location.origin === 'null' ? location.pathname : location.origin + location.pathname); },
  page_options__deps: ['$Page'],
  page_options: function() {
    const lines = [];
    new URLSearchParams(location.search).forEach((value, name) => lines.push(value ? name + '=' + value : name));
    return Page.text(lines.join('\n'));
  },
  page_pixel_ratio__sig: 'd',
  page_pixel_ratio: function() { return window.devicePixelRatio || 1; },
  page_prefers_dark: function() { return window.matchMedia && matchMedia('(prefers-color-scheme: dark)').matches ? 1 : 0; },
  page_told__deps: ['$Page'],
  page_told: function() {
    const text = Page.told;
    Page.told = null;
    return text ? Page.text(text) : 0;
  },
  page_wanted_state__deps: ['$Page'],
  page_wanted_state: function() {
    const token = Page.wantedState === undefined ? Page.stateOfAddress() : Page.wantedState;
    Page.wantedState = null;
    return token ? Page.text(token) : 0;
  },
  page_show_state__deps: ['$Page'],
  page_show_state: function(token) { Page.showState(UTF8ToString(token)); },
  page_restore__deps: ['$Page'],
  page_restore: function() { Page.restore(); },
  page_keep__deps: ['$Page'],
  page_keep: function(path) { return Page.keep(UTF8ToString(path)) ? 1 : 0; },
  page_download__deps: ['$Page'],
  page_download: function(path) { Page.download(UTF8ToString(path)); },
  page_ask_for_files__deps: ['$Page'],
  page_ask_for_files: function() { Page.picker.click(); },
  page_fail: function(text) { Module['fail'](UTF8ToString(text)); },
});
