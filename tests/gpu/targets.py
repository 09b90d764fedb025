"""
Offline compilers for GPUs: what each makes of a program, and how much of a device it leaves free.

A target compiles one text with one set of options, and reads from the compiler's own output for each kernel: registers,
private memory (bytes of stack for each work-item), spilled registers, local memory (bytes for each work-group),
work-items of a group, and the fused multiply-adds of strict kernels, from the machine code.
"""
import os
import pathlib
import re
import shlex
import shutil
import struct
import subprocess

GROUP = 64  # work-items of a kernel that does not say how many it wants: local_size of every launch


class Failed(Exception):
    """A compiler refused; the text is its message."""


class Figures:
    """Of one kernel on one target. parked: scalar registers that AMD's compiler keeps in lanes of vector registers,
    which takes instructions but no memory. waves: hardware threads at a time, in percent of what a device can hold."""

    def __init__(self, **given):
        self.registers = self.stack = self.spills = self.parked = self.local = self.waves = 0
        self.group = GROUP
        self.simd = 0
        self.contracted = []
        self.__dict__.update(given)


def run(command, environment=None):
    done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, env=environment, text=True, errors="replace", check=False)
    if done.returncode:
        name = pathlib.Path(str(command[0])).name
        raise Failed(f"{name} ended with {done.returncode}: {done.stdout.strip()[:1500]}")
    return done.stdout


def demand_code(unread):
    """A strict kernel is judged by its machine code, from which the end was read."""
    if unread:
        raise Failed(f"the machine code of {', '.join(sorted(unread))} could not be read")


