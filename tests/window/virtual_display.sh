# Sourced by the scripted runs, with the path of flashscope-window as $1: a virtual display with folders of its own, and real
# keys and a real mouse for a window on it. Leaves with 77 (skipped) where Xvfb or xdotool is missing.
set -u
program=$1
for tool in Xvfb xdotool; do
  command -v $tool >/dev/null || { echo "skipped: $tool is not installed"; exit 77; }
done
folder=$(mktemp -d)
Xvfb -displayfd 3 -screen 0 1280x800x24 3>"$folder/display" >"$folder/xvfb.log" 2>&1 &  # it picks a free number
xvfb=$!
for _ in $(seq 100); do [ -s "$folder/display" ] && break; sleep 0.1; done
display=:$(cat "$folder/display")
window=
trap 'kill $window $xvfb 2>/dev/null; rm -rf "$folder"' EXIT
export DISPLAY=$display HOME=$folder/home XDG_CONFIG_HOME=$folder/config XDG_DATA_HOME=$folder/data
export WAYLAND_DISPLAY=nonexistent  # and still X11 is found
mkdir -p "$HOME" "$folder/empty"
for _ in $(seq 100); do xdotool getdisplaygeometry >/dev/null 2>&1 && break; sleep 0.1; done

fail() { echo "FAILED: $*"; cat "$folder"/*.log; exit 1; }
cpu_ms() { awk '{ printf "%d", ($14 + $15) * 10 }' "/proc/$window/stat"; }  # of the window so far; a tick is 10 ms
start() {  # in a folder that nothing is written to
  (cd "$folder/empty" && exec "$program" "$@") >"$folder/window.log" 2>&1 &
  window=$!
  timeout 60 xdotool search --sync --onlyvisible --name '^FlashScope$' >"$folder/id" || fail "no window"
  id=$(tail -1 "$folder/id")
  sleep 1
}
leave() { key ctrl+q; wait $window || fail "left with $?"; }
key() { for k in "$@"; do xdotool key --window "$id" "$k"; sleep 0.15; done; }
mouse() { xdotool mousemove --window "$id" "$1" "$2"; sleep 0.1; }
click() { mouse "$1" "$2"; xdotool mousedown 1; sleep 0.15; xdotool mouseup 1; sleep 0.3; }
# The snapshot as F4 saves it; waits for the stage to be computed.
snapshot() {
  for _ in $(seq 60); do
    rm -f "$HOME"/flashscope-*.json
    key F4
    for _ in $(seq 20); do ls "$HOME"/flashscope-*.json >/dev/null 2>&1 && break; sleep 0.1; done
    cat "$HOME"/flashscope-*.json >"$folder/snapshot" 2>/dev/null || continue
    grep -q '"duration_ps": [1-9]' "$folder/snapshot" && return 0
    sleep 0.5
  done
  fail "no snapshot"
}
value() { sed -n "s/^  \"$1\": \"\{0,1\}\([^\"]*\)\"\{0,1\},\$/\1/p" "$folder/snapshot"; }
expect() { [ "$(value "$1")" = "$2" ] || fail "$1 is '$(value "$1")', expected '$2' ($3)"; }
chosen() { value state | tr , '\n' | sed -n "s/^$1=//p"; }  # a field of the state token
picture() {  # saves one with F2; its path is $1
  rm -f "$HOME"/flashscope-*.png
  key F2
  for _ in $(seq 100); do ls "$HOME"/flashscope-*.png >/dev/null 2>&1 && break; sleep 0.1; done
  mv "$HOME"/flashscope-*.png "$1" 2>/dev/null || fail "F2 saved no picture"
}
