#!/usr/bin/env python3
"""Draws the problems of a recording from a seed, so that nobody picks those that a model likes.

    kernels/recordings/draw.py > kernels/recordings/drawn.json    what is committed
    kernels/recordings/draw.py --check                            is it still that?

Each row is one problem and one algorithm, in the form that `flashscope measure --problems` takes. Only the strata (how
many rows a rung gets) and the limits (so that a recording takes minutes) are chosen by hand. Row n depends on seed and
n alone: a larger --count adds rows and changes none.
"""

import argparse
import json
import pathlib
import random
import sys

HERE = pathlib.Path(__file__).resolve().parent
DRAWN = HERE / "drawn.json"
MACHINE = HERE.parent.parent / "sim" / "machine" / "nvidia-h200.json"
SEED = 20261130

# Algorithm, pass, rows, and how many of them are hard: S, whether the algorithm stores it or not, between a quarter of
# L2 and four times of it, where what stays in L2 and what does not is hardest to tell.
STRATA = [
    ("three_pass_naive", "forward", 10, 6),
    ("three_pass", "forward", 16, 9),
    ("three_pass_tensor", "forward", 16, 9),
    ("flash_v1", "forward", 12, 4),
    ("flash_v2", "forward", 16, 7),
    ("flash_v2_tensor", "forward", 16, 7),
    ("flash_v3", "forward", 16, 6),
    ("split_kv", "forward", 6, 0),
    ("flash_v2", "backward", 6, 3),
    ("flash_v2_tensor", "backward", 6, 3),
]
# Kernels that came later, list by list: their rows follow, and those before stay what they are.
LATER_STRATA = [
    [
        ("flash_v3_fp8", "forward", 6, 2),
        ("three_pass", "backward", 6, 3),
        ("flash_v1", "backward", 6, 2),
    ],
    [("flash_v3", "backward", 6, 3)],
]
ALL_STRATA = STRATA + [stratum for strata in LATER_STRATA for stratum in strata]

HEAD_DIMS = [32, 40, 48, 64, 64, 72, 80, 96, 112, 128, 128, 160, 192, 256]  # all of them multiples of 8
LONGEST_LAUNCH_S = 0.05
MOST_SCORE_BYTES = 16e9  # S and P
MOST_ELEMENTS = 1 << 27  # of Q, K, V and O: they are made and read back on the CPU, in float64

# TFLOP/s that a launch reaches on an H200, roughly: limits follow from them, no prediction does.
TFLOPS = {"three_pass_naive": 1.4, "three_pass": 15, "flash_v1": 15, "flash_v2": 15, "split_kv": 10,
          "three_pass_tensor": 200, "flash_v2_tensor": 200, "flash_v3": 400, "flash_v3_fp8": 600}
TENSOR_RUNGS = ("three_pass_tensor", "flash_v2_tensor", "flash_v3", "flash_v3_fp8")
NUM_SMS = 132  # flash_v1 has one CTA a head


class Draw:
    """Only random() of a generator: the one method that Python promises to keep."""

    def __init__(self, seed):
        self.random = random.Random(seed).random

    def chance(self, share):
        return self.random() < share

    def choice(self, items):
        return items[int(self.random() * len(items))]

    def log_uniform(self, lo, hi):
        return lo * (hi / lo) ** self.random()

    def divisor(self, n, most):
        return self.choice([d for d in range(1, min(n, most) + 1) if n % d == 0])


def draw_seqlen(draw, lo, hi):
    """Most lengths are multiples of 64; some are none of 8."""
    seqlen = draw.log_uniform(lo, hi)
    step = draw.choice([64, 64, 64, 64, 8, 8, 1])
    return min(hi, max(lo, round(seqlen / step) * step))


def draw_problem(draw, algorithm, pass_, hard, l2_bytes, seqlen_k):
    """One problem with keys of this length, within its limits or not; None where no number of heads makes it hard."""
    dtype = draw.choice(["fp16", "bf16"] if algorithm in TENSOR_RUNGS else ["fp32", "fp16", "bf16", "bf16"])
    decode = algorithm == "split_kv"
    seqlen_q = int(draw.log_uniform(1, 17)) if decode else seqlen_k
    group = draw.choice([2, 4, 8]) if draw.chance(0.7 if decode else 0.3) else 1  # query heads that share a KV head
    if hard:
        num_heads = draw.log_uniform(0.25, 4) * l2_bytes / (seqlen_q * seqlen_k * (4 if dtype == "fp32" else 2))
    else:
        num_heads = draw.log_uniform(1, 1025)
    num_kv_heads = round(num_heads / group)
    if not 1 <= num_kv_heads * group <= 1024:
        return None
    kv_heads = draw.divisor(num_kv_heads, 64)

    row = {"pass": pass_} if pass_ == "backward" else {}
    row["batch"] = num_kv_heads // kv_heads
    row["heads"] = kv_heads * group
    if group > 1:
        row["kv-heads"] = kv_heads
    row.update({"seqlen-q": seqlen_q, "seqlen-k": seqlen_k} if decode else {"seqlen": seqlen_k})
    widest = 128 if pass_ == "backward" and algorithm in TENSOR_RUNGS else 256
    row["head-dim"] = draw.choice([d for d in HEAD_DIMS if d <= widest])
    row["dtype"] = dtype
    mask = draw.random()
    if mask < 0.35:
        row["causal"] = True
    elif mask < 0.45 and not decode:
        left = int(draw.log_uniform(32, seqlen_k))
        row["window"] = [left, draw.choice([0, left])]
    row["algorithms"] = [algorithm]
    return row


