#!/bin/bash
# A learner on a virtual display, with real keys and a real mouse: a number typed wrong and right, the keys that belong to its
# field and those that do not, an order put right, an answer shown, a guess, the lecturer's box. After each step the snapshot
# says what happened.
# usage: lesson_run.sh FLASHSCOPE_WINDOW [FOLDER FOR PICTURES]. Leaves with 77 (skipped) where Xvfb or xdotool is missing.
. "$(dirname "$0")/virtual_display.sh"
pictures=${2:-}

mkdir "$folder/lessons"
cat >"$folder/lessons/t.md" <<'END'
+++
id = "t"
number = 1
title = "Keys and clicks"
summary = "One question of each kind"
+++

```run small
algorithm = "flash_v2"
seqlen = 128
heads = 1
```

## A number

```ask
kind = "number"
id = "n"
question = "Four times four?"
answer = "16"
hint = "More than 15."
reason = "So it is."
```

## An order

```ask
kind = "order"
id = "o"
question = "From small to large?"
items = ["one", "two", "three", "four"]
reason = "So they are counted."
```

## A choice

```ask
kind = "choice"
id = "c"
question = "Which of these is right?"
right = "the right one"
wrong = [["the wrong one", "It is called wrong."], "the other one"]
reason = "Its name says so."
```

```ask
kind = "choice"
id = "g"
predict = true
question = "And which of these do you guess?"
right = "this"
wrong = ["that"]
reason = "Guessing is free."
```
END

# Keys and letters of one frame lose their order: a snapshot in between waits until the window has seen the ones before.
in_turn() { for what in "$@"; do case $what in key:*) key "${what#key:}" ;; *) say "$what" ;; esac; snapshot; done; }
say() { xdotool type --window "$id" --delay 60 "$1"; sleep 0.3; }
# A field of the answer to question $1: typed, chosen, order, hints, tries, flags.
answer() { chosen answers | sed 's/~/\n/g; s/%2520/ /g' | awk -v id="$1" -v at="$2" 'NR % 7 == 1 { mine = $0 == id } mine && NR % 7 == at % 7'; }
typed() { answer "$1" 2; }
order() { answer "$1" 4; }
tries() { answer "$1" 6; }
flags() { answer "$1" 7; }
is() { [ "$2" = "$3" ] || fail "$1 is '$2', expected '$3'"; }
look() { [ -z "$pictures" ] || { sleep 0.5; picture "$pictures/$1.png"; }; }

start --lessons "$folder/lessons" --lesson t
snapshot
expect view learn "a lesson was asked for"

# 0. Without a click: what is typed is the answer, also where a letter or a digit is a key of something else; the arrows are the
# clock's until then, and the page keys turn the page.
theme=$(chosen theme)
in_turn key:Right; [ "$(value t_ps)" -gt 0 ] || fail "the arrows move no clock beside an open question"
in_turn key:Home
say "2n t"; sleep 0.5; snapshot
is "what was typed without a click" "$(typed n)" "2n t"
is "the theme after typing" "$(chosen theme)" "$theme"
expect t_ps 0 "typing moves no clock"
in_turn key:ctrl+a key:BackSpace key:Escape
key Next; snapshot; is "the step after PgDn" "$(chosen step)" 1
key Prior; snapshot; is "the step after PgUp" "$(chosen step)" ""

# 1. The field of a number. Home, End, arrows, Space and letters are its own; the clock does not move, nothing plays.
key Right Right; snapshot; moved=$(value t_ps)
[ "$moved" -gt 0 ] || fail "outside the field the arrows do not move the clock"
click 396 154
in_turn 12 key:Home 9 key:End 3 key:Left 4 key:Right key:space key:Up key:Down x
is "what was typed" "$(typed n)" "91243 x"
expect t_ps "$moved" "the keys of a field move no clock"
[ "$(chosen playing)" != 1 ] || fail "Space in a field plays"
expect view learn "letters in a field are no commands"
# Escape gives back what stood there when the field was entered, and leaves it.
key Escape; snapshot; is "what Escape leaves" "$(typed n)" ""
key Home; snapshot; expect t_ps 0 "outside again, Home is the clock's"
# A wrong answer: one try, and the next one is typed without a click.
click 396 154
in_turn 15 key:Return
is "tries" "$(tries n)" 1
look number-wrong
say "17"; snapshot; is "what was typed over the wrong answer" "$(typed n)" 17
# The page keys turn the page out of a field, and what was typed is kept.
key Next; snapshot; is "the step after PgDn" "$(chosen step)" 1
key Prior; snapshot; is "the step after PgUp" "$(chosen step)" ""
is "what was typed before" "$(typed n)" 17
click 396 154
in_turn key:ctrl+a 4 key:Return 16 key:Return
is "tries" "$(tries n)" 3
is "flags" "$(flags n)" rg
look number-right
key Right; snapshot; [ "$(value t_ps)" -gt 0 ] || fail "a right answer holds the keys"
# No way back from here.
click 861 694; snapshot; is "the step after Back" "$(chosen step)" ""

# 2. An order: the second and the third change places, twice to see both arrows; then the answer is shown.
click 948 694; snapshot; is "the step after Next" "$(chosen step)" 1
click 342 177; snapshot; [ -n "$(order o)" ] || fail "the arrow moves nothing"; first=$(order o)
click 312 202; click 342 152; snapshot; [ "$(order o)" != "$first" ] || fail "the order is still '$first'"
click 325 255; snapshot; is "tries" "$(tries o)" 1
look order-wrong
# Show the answer stands beside Check.
click 420 303; snapshot; is "flags" "$(flags o)" sg
look order-shown

# 3. A choice, wrong, then its answer shown; a guess; the lecturer's box.
key Next; snapshot; is "the step" "$(chosen step)" 2
click 400 155; snapshot; is "chosen" "$(answer c 3)" "the wrong one"
look choice-wrong
click 370 294; snapshot; is "flags" "$(flags c)" sg
look choice-shown
# A guess that is another than the answer: both can be told apart, and the answer is said once.
click 370 370; snapshot; is "the guess" "$(answer g 3)" that
is "flags" "$(flags g)" sg
look guess
# The lecturer's box: every answer is there, and going about in it is nobody's progress.
click 367 694; snapshot; is "lecture" "$(chosen lecture)" 1
key Prior Prior; snapshot; is "the step" "$(chosen step)" ""
look lecture
click 367 694; snapshot; is "lecture" "$(chosen lecture)" ""
look no-lecture
# The list of lessons, and back into this one where it was left.
click 320 694; snapshot; is "lesson" "$(chosen lesson)" ""
look list
leave
[ -z "$(ls -A "$folder/empty")" ] || fail "something was written to the current folder"
echo "passed"
