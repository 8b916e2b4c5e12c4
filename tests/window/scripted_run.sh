#!/bin/bash
# A scripted session on a virtual display: real keys, the JSON snapshot after each step, the picture at the end, and what
# is left on disk. usage: scripted_run.sh FLASHSCOPE_WINDOW. Leaves with 77 (skipped) where Xvfb or xdotool is missing.
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
export DISPLAY=$display HOME=$folder/home XDG_CONFIG_HOME=$folder/config
unset WAYLAND_DISPLAY
mkdir -p "$HOME" "$folder/empty"
for _ in $(seq 100); do xdotool getdisplaygeometry >/dev/null 2>&1 && break; sleep 0.1; done

fail() { echo "FAILED: $*"; cat "$folder"/*.log; exit 1; }
start() {  # in a folder that nothing is written to
  (cd "$folder/empty" && exec "$program" "$@") >"$folder/window.log" 2>&1 &
  window=$!
  timeout 60 xdotool search --sync --onlyvisible --name '^FlashScope$' >"$folder/id" || fail "no window"
  id=$(tail -1 "$folder/id")
  sleep 1
}
key() { for k in "$@"; do xdotool key --window "$id" "$k"; sleep 0.15; done; }
# The snapshot as F4 saves it; the first call waits for the stage to be computed.
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

start --seqlen 256 --heads 2 --br 32 --bc 32
snapshot
expect t_ps 0 "at the start"
duration=$(value duration_ps)
key End; snapshot; expect t_ps "$duration" "End"
key Home; snapshot; expect t_ps 0 "Home"
key Right Right Right; snapshot; third=$(value t_ps)
[ "$third" -gt 0 ] || fail "three steps did not move the clock"
key Right Left; snapshot; expect t_ps "$third" "a step and a step back"
key 3; snapshot; expect inspector roofline "key 3"
key ctrl+2; snapshot; expect view validate "Ctrl+2"
key ctrl+1 1; snapshot; expect view explore "Ctrl+1"
key period; snapshot; [ "$(value t_ps)" -gt "$third" ] || fail "next tile did not move the clock"
state=$(value state)
key F2
for _ in $(seq 50); do ls "$HOME"/flashscope-*.png >/dev/null 2>&1 && break; sleep 0.1; done
ls "$HOME"/flashscope-*.png >/dev/null 2>&1 || fail "F2 saved no picture"
key t
key ctrl+q
wait $window; result=$?
[ $result = 0 ] || fail "left with $result"
grep -q 'theme=dark' "$XDG_CONFIG_HOME/flashscope/window.txt" || fail "the theme is not remembered"
[ -z "$(ls -A "$folder/empty")" ] || fail "something was written to the current folder"

start --state "$state"
snapshot
[ "$(value state)" = "$state" ] || fail "the state came back as '$(value state)', not '$state'"
key ctrl+q
wait $window || fail "left with $?"
echo "passed"