def size_of(row):
    """Query heads, rows of Q, rows of K, columns, bytes of an element."""
    return (row["batch"] * row["heads"], row.get("seqlen-q", row.get("seqlen")), row.get("seqlen-k", row.get("seqlen")),
            row["head-dim"], 4 if row["dtype"] == "fp32" else 2)


def score_bytes(row):
    num_heads, seqlen_q, seqlen_k, _, element = size_of(row)
    return num_heads * seqlen_q * seqlen_k * element


def is_hard(row, l2_bytes):
    return 0.25 * l2_bytes <= score_bytes(row) <= 4 * l2_bytes


def seconds(row):
    """Of one launch, roughly. A window is taken for no mask, and three passes compute all pairs whatever the mask."""
    algorithm = row["algorithms"][0]
    num_heads, seqlen_q, seqlen_k, head_dim, _ = size_of(row)
    flops = 4 * head_dim * num_heads * seqlen_q * seqlen_k
    flops *= 2.5 if row.get("pass") == "backward" else 1
    flops *= 0.5 if row.get("causal") and not algorithm.startswith("three_pass") else 1
    busy = min(1, num_heads / NUM_SMS) if algorithm == "flash_v1" else 1
    return flops / (TFLOPS[algorithm] * 1e12 * busy)


def is_within_limits(row):
    num_heads, seqlen_q, seqlen_k, head_dim, _ = size_of(row)
    stored_scores = 2 * score_bytes(row) if row["algorithms"][0].startswith("three_pass") else 0
    elements = 2 * num_heads * head_dim * (seqlen_q + seqlen_k)
    return seconds(row) <= LONGEST_LAUNCH_S and stored_scores <= MOST_SCORE_BYTES and elements <= MOST_ELEMENTS


def spread(strata):
    """(algorithm, pass, hard) of each row; the strata are spread evenly, so that the first rows are a fair part."""
    slots = []
    for stratum, (algorithm, pass_, rows, hard) in enumerate(strata):
        for n in range(rows):
            slots.append(((n + 0.5) / rows, stratum, algorithm, pass_, (n + 1) * hard // rows > n * hard // rows))
    return [slot[2:] for slot in sorted(slots)]


def slots(count):
    all_slots = [slot for strata in [STRATA] + LATER_STRATA for slot in spread(strata)]
    return [all_slots[n % len(all_slots)] for n in range(count)]


def draw_row(draw, algorithm, pass_, hard, l2_bytes):
    while True:
        # Many tries for each length: otherwise the limits, which long ones meet first, would leave short ones only.
        seqlen = draw_seqlen(draw, 128, 65536)
        for _ in range(100):
            row = draw_problem(draw, algorithm, pass_, hard, l2_bytes, seqlen)
            if row and is_within_limits(row) and (not hard or is_hard(row, l2_bytes)):
                return row


def draw_rows(seed, count, l2_bytes):
    rows = []
    for n, (algorithm, pass_, hard) in enumerate(slots(count)):
        draw = Draw(f"{seed}:{n}")
        row = draw_row(draw, algorithm, pass_, hard, l2_bytes)
        while row in rows:
            row = draw_row(draw, algorithm, pass_, hard, l2_bytes)
        rows.append(row)
    return rows


def json_lines(rows):
    return "[\n" + ",\n".join("  " + json.dumps(row) for row in rows) + "\n]\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--count", type=int, default=sum(rows for _, _, rows, _ in ALL_STRATA))
    parser.add_argument("--check", action="store_true", help=f"compare with {DRAWN.name} instead of printing")
    parser.add_argument("--summary", action="store_true", help="how long, how large, how many hard ones; to stderr")
    options = parser.parse_args()
    l2_bytes = json.loads(MACHINE.read_text())["l2_bytes"]["value"]
    rows = draw_rows(options.seed, options.count, l2_bytes)
    if options.summary:
        hard = sum(is_hard(row, l2_bytes) for row in rows)
        launches = sorted(map(seconds, rows))
        print(f"{len(rows)} rows, {hard} hard; one launch of each takes about {sum(launches):.2f} s together, "
              f"the longest {1e3 * launches[-1]:.0f} ms", file=sys.stderr)
    if not options.check:
        sys.stdout.write(json_lines(rows))
    elif json_lines(rows) != DRAWN.read_text():
        sys.exit(f"{DRAWN} is not what this script draws; write it anew: {sys.argv[0]} > {DRAWN}")


if __name__ == "__main__":
    main()
