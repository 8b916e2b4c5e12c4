#!/usr/bin/env python3
"""Counts instructions in the loops of the compiled rungs, and checks the counts that the model uses.

    kernels/facts/instruction_mix.py            compile the rungs for sm_90a, print every loop
    kernels/facts/instruction_mix.py --check    ... and compare the products with sm_90a.json; exit 1 on a difference
    kernels/facts/instruction_mix.py --write    ... and write sm_90a.json

Needs nvcc (PATH or --nvcc). No disassembler: a cubin is an ELF file whose .text.<kernel> sections hold instructions of
128 bits (sm_70 and later). What is read of one:

    bits 0-8      operation                   bits 105-108  stall: clocks to the warp's next instruction
    bits 9-11     kinds of its operands       bits 122-125  operands kept for reuse
    bits 16-23    destination register        bits 16-23, 34-81  offset of a branch, in words of 4 bytes
    24-31, 32-39, 64-71  source registers

The operation numbers are those of the open-source assembler in Mesa (src/nouveau/compiler/nak, sm70 encoding), checked
against small kernels compiled to PTX and cubin side by side. Numbers without a name are counted as OTHER.

A loop is a backward branch and what lies between its target and itself. Reads of register banks: a register lies in
bank 0 or 1 by its number's parity; each bank gives one operand a clock (Huerta et al., arXiv 2503.20481); an operand
marked for reuse is still there if the next instruction names the same register in the same place.
"""
import argparse
import collections
import hashlib
import json
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

NAMES = {
    0x020: "FMUL", 0x021: "FADD", 0x023: "FFMA", 0x024: "IMAD", 0x025: "IMAD", 0x027: "IMAD",
    0x002: "MOV", 0x007: "SEL", 0x008: "FSEL", 0x009: "FMNMX", 0x00b: "FSETP", 0x00c: "ISETP", 0x010: "IADD3",
    0x011: "LEA", 0x012: "LOP3", 0x013: "IABS", 0x016: "PRMT", 0x017: "IMNMX", 0x019: "SHF", 0x01c: "PLOP3",
    0x035: "IADD", 0x036: "IADD", 0x03e: "F2FP", 0x048: "VIMNMX",
    0x105: "F2I", 0x106: "I2F", 0x108: "MUFU",
    0x181: "LDG", 0x182: "LDC", 0x184: "LDS", 0x186: "STG", 0x188: "STS", 0x189: "SHFL",
    0x11d: "BAR", 0x147: "BRA", 0x141: "BSYNC", 0x145: "BSSY", 0x14d: "EXIT", 0x119: "S2R",
}
FMA = {"FFMA", "FMUL", "FADD", "IMAD"}
ALU = {"MOV", "SEL", "FSEL", "FMNMX", "FSETP", "ISETP", "IADD3", "IADD", "LEA", "LOP3", "IABS", "PRMT", "IMNMX", "SHF",
       "PLOP3", "F2FP", "VIMNMX"}
THREE_SOURCES = {"FFMA", "IMAD", "IADD3", "LOP3", "PRMT", "SHF", "LEA"}
NO_REGISTER = 255
RUNGS = ["01_three_pass_naive", "02_three_pass", "04_flash_v1", "05_flash_v2"]


class Instruction:
    def __init__(self, offset, word):
        self.offset = offset
        self.name = NAMES.get(word & 0x1FF, "OTHER")
        self.form = word >> 9 & 7
        self.stall = word >> 105 & 15
        self.reuse = word >> 122 & 15
        self.sources = [word >> 24 & 255, word >> 32 & 255, word >> 64 & 255]
        self.target = None
        if self.name == "BRA":
            words = word >> 34 & (1 << 48) - 1
            words -= (words >> 47) << 48
            self.target = offset + 16 + 4 * (words * 256 + (word >> 16 & 255))

    def register_sources(self):
        """(place, register) of each operand that is read from a register."""
        places = [0, 1, 2] if self.form == 1 else [0, 2]  # other forms: a constant or immediate in place 1
        if self.name not in THREE_SOURCES:
            places = [p for p in places if p < 2]
        return [(p, self.sources[p]) for p in places if self.sources[p] != NO_REGISTER]


def kernels_of(cubin):
    """(name, instructions) of each kernel of an ELF image."""
    table, = struct.unpack_from("<Q", cubin, 40)
    entry, count, names = struct.unpack_from("<HHH", cubin, 58)
    headers = [struct.unpack_from("<IIQQQQIIQQ", cubin, table + i * entry) for i in range(count)]
    for header in headers:
        start = headers[names][4] + header[0]
        name = cubin[start:cubin.index(b"\0", start)].decode()
        if not name.startswith(".text.") or "OpLog" in name:
            continue
        code = cubin[header[4]:header[4] + header[5]]
        words = (int.from_bytes(code[o:o + 16], "little") for o in range(0, len(code), 16))
        yield name[len(".text."):], [Instruction(16 * n, word) for n, word in enumerate(words)]


