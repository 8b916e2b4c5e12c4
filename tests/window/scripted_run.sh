#!/bin/bash
# A scripted session on a virtual display, with real keys and a real mouse: plays three-pass against tiled to the end, steps
# back to the start, drags N, opens each inspector, switches the GPU, saves a PNG, pastes a state and gets the same picture.
# After each step the JSON snapshot says what happened. Then: degenerate sizes, what is left on disk, a folder that cannot be
# written, and what the start and doing nothing cost.
# usage: scripted_run.sh FLASHSCOPE_WINDOW. Leaves with 77 (skipped) where Xvfb or xdotool is missing.
. "$(dirname "$0")/virtual_display.sh"

# 1. Three-pass against tiled, played to the end; back to the start step by step, and by Home.
start --seqlen 512 --heads 2
snapshot
expect t_ps 0 "at the start"
duration=$(value duration_ps)
key Up Up Up Up space
for _ in $(seq 120); do snapshot; [ "$(value t_ps)" = "$duration" ] && break; sleep 0.5; done
expect t_ps "$duration" "played to the end"
[ "$(grep -c '"finished": true' "$folder/snapshot")" = 2 ] || fail "not both are done at the end"
for _ in $(seq 40); do
  xdotool key --window "$id" --delay 15 --repeat 50 Left
  snapshot
  [ "$(value t_ps)" = 0 ] && break
done
expect t_ps 0 "stepped back to the start"
key Right Right Right; snapshot; third=$(value t_ps)
[ "$third" -gt 0 ] || fail "three steps did not move the clock"
key Right Left; snapshot; expect t_ps "$third" "a step and a step back"
key period; snapshot; [ "$(value t_ps)" -gt "$third" ] || fail "next tile did not move the clock"
key Home; snapshot; expect t_ps 0 "Home"

# 2. N from 512 to 16384, in one drag; one undo takes it back, and redo brings it again.
[ "$(chosen seqlen-q)" = 512 ] || fail "N is '$(chosen seqlen-q)' before the drag"
y=164 x=104  # the slider's grab at 512
mouse $x $y; xdotool mousedown 1; sleep 0.2
while [ $x -lt 155 ]; do x=$((x + 3)); mouse $x $y; done
for x in 155 154 153 152 151 150 149 148 147; do
  mouse $x $y; sleep 0.2
  snapshot
  [ "$(chosen seqlen-q)" = 16384 ] && break
done
xdotool mouseup 1; sleep 0.3
snapshot
[ "$(chosen seqlen-q)" = 16384 ] || fail "N is '$(chosen seqlen-q)' after the drag"
[ "$(chosen seqlen-k)" = 16384 ] || fail "keys did not follow"
key ctrl+z; snapshot; [ "$(chosen seqlen-q)" = 512 ] || fail "undo: N is '$(chosen seqlen-q)'"
key ctrl+y; snapshot; [ "$(chosen seqlen-q)" = 16384 ] || fail "redo: N is '$(chosen seqlen-q)'"
key ctrl+z

# 3. Each inspector, by its key and by its tab; each view.
n=1
for inspector in numbers bytes roofline sweep softmax occupancy memory source; do
  key $n; snapshot; expect inspector $inspector "key $n"
  n=$((n + 1))
done
click 558 17; snapshot; expect inspector softmax "its tab"
key ctrl+2; snapshot; expect view validate "Ctrl+2"
key ctrl+3; snapshot; expect view learn "Ctrl+3"
key ctrl+1 1; snapshot; expect view explore "Ctrl+1"
key l; snapshot; [ "$(chosen tall)" = 1 ] || fail "L: no tall timeline"
key l

# 4. Another GPU, from the list. The keys of the list choose it.
gpu=$(chosen gpu)
click 94 483
click 94 529
snapshot
[ "$(chosen gpu)" != "$gpu" ] || fail "the GPU is still '$gpu'"

# 5. A picture and the state; another inspector, another time, a closer stage; the pasted state gives the same picture.
mouse 640 560  # over nothing that answers
key Home Right Right Right 3; snapshot; state=$(value state)
sleep 4  # the whole problem is simulated: the inspector shows all of it
picture "$folder/before.png"
key ctrl+c z 5 End; snapshot
[ "$(value state)" != "$state" ] || fail "nothing changed"
key ctrl+v; snapshot; expect state "$state" "pasted"
key ctrl+1
sleep 4
picture "$folder/after.png"
cmp "$folder/before.png" "$folder/after.png" || fail "the pasted state gives another picture"

# 6. Sizes that a window manager may give: nothing is drawn, nothing crashes.
for size in "1 1" "640 1" "1 480" "320 200" "1280 720"; do
  xdotool windowsize "$id" $size
  sleep 0.4
  kill -0 $window || fail "size $size ended the window"
done
snapshot; expect state "$state" "after other sizes"

# 7. What is kept: theme and inspector, in the user's folder; nothing in the current one.
key t 6
leave
grep -q 'theme=dark' "$XDG_CONFIG_HOME/flashscope/window.txt" || fail "the theme is not remembered"
[ -z "$(ls -A "$folder/empty")" ] || fail "something was written to the current folder"
start
snapshot; expect inspector occupancy "remembered"
leave
start --state "$state"
snapshot; expect state "$state" "given with --state"

# 8. Doing nothing costs nothing.
sleep 12  # what was announced is gone, and what was simulated is done
before=$(cpu_ms); sleep 5; idle=$(($(cpu_ms) - before))
echo "idle: $idle ms of a processor in 5 s"
[ $idle -lt 250 ] || fail "idle takes $idle ms in 5 s: more than 5 %"
leave

# 9. A home that cannot be written is no reason not to start; and what the start takes.
export HOME=/proc/none XDG_CONFIG_HOME= XDG_DATA_HOME=
begin=$(date +%s%N)
(cd "$folder/empty" && exec "$program") >"$folder/window.log" 2>&1 &
window=$!
timeout 60 xdotool search --sync --onlyvisible --name '^FlashScope$' >"$folder/id" || fail "no window without a home"
echo "a window after $((($(date +%s%N) - begin) / 1000000)) ms, of them $(cpu_ms) ms of a processor"
id=$(tail -1 "$folder/id")
sleep 1
leave
grep -q 'not kept' "$folder/window.log" || fail "no notice that nothing is kept"
[ -z "$(ls -A "$folder/empty")" ] || fail "something was written to the current folder"
echo "passed"
