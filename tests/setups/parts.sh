#!/usr/bin/env bash
# The parts of tools/check, which reads them: what each builds and runs. A part is a row of `part`; the words behind
# its # are its line of `tools/check --help`, and the order of the rows is theirs. `suite` runs tests of a build,
# `on_opencl` those of an OpenCL device, `tap` a script that prints TAP; all add up what passed. $allow names skips that
# a part expects, $used a device that it must have used.
# shellcheck disable=SC2034,SC2154 # tools/check reads and sets some of these variables

part() { # NAME
    case $1 in
    style) tap tests/house/style.sh ;; # clang-format, shellcheck, pipes of scripts, and lines of at most 120 columns
    pocl) used=$pocl suite "${apart[@]}" ;; # no warning of gcc; the suite, on the host and under PoCL
    install) # what is installed, used from elsewhere; Python's wheel; API reference; cross build
        tap tests/install/installed.sh "$work/default" "$work/installed" "$root" cc
        tap tests/install/wheel.sh "$work/default" "$root" "$work/wheel"
        tap tests/install/cross.sh "$work/default" "$work/cross" ;;
    no-driver) allow=$no_device on_opencl . --setup no_opencl ;; # device tests on a system without any OpenCL driver
    perturbed) # tests of the library, on the host, whose ops round otherwise by a seed, no AVX
        perturbed 1 base --no-suite tools --no-suite reproduce ;;
    subproject) # another project builds from the archive of meson dist what it has as a subproject
        tap tests/install/subproject.sh "$work/default" "$root" "$work/parent" ;;
    no-opencl) allow=$no_device suite --setup sanitized ;; # the suite by clang, with sanitizers, no OpenCL; fuzzing
    tidy) # no warning of clang; clang-tidy over every C file, without its analyzer
        tap tests/house/tidy.sh "$work/default" '-checks=-clang-analyzer-*'
        tap tests/house/clang_warnings.py "$work/default" ;;
    elsewhere) # every C file compiled for macOS, aarch64 and musl, where library and command are linked, to stubs
        await_libraries
        tap tests/install/elsewhere.sh "$work/elsewhere" "$work/python/bin/python" ;;
    scalar) # every op in plain C without vector types has the bits of vector code
        tap tests/backend/scalar_bits.sh "$work/default" "$work/scalar" ;;
    rusticl) # tests of ops, of one model and of task data on Mesa's rusticl, with the kernels of GPUs
        used=rusticl on_opencl "$ops" --setup rusticl --timeout-multiplier 10 ;;
    gpu-short) # every program in every form, compiled for a GPU of each vendor or of one: limits, strict arithmetic
        tap tests/gpu/check.sh "$work/default" "$work/gpu" --short --jobs "$jobs" ;;
    small-gpu) # PoCL as a small GPU: groups of 64, 16 KiB, no fused multiply-adds
        used='Small GPU' suite --setup small_gpu "${limited[@]}" "opencl kernels gpu" ;;
    browser) tools/packages --browser && suite --suite browser ;; # reports in Chromium, three widths, light and dark
    bundle) # the archive of tools/bundle, used in a bare root; a minute of gpu-report there on PoCL
        tap tests/install/bundle.sh "$archive" "$root" cc
        tap tests/install/dry_report.sh "$archive" "$root" pocl 1 "$work/reports" ;;
    oclgrind) # after a change of kernels: all of them in Oclgrind: races, bounds, uninitialised memory
        used=Oclgrind suite --setup oclgrind --test-args=1 "opencl kernels cpu" "opencl kernels gpu" ;;
    deep) used=$pocl suite --suite deep ;; # tests of a minute; faults in kernels, allocations and files
    faults-reproduce) suite --suite faults-reproduce ;; # allocations and ops of reproductions fail once, by their way
    analyze) tap tests/house/tidy.sh "$work/default" ;; # clang-tidy with its analyzer over every C file
    gpu-compile) # every program in every form, compiled for more GPUs of AMD, NVIDIA and Intel
        tap tests/gpu/check.sh "$work/default" "$work/gpu" --jobs "$jobs" ;;
    rusticl-more) # what rusticl has left out, but for training runs: llvmpipe needs a hundred times a CPU's time
        used=rusticl except="$ops|^(trainer|mishaps|agreement|run-folder|sequence decode) |cpu$|^conf.* at random$" \
            on_opencl . --setup rusticl --timeout-multiplier 10 ;;
    oclgrind-more) # two cases of each, and work-groups of random sizes
        used=Oclgrind suite --setup oclgrind --suite oclgrind ;;
    scalar-more) # the suite in plain C without vector types
        allow=$no_device suite --setup no_opencl "${apart[@]}" ;;
    flush) # PoCL as a GPU that flushes subnormals to zero
        used='Flushing GPU' suite --setup flush "${limited[@]}" "conformance opencl_pocl" ;;
    small-gpu-more) # every case of every op on the small GPU
        used='Small GPU' suite --setup small_gpu "conformance opencl_pocl" ;;
    intel) # device tests on Intel's CPU runtime, from PyPI
        tap tests/setups/intel.sh "$work/intel"
        # Meson has freed memory overwritten, and this compiler reads what it freed (src/backend/opencl/program.c).
        OCL_ICD_VENDORS=$work/intel/vendors ICLAB_TEST_OPENCL=opencl:Intel ICLAB_TEST_LENGTH=1024 MALLOC_PERTURB_=0 \
            used=Intel on_opencl . --timeout-multiplier 10 ;;
    hostile) # the sanitized command on reproductions and on damaged run folders and sweeps; every fuzz target
        allow=$no_device suite --setup sanitized --suite reproduce
        tap tests/tools/hostile.py "$work/no-opencl/tools/iclab" tools/recipes 200 1
        suite --suite fuzz --test-args=-max_total_time=10 ;;
    dry-reports) # the whole of gpu-report from the archive, in seven minutes each on PoCL and rusticl
        tap tests/install/dry_report.sh "$archive" "$root" pocl 7 "$work/reports"
        tap tests/install/dry_report.sh "$archive" "$root" rusticl 7 "$work/reports" ;;
    perturbed-more) # the rest of it; all by two other seeds; without AVX, and without AVX-512, rounding as ever
        perturbed 1 base --suite tools --suite reproduce --no-suite bits
        perturbed 2 avx2
        perturbed 3 avx512
        ICLAB_PERTURB_ISA=base allow=$no_device suite --setup no_opencl "${apart[@]}"
        ICLAB_PERTURB_ISA=avx2 allow=$no_device suite --setup no_opencl "${apart[@]}" ;;
    seeds) # every reproduction at scale short by three fresh seeds, hours: in how many of them each target is met
        tap tests/papers/seeds.py "$work/default/tools/iclab" short "$work/seeds" ;;
    sanitize) used=$pocl on_opencl . --timeout-multiplier 10 ;; # the OpenCL host code with AddressSanitizer and UBSan
    esac
}

