#!/usr/bin/env bash
# On a machine with a GPU: build, run every test, look for bad accesses, and record the problems of
# recordings/problems.json and recordings/drawn.json (or of the lists in $PROBLEMS). Takes a quarter of an hour.
#   kernels/check_and_record.sh OUT_DIR [build|test|sanitize|record ...]   (default: all four)
set -uo pipefail
cd "$(dirname "$0")/.."
out=${1:?where to put logs and the recording}
shift
steps=${*:-build test sanitize record}
status=0

step() {
  echo "== $1"
  shift
  local begin=$SECONDS
  "$@" || { echo "   failed ($?)"; status=1; }
  echo "   $((SECONDS - begin)) s"
}

build() {
  cmake --preset cuda -DCMAKE_CUDA_ARCHITECTURES=90a-real ${COMMIT:+-DFLASHSCOPE_COMMIT=$COMMIT} >"$out/configure.log" 2>&1 || { tail -20 "$out/configure.log"; return 1; }
  cmake --build --preset cuda ${TARGETS:+--target $TARGETS} >"$out/build.log" 2>&1 || { grep -E 'error|FAILED' "$out/build.log" | head -20; return 1; }
}
test_all() {
  FLASHSCOPE_WRITE_LOGS="$out/kernel_logs.txt" ctest --preset cuda -j "$(nproc)" >"$out/ctest.log" 2>&1
  local rc=$?
  sed -n '/tests passed/,$p' "$out/ctest.log" | grep -v '^$'
  return $rc
}
# Cases of thousands of problems or CTAs: they meet no code that the others do not, and take hours in a sanitizer.
# small_test has every kernel in it, in cases of a dtype and a pass; SANITIZED= (nothing more) is enough where time is short.
kSmall=(forward-fp32 forward-fp16 forward-bf16 backward-fp32 backward-fp16 backward-bf16)
kSanitized=${SANITIZED-cases_test backward_test}
kTooManyForSanitizers="*random*,*more heads*,*hundred*,*long rows*,*large*,*reference of the gradients*"
# A race planted on purpose must be seen, or "no hazard" means nothing (`full` is not: docs/deviations.md).
plant() {
  local rc=0 left_out found
  for left_out in none empty beside; do
    timeout 60 compute-sanitizer --tool racecheck --error-exitcode 9 build/cuda/bin/planted_race $left_out >"$out/race_$left_out.log" 2>&1
    found=$(grep -c 'Race reported' "$out/race_$left_out.log")
    echo "racecheck, left out: $left_out: $found hazards"
    if [[ $left_out == none ]]; then ((found == 0)) || rc=1; else ((found > 0)) || rc=1; fi
  done
  return $rc
}
sanitize() {
  local rc=0 tool tests job jobs=()
  plant || rc=1
  for tool in racecheck memcheck initcheck synccheck; do  # side by side: each takes a core and little of the GPU
    for tests in "${kSmall[@]}" $kSanitized; do
      local chosen=(--source-file="*$tests*" --test-case-exclude="$kTooManyForSanitizers")
      [[ $tests == *-* ]] && chosen=(--test-case="small problems: ${tests%-*}*${tests#*-}")
      timeout "${SANITIZE_S:-300}" compute-sanitizer --tool $tool --error-exitcode 9 build/cuda/bin/test_gpu "${chosen[@]}" >"$out/${tool}_$tests.log" 2>&1 &
      jobs+=($!)
    done
  done
  for job in "${jobs[@]}"; do
    wait "$job" || rc=1
  done
  for tool in memcheck racecheck initcheck synccheck; do
    for tests in "${kSmall[@]}" $kSanitized; do
      echo "$tool $tests: $(grep -E 'SUMMARY|test cases' "$out/${tool}_$tests.log" | tr '\n' ' ')"
    done
  done
  return $rc
}
record() {
  local rc=0 list
  : >"$out/measure.txt"
  : >"$out/measure.err"
  for list in ${PROBLEMS:-kernels/recordings/problems.json kernels/recordings/family.json kernels/recordings/drawn.json}; do
    build/cuda/bin/flashscope measure --problems "$list" --record "$out/recording.json" >>"$out/measure.txt" 2>>"$out/measure.err" || rc=$?
    tail -3 "$out/measure.err"
  done
  build/cuda/bin/flashscope validate "$out/recording.json" | tee "$out/validate.txt"
  return $rc
}

for s in $steps; do
  case $s in
    build) step build build ;;
    test) step tests test_all ;;
    sanitize) step sanitizers sanitize ;;
    record) step record record ;;
  esac
done
exit $status