def short_name(mangled):
    """flash_v2 bf16 64, from the mangled name of a template instance."""
    match = re.search(r"(three_pass_naive_\w+?|three_pass_\w+?|flash_v\d)I(f|6__half|13__nv_bfloat16)(?:Li(\d+)E)?",
                      re.sub(r"^.*_cu_[0-9a-f]{8}\d+", "", mangled))
    dtype = {"f": "fp32", "6__half": "fp16", "13__nv_bfloat16": "bf16"}[match[2]]
    return " ".join(part for part in (match[1], dtype, match[3]) if part)


def bank_reads(body):
    kept, reads = {}, [0, 0]
    for _ in range(2):  # the second time around, what the end of the loop keeps is there at its start
        reads = [0, 0]
        for i in body:
            if i.name not in FMA | ALU:
                continue
            for place, register in i.register_sources():
                key = (place, register % 2)
                reads[register % 2] += kept.get(key) != register
                kept.pop(key, None)
                if i.reuse >> place & 1:
                    kept[key] = register
    return reads


def loops_of(instructions):
    ends = sorted({(i.target, i.offset) for i in instructions if i.target is not None and i.target < i.offset})
    for begin, end in ends:
        body = [i for i in instructions if begin <= i.offset <= end]
        mix = collections.Counter(i.name for i in body)
        yield {"instructions": len(body), "stall_clocks": sum(i.stall for i in body),
               "fma": sum(mix[n] for n in FMA), "alu": sum(mix[n] for n in ALU), "mufu": mix["MUFU"],
               "bank_reads": max(bank_reads(body)),
               **{name.lower(): mix[name] for name in ("FFMA", "LDS", "STS", "LDG", "STG", "SHFL") if mix[name]}}


def compiled(rung, nvcc, root):
    with tempfile.TemporaryDirectory() as folder:
        cubin = pathlib.Path(folder) / "rung.cubin"
        subprocess.run([nvcc, "-std=c++20", "-gencode=arch=compute_90a,code=sm_90a", "-cubin", f"-I{root}",
                        str(root / f"kernels/forward/{rung}.cu"), "-o", str(cubin)], check=True)
        return cubin.read_bytes()


def is_product(loop):
    return loop.get("ffma", 0) >= 32 and 2 * loop["ffma"] > loop["instructions"]


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--nvcc", default="nvcc")
    options.add_argument("--check", action="store_true")
    options.add_argument("--write", action="store_true")
    options = options.parse_args()
    here = pathlib.Path(__file__).resolve().parent
    root = here.parent.parent
    version = subprocess.run([options.nvcc, "--version"], check=True, capture_output=True, text=True).stdout
    facts = {"target": "sm_90a", "compiler": re.search(r"release .*", version)[0].strip(), "cubins": {}, "kernels": {}}
    for rung in RUNGS:
        cubin = compiled(rung, options.nvcc, root)
        facts["cubins"][rung] = hashlib.sha256(cubin).hexdigest()
        for name, instructions in kernels_of(cubin):
            loops = list(loops_of(instructions))
            facts["kernels"][short_name(name)] = {"instructions": len(instructions), "loops": loops}
            for loop in loops if not (options.check or options.write) else []:
                print(f"{short_name(name):40}", *(f"{key} {value}" for key, value in loop.items()))
    path = here / "sm_90a.json"
    if options.write:
        one_line = lambda match: "{" + re.sub(r"\s*\n\s*", " ", match[1]) + "}"  # a loop a line
        path.write_text(re.sub(r"\{\s+([^{}]*?)\s+\}", one_line, json.dumps(facts, indent=1)) + "\n")
    if options.check:
        known, different = json.loads(path.read_text()), 0
        for name, kernel in facts["kernels"].items():
            ours = [loop for loop in kernel["loops"] if is_product(loop)]
            theirs = [loop for loop in known["kernels"].get(name, {"loops": []})["loops"] if is_product(loop)]
            if [loop["instructions"] for loop in ours] != [loop["instructions"] for loop in theirs]:
                print(f"{name}: the product loops are not those of {path.name}")
                different += 1
        print(f"{len(facts['kernels'])} kernels, {different} differ")
        return 1 if different else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