def round_up(value, step):
    return -(-value // step) * step


def clang_command(clang, target, text, options, output):
    """What clang adds to OpenCL C 1.2 is an error: NVIDIA's driver refuses macros with `...`, which clang takes."""
    return [clang, *target, "-x", "cl", "-Xclang", "-finclude-default-header", "-Wno-linker-warnings",
            "-Werror=pedantic", *shlex.split(options), "-o", output, text]


class Target:
    """One device. `needs` names the tools that it takes from Tools."""
    needs = ()
    device = None  # as forms.c names kinds of devices

    def __init__(self, name, tools):
        self.name = name
        self.tools = tools

    def missing(self):
        """Why it cannot compile here, or None."""
        return next((f"{need}: {self.tools.why(need)}" for need in self.needs if not self.tools.find(need)), None)


class Amd(Target):
    """clang's own machine code and figures. Resources: documents of CDNA 2, CDNA 3, RDNA 3; LLVM's GCNSubtarget."""
    needs = ("clang-19", "libclc-19")
    device = property(lambda self: f"wave{self.RESOURCES[self.name][6]}")
    # Of a compute unit (gfx11: of a work-group processor, of 32-wide waves): SIMDs, waves of one, registers of a lane
    # and their step, bytes of local memory and their step, work-items of a wave.
    RESOURCES = {"gfx90a": (4, 8, 512, 8, 65536, 512, 64), "gfx942": (4, 8, 512, 8, 65536, 512, 64),
                 "gfx1100": (4, 16, 1536, 24, 131072, 1024, 32)}
    FUSED = re.compile(r"\bv_(?:pk_|dual_)?(?:fma|mac|mad|fmac|madmk|madak|fmaak|fmamk)"
                       r"(?:_mix\w*)?(?:_legacy)?_f(?:16|32)")

    def compile(self, text, options, folder, strict):
        output = folder / "out.s"
        library = self.tools.find("libclc-19") / "amdgcn--amdhsa.bc"
        target = ["-target", "amdgcn-amd-amdhsa", f"-mcpu={self.name}", "-nogpulib", "-O3", "-S",
                  "-Xclang", "-mlink-bitcode-file", "-Xclang", library]
        run(clang_command(self.tools.find("clang-19"), target, text, options, output))
        assembly = output.read_text()
        code, metadata = assembly.split("\t.amdgpu_metadata", 1)
        kernels = {}
        for entry in re.split(r"^  - (?=\.)", metadata, flags=re.M)[1:]:
            value = {key: int(number) for key, number in re.findall(r"^    \.(\w+): +(\d+)$", entry, re.M)}
            name = re.search(r"^    \.name: +(\w+)$", entry, re.M).group(1)
            group = re.search(r"^    \.reqd_workgroup_size:\s*\n((?:      - \d+\n)+)", entry, re.M)
            items = [int(number) for number in re.findall(r"\d+", group.group(1))] if group else [GROUP]
            kernels[name] = Figures(registers=value["vgpr_count"], stack=value["private_segment_fixed_size"],
                                    spills=value["vgpr_spill_count"], parked=value["sgpr_spill_count"],
                                    local=value["group_segment_fixed_size"], group=items[0] * (items[1:2] or [1])[0])
        self.read_code(code, kernels, strict)
        return kernels

    def read_code(self, code, kernels, strict):
        """A function that is not inlined counts for every strict kernel: any of them may call it."""
        function, seen = None, set()
        for line in code.splitlines():
            label = re.match(r"([A-Za-z_]\w*):", line)
            if label:
                function = label.group(1)
            elif "s_endpgm" in line:
                seen.add(function)
            elif function and self.FUSED.search(line):
                for name in strict if function not in kernels else {function} & set(strict):
                    if name in kernels:
                        kernels[name].contracted.append(line.split(";")[0].strip())
        demand_code(set(strict) & set(kernels) - seen)

    def waves(self, kernel):
        simds, most, registers, step, local, local_step, wide = self.RESOURCES[self.name]
        wave_count = -(-kernel.group // wide)
        by_registers = simds * min(most, registers // round_up(max(kernel.registers, 1), step))
        groups = by_registers // wave_count
        if kernel.local:
            groups = min(groups, local // round_up(kernel.local, local_step))
        return 100 * groups * wave_count // (simds * most)


class Nvidia(Target):
    """clang's PTX, NVIDIA's assembler and disassembler. Resources: CUDA C++ Programming Guide, specifications of each
    compute capability."""
    needs = ("clang-19", "libclc-19", "ptxas", "nvdisasm")
    device = property(lambda self: self.name)
    # Of a multiprocessor: warps, groups, bytes of local memory, and of them taken from each group by the system.
    RESOURCES = {"sm_75": (32, 16, 65536, 0), "sm_90": (64, 32, 233472, 1024)}
    FUSED = re.compile(r"\bFFMA2?\b")

    def compile(self, text, options, folder, strict):
        ptx, binary = folder / "out.ptx", folder / "out.cubin"
        library = self.tools.find("libclc-19") / "nvptx64--nvidiacl.bc"
        target = ["-target", "nvptx64-nvidia-nvcl", f"-march={self.name}", "-nocudalib", "-O3", "-S",
                  "-Xclang", "-target-feature", "-Xclang", "+ptx80",
                  "-Xclang", "-mlink-bitcode-file", "-Xclang", library]
        most = re.findall(r"-cl-nv-maxrregcount=(\d+)", options)  # NVIDIA's driver gives it to the assembler
        options = re.sub(r"-cl-nv-\S+", "", options)
        run(clang_command(self.tools.find("clang-19"), target, text, options, ptx))
        most = [f"-maxrregcount={number}" for number in most]
        log = run([self.tools.find("ptxas"), f"-arch={self.name}", "-v", *most, ptx, "-o", binary])
        groups = {name: int(x) * int(y or 1) for name, x, y in
                  re.findall(r"\.entry (\w+)\([^)]*\)[^{]*?\.reqntid (\d+)(?:, (\d+))?", ptx.read_text())}
        kernels = {}
        for name, entry in re.findall(r"Compiling entry function '(\w+)'.*\n((?:(?!ptxas info +: Compiling).*\n)*)",
                                      log):
            def figure(pattern, entry=entry):
                found = re.search(pattern, entry)
                return int(found.group(1)) if found else 0
            kernels[name] = Figures(registers=figure(r"Used (\d+) registers"), stack=figure(r"(\d+) bytes stack frame"),
                                    spills=figure(r"(\d+) bytes spill stores"), local=figure(r"(\d+) bytes smem"),
                                    group=groups.get(name, GROUP))
        if set(strict) & set(kernels):
            self.read_code(run([self.tools.find("nvdisasm"), "-c", binary]), kernels, strict)
        return kernels

    def read_code(self, code, kernels, strict):
        seen = set()
        for name, section in re.findall(r"^\s*\.section\s+\.text\.(\w+),.*\n((?:(?!\s*\.section\s).*\n)*)", code, re.M):
            fused = [line.split("*/")[-1].strip() for line in section.splitlines() if self.FUSED.search(line)]
            seen |= {name} if "EXIT" in section else set()
            for kernel in strict if name not in kernels else {name} & set(strict):
                if kernel in kernels:
                    kernels[kernel].contracted += fused
        demand_code(set(strict) & set(kernels) - seen)

    def waves(self, kernel):
        most, most_groups, local, taken = self.RESOURCES[self.name]
        wave_count = -(-kernel.group // 32)
        by_registers = 4 * (16384 // round_up(max(kernel.registers, 1) * 32, 256))  # four parts of 16,384 registers
        by_memory = local // max(1, round_up(kernel.local, 128) + taken)
        groups = min(most_groups, min(most, by_registers) // wave_count, by_memory)
        return 100 * groups * wave_count // most


class Intel(Target):
    """Intel's offline compiler, the one of its driver. Resources: Intel's GPU occupancy calculator (oneAPI samples)."""
    needs = ("ocloc", "iga64")
    device = "wave32"
    # Of a subslice (an Xe core): threads, bytes of local memory, its sizes for a group in KiB, barriers; the
    # disassembler's name of the platform.
    RESOURCES = {"skl": (56, 65536, (0, 1, 2, 4, 8, 16, 32, 64), 16, "9"),
                 "dg2": (128, 131072, (0, 1, 2, 4, 8, 16, 32, 64), 32, "12p71")}

    def compile(self, text, options, folder, strict):
        ocloc = self.tools.find("ocloc")
        libraries = str(ocloc.parent.parent / "lib" / "x86_64-linux-gnu")
        run([ocloc, "compile", "-file", text, "-device", self.name, "-internal_options", "-cl-intel-allow-zebin",
             "-options", options, "-out_dir", folder / "out"], {**os.environ, "LD_LIBRARY_PATH": libraries})
        sections = elf_sections(next((folder / "out").glob("*.bin")).read_bytes())
        kernels = {}
        information = sections[".ze_info"].decode().split("\nkernels_misc_info:")[0]
        for entry in re.split(r"^  - name: +", information, flags=re.M)[1:]:
            name = entry.split("\n", 1)[0].strip()
            if f".text.{name}" not in sections:
                continue
            kernels[name] = self.figures_of(entry)
            if name in strict:
                kernels[name].contracted = self.read_code(sections[f".text.{name}"], folder / name)
        return kernels

    @staticmethod
    def figures_of(entry):
        def figure(pattern):
            found = re.search(pattern, entry)
            return int(found.group(1)) if found else 0
        group = re.search(r"required_work_group_size: \[ (\d+), (\d+)", entry)
        simd = figure(r"simd_size: +(\d+)")
        # What is private, or private and spilled together (single_space), of a work-item or of a thread.
        memory = [(usage, int(size) // (1 if "is_simt_thread" in rest else simd)) for usage, size, rest in
                  re.findall(r"usage: +(\w+)\s+size: +(\d+)((?:\s+(?!-)\w+: +\w+)*)", entry)]
        return Figures(registers=figure(r"grf_count: +(\d+)"), local=figure(r"slm_size: +(\d+)"), simd=simd,
                       stack=sum(size for usage, size in memory if usage != "spill_fill_space"),
                       spills=sum(size for usage, size in memory if usage == "spill_fill_space"),
                       group=int(group.group(1)) * int(group.group(2)) if group else GROUP)

    def read_code(self, code, path):
        """Multiply-adds of floats. Emulated integer division has its own, and rounds toward zero as long: the mode
        (bits 4 and 5 of cr0) is switched before and after, so that what a kernel's text asks for, which rounds to
        nearest, is never among them."""
        path.write_bytes(code)
        fused, toward_zero, ended = [], False, False
        for line in run([self.tools.find("iga64"), "-d", f"-p={self.RESOURCES[self.name][4]}", path]).splitlines():
            if re.search(r"\bxor \(1\|M0\) +cr0\.0<1>:ud +cr0\.0<0;1,0>:ud +0x30:", line):
                toward_zero = not toward_zero
            elif re.search(r"\bsend.*\bEOT\b", line):
                ended = True
            elif re.search(r"\b(?:mad|madm|mac) \(.*?\) +\S+:h?f\b", line) and not toward_zero:
                fused.append(" ".join(line.split()))
        demand_code(() if ended and not toward_zero else [path.name])
        return fused

    def waves(self, kernel):
        threads, local, sizes, barriers, _ = self.RESOURCES[self.name]
        wave_count = -(-kernel.group // kernel.simd)
        groups = threads // wave_count if kernel.registers <= 128 else threads // 2 // wave_count
        if kernel.local:
            size = next((size for size in sizes if size * 1024 >= kernel.local), 64) * 1024
            groups = min(groups, barriers, local // size)
        return 100 * groups * wave_count // threads


class Spirv(Target):
    """The portable form that many drivers take: it must be valid, and forbid contraction in strict kernels."""
    needs = ("clang-14", "llvm-spirv-14", "spirv-val")

    def compile(self, text, options, folder, strict):
        bitcode, module = folder / "out.bc", folder / "out.spv"
        target = ["-target", "spir64-unknown-unknown", "-O0", "-emit-llvm", "-c"]
        run(clang_command(self.tools.find("clang-14"), target, text, options, bitcode))
        run([self.tools.find("llvm-spirv-14"), "--spirv-max-version=1.0", bitcode, "-o", module])
        run([self.tools.find("spirv-val"), "--target-env", "opencl1.2", module])
        contraction_off, names, contents, function = set(), {}, {}, 0
        for code, words in instructions(module.read_bytes()):
            if code == 15:  # OpEntryPoint: model, function, name
                names[struct.pack(f"<{len(words) - 2}I", *words[2:]).split(b"\0")[0].decode()] = words[1]
            elif code == 16 and words[1] == 31:  # OpExecutionMode: function, ContractionOff
                contraction_off.add(words[0])
            elif code == 54:  # OpFunction: type, function
                function = words[1]
                contents[function] = (set(), set())
            elif function:
                contents[function][0].add(code)
                if code == 57:  # OpFunctionCall: type, result, function
                    contents[function][1].add(words[2])
        contracts = {name for name, function in names.items()
                     if name in strict and function not in contraction_off and can_contract(function, contents)}
        return {name: Figures(contracted=["no ContractionOff"] if name in contracts else []) for name in names}

    @staticmethod
    def waves(_):
        return 0


def can_contract(function, contents):
    """Whether a function and those that it calls multiply and add: the mode is only written where they do."""
    codes, waiting, seen = set(), [function], set()
    while waiting:
        one = waiting.pop()
        if one not in seen and one in contents:
            seen.add(one)
            codes |= contents[one][0]
            waiting += contents[one][1]
    return 133 in codes and bool({129, 131} & codes)  # OpFMul, OpFAdd, OpFSub


def instructions(module):
    """Of a SPIR-V module: code and operands, behind a header of five words."""
    words = struct.unpack(f"<{len(module) // 4}I", module)
    at = 5
    while at < len(words):
        length = words[at] >> 16
        yield words[at] & 0xFFFF, words[at + 1:at + length]
        at += length


def elf_sections(data):
    """Name to contents, of a 64-bit little-endian ELF file."""
    start, = struct.unpack_from("<Q", data, 0x28)
    size, count, names = struct.unpack_from("<HHH", data, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", data, start + i * size) for i in range(count)]
    table = headers[names][4]
    return {data[table + name:data.index(b"\0", table + name)].decode(): data[offset:offset + length]
            for name, _, _, _, offset, length in headers}


class Tools:
    """Where the compilers are: on PATH, or in the folder that compilers.sh filled."""

    def __init__(self, folder):
        fetched = pathlib.Path(folder)
        self.fetched = {"libclc-19": fetched / "debian/usr/lib/clc", "ocloc": fetched / "debian/usr/bin/ocloc"}
        for name in ("ptxas", "nvdisasm"):
            places = fetched.glob(f"python/lib/python3*/site-packages/nvidia/*/bin/{name}")
            self.fetched[name] = next(places, fetched / name)

    def find(self, name):
        if name in self.fetched:
            return self.fetched[name] if self.fetched[name].exists() else None
        path = shutil.which(name)
        return pathlib.Path(path) if path else None

    def why(self, name):
        return "not fetched" if name in self.fetched else "not installed"


def all_targets(tools):
    return [*(Amd(name, tools) for name in Amd.RESOURCES), *(Nvidia(name, tools) for name in Nvidia.RESOURCES),
            *(Intel(name, tools) for name in Intel.RESOURCES), Spirv("spirv", tools)]


SHORT = ("gfx942", "sm_90", "dg2")  # one of each vendor, the newest
