"""The kernels as ptxas reports them: registers, and that nothing lies in local memory.

A kernel that spills still gives the right bytes and is several times slower, so only this shows it.
KVTIER_NVCC: the compiler; without it these tests skip.
"""

import os
import pathlib
import re
import subprocess
import tempfile
import unittest

REPO = pathlib.Path(__file__).resolve().parents[2]
ARCHITECTURES = ("80", "90", "100")
NVCC = os.environ.get("KVTIER_NVCC", "")

ENTRY = re.compile(r"Compiling entry function '(\w+)' for 'sm_(\d+)'")
FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
REGISTERS = re.compile(r"Used (\d+) registers")

# With more registers, an SM cannot hold two thread blocks of 256 threads, or one of the copying kernel's 512.
MOST_REGISTERS = 128

# Sources that only call CUDA.
WITHOUT_KERNELS = ("gpu_stream.cu",)

SPILLS = """
__global__ void __launch_bounds__(1024, 2) Spills(const double* in, double* out) {
  double held[64];
#pragma unroll
  for (int i = 0; i < 64; ++i) held[i] = in[threadIdx.x + i * 1024];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 64; ++i) out[threadIdx.x + i * 1024] = held[63 - i] * held[i];
}
"""


class Kernel:
    """One entry function of one architecture, as ptxas reports it."""

    def __init__(self, name, architecture):
        self.name, self.architecture = name, architecture
        self.local_bytes, self.registers = None, None

    def __str__(self):
        return f"{self.name}: {self.registers} registers, {self.local_bytes} bytes of local memory"


def readable(name):
    """Returns the words of a mangled name: its kernel and its template arguments."""
    words, rest = [], name[2:] if name.startswith("_Z") else name
    while rest:
        length = re.match(r"\d+", rest)
        if length:
            end = length.end() + int(length[0])
            words.append(rest[length.end():end])
            rest = rest[end:]
        else:
            flag = re.match(r"Lb([01])E", rest)
            if flag:
                words.append("true" if flag[1] == "1" else "false")
            rest = rest[flag.end() if flag else 1:]
    kernel = next((i for i, word in enumerate(words) if word.endswith("Kernel")), None)
    if kernel is None:
        return name
    made_for = [w for w in words[kernel + 1:]
                if w in ("true", "false") or w.endswith(("Quantizer", "Lengths"))]
    return words[kernel] + (f"<{', '.join(made_for)}>" if made_for else "")


def kernels_in(report):
    found = []
    for line in report.splitlines():
        if entry := ENTRY.search(line):
            found.append(Kernel(readable(entry[1]), entry[2]))
        elif frame := FRAME.search(line):
            # The frame holds spilled registers and indexed arrays.
            found[-1].local_bytes = max(int(number) for number in frame.groups())
        elif used := REGISTERS.search(line):
            found[-1].registers = int(used[1])
    return found


def compiled(source):
    with tempfile.TemporaryDirectory() as folder:
        command = [NVCC, "-std=c++20", "-O3", f"-I{REPO}", "-DKVTIER_HAVE_CUDA", "-Xptxas", "-v",
                   "-cubin"]
        report = ""
        for architecture in ARCHITECTURES:
            done = subprocess.run(
                [*command, f"-arch=sm_{architecture}", "-o", f"{folder}/out", str(source)],
                capture_output=True, text=True, check=False)
            report += done.stdout + done.stderr
            if done.returncode != 0:
                raise AssertionError(report)
    return kernels_in(report)


@unittest.skipUnless(NVCC, "NOT TESTED: this build found no nvcc")
class Registers(unittest.TestCase):
    def test_no_kernel_uses_local_memory(self):
        for source in sorted((*(REPO / "kernels").glob("*.cu"), *(REPO / "bench").glob("*.cu"))):
            found = compiled(source)
            if source.name in WITHOUT_KERNELS:
                self.assertEqual(found, [], source.name)
                continue
            self.assertEqual({k.architecture for k in found}, set(ARCHITECTURES), source.name)
            for kernel in found:
                print(f"sm_{kernel.architecture} {kernel}")
                with self.subTest(source=source.name, architecture=kernel.architecture):
                    self.assertEqual(kernel.local_bytes, 0, kernel)
                    self.assertLessEqual(kernel.registers, MOST_REGISTERS, kernel)

    def test_a_kernel_that_spills_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder) / "spills.cu"
            source.write_text(SPILLS)
            for kernel in compiled(source):
                self.assertGreater(kernel.local_bytes, 0, kernel)


class Reports(unittest.TestCase):
    def test_a_report_is_read(self):
        kernel, = kernels_in(
            "ptxas info    : Compiling entry function '_Z10CopyKernelPKd' for 'sm_90'\n"
            "    16 bytes stack frame, 24 bytes spill stores, 8 bytes spill loads\n"
            "ptxas info    : Used 40 registers, used 0 barriers\n")
        self.assertEqual((kernel.name, kernel.architecture, kernel.local_bytes, kernel.registers),
                         ("CopyKernel", "90", 24, 40))


if __name__ == "__main__":
    unittest.main()