# build_for PART: into $folder. The build of most parts rounds as ever where ICLAB_PERTURB is not set. Commands whose
# kernels are wrong take a minute to build: only `deep` wants them. Two of UBSan's checks made the tests take four times
# as long and are left out: pointers that leave an object, which AddressSanitizer sees when they are used, and
# alignment, which vector instructions see for themselves.
build_for() {
    targets=()
    local sanitizers=("-Db_sanitize=address,undefined" -Db_lundef=false) faulty=false
    folder=$work/default
    case $1 in
    style | elsewhere) ;;
    bundle | dry-reports)
        rm -rf "$work/bundle"
        tap tests/install/make_bundle.sh "$work/bundle"
        archive=$(readlink "$work/bundle/made") ;;
    no-opencl | hostile)
        CC=clang-14 build no-opencl -Dopencl=disabled -Dmpi=disabled -Dfuzz=enabled "${sanitizers[@]}" \
            "-Dc_args=-fno-sanitize=pointer-overflow,alignment -ftrivial-auto-var-init=pattern" ;;
    scalar | scalar-more)
        build default -Dprefix="$work/installed" -Dperturbed=true -Dfaulty_kernels=false || return 1
        [[ $1 != scalar ]] || targets=(tests/backend/test-host-bits) # all that this part runs
        build scalar -Dscalar=true -Dopencl=disabled -Dmpi=disabled ;;
    sanitize) build sanitize "${sanitizers[@]}" -Dbuildtype=debugoptimized ;;
    *)
        [[ $1 != deep ]] || faulty=true
        build default -Dprefix="$work/installed" -Dperturbed=true -Dfaulty_kernels=$faulty ;;
    esac
}

# Several parts use these: suites that run only in a part of their own; tests whose bounds and bits a GPU's limits could
# break, but for every case of every op; tests of ops, of a model and of task data.
apart=(--no-suite deep --no-suite faults-reproduce --no-suite browser)
limited=(opencl "model fused opencl_pocl" "long attention opencl_pocl" "task bits opencl_pocl"
    "task gram bits opencl_pocl" "task function classes opencl_pocl" "conformance opencl gpu recurrence by chunks"
    "fused spaces opencl gpu")
ops='^(conformance opencl(_pocl| gpu recurrence.*)|opencl( limits| kernels gpu)?|(task|recurrence) .*|(dispatch|strides'
ops+='|boundaries|peak|tape|gradients|long attention|ridge solve|model (linear transformer|fused)) opencl_pocl)$'
pocl='Portable Computing Language'
no_device='no (OpenCL (device|driver)|PoCL here)'
