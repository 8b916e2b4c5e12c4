#!/usr/bin/env python3
"""Times PyTorch's attention beside the ladder: one CSV line a problem. Needs PyTorch and a GPU.

    kernels/measure/peers.py problems.json > peers.csv             # forward and backward of every shape
    kernels/measure/peers.py problems.json backward > peers.csv    # backward, of the shapes of its backward rows

The problems are those of `flashscope measure --problems` (bf16 and fp16 rows; window and seqlen-q/-k rows are left out).
eager: matmul, softmax, matmul, with a mask kernel when causal. flash: scaled_dot_product_attention restricted to its
FlashAttention-2 back end; cudnn: to cuDNN's. Backward: the gradients of q, k and v alone, of an output kept from before.
Inputs N(0, 1). Median of 20 event-timed calls after 5 warm-ups, back to back: none waits for the host where the one
before takes longer than a launch. Caches as they are; K and V of grouped heads are repeated first, untimed.
FLOPs: 4 · batch · heads · N² · d forward, half of it when causal, 2.5 times that backward.
"""
import json
import statistics
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel


def milliseconds(call):
    for _ in range(5):
        call()
    events = []
    for _ in range(20):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        call()
        end.record()
        events.append((begin, end))
    torch.cuda.synchronize()
    return statistics.median(begin.elapsed_time(end) for begin, end in events)


def eager(q, k, v, mask):
    scores = torch.matmul(q, k.transpose(-2, -1)) * q.shape[-1] ** -0.5
    if mask is not None:
        scores = scores.masked_fill(mask, float("-inf"))
    return torch.matmul(torch.softmax(scores, -1), v)


def peers_of(problem, backward_only):
    n, d = problem["seqlen"], problem["head-dim"]
    heads, kv_heads, causal = problem["heads"], problem.get("kv-heads", problem["heads"]), problem.get("causal", False)
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}[problem["dtype"]]
    shape = (problem.get("batch", 1), heads, n, d)
    q, d_out = (torch.randn(shape, device="cuda", dtype=dtype) for _ in range(2))
    k, v = (torch.randn((shape[0], kv_heads, n, d), device="cuda", dtype=dtype).repeat_interleave(heads // kv_heads, 1)
            for _ in range(2))
    for x in (q, k, v):
        x.requires_grad_(True)
    times = {}
    for name, backend in (("flash", SDPBackend.FLASH_ATTENTION), ("cudnn", SDPBackend.CUDNN_ATTENTION)):
        try:
            with sdpa_kernel(backend):
                if not backward_only:
                    with torch.no_grad():
                        times[name] = milliseconds(lambda: F.scaled_dot_product_attention(q, k, v, is_causal=causal))
                out = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
                times[name + "_backward"] = milliseconds(
                    lambda: torch.autograd.grad(out, (q, k, v), d_out, retain_graph=True))
        except RuntimeError as error:
            print(f"{name}: {error}", file=sys.stderr)
    if not backward_only:
        try:
            mask = torch.ones(n, n, dtype=torch.bool, device="cuda").triu(1) if causal else None
            with torch.no_grad():
                times["eager"] = milliseconds(lambda: eager(q, k, v, mask))
        except torch.cuda.OutOfMemoryError:
            pass
    flops = 4 * shape[0] * heads * n * n * d / (2 if causal else 1)
    return times, flops


def main():
    print("# PyTorch", torch.__version__, "on", torch.cuda.get_device_name())
    names = ["flash", "cudnn", "eager", "flash_backward", "cudnn_backward"]
    print("batch,heads,kv_heads,seqlen,head_dim,dtype,causal," +
          ",".join(f"{name}_ms,{name}_tflops" for name in names))
    backward_only = sys.argv[2:] == ["backward"]
    done = []  # a shape may stand in the list once a pass
    for problem in json.load(open(sys.argv[1])):
        if "seqlen" not in problem or "window" in problem or problem["dtype"] == "fp32":
            continue
        if backward_only and problem.get("pass") != "backward":
            continue
        cells = [problem.get("batch", 1), problem["heads"], problem.get("kv-heads", problem["heads"]),
                 problem["seqlen"], problem["head-dim"], problem["dtype"], int(problem.get("causal", False))]
        if cells in done:
            continue
        done.append(list(cells))
        times, flops = peers_of(problem, backward_only)
        for name in names:
            work = flops * (2.5 if name.endswith("backward") else 1)
            cells += [f"{times[name]:.4f}", f"{work / times[name] / 1e9:.1f}"] if name in times else ["", ""]
        print(*cells, sep=",", flush=True)
        torch.cuda.empty_cache()


main()
