#!/usr/bin/env python3
"""One contender: warms up, says {"ready": true}, then reads numbers of calls from stdin and says how long they took:
what `iclab bench --on-request` does. {"unavailable": "why"} instead where the contender cannot run here. "write FILE"
writes what the last call computed, and "compare FILE" compares with what another contender wrote."""
import argparse
import json
import os
import sys
import time

import settings


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", choices=("torch", "jax", "tinygrad", "iclab"))
    parser.add_argument("formulation", help="of what is computed; with iclab: the device")
    parser.add_argument("--compile", action="store_true", help="with torch: through torch.compile")
    parser.add_argument("--device", help="with tinygrad: CPU, its compiled C, or CL, its OpenCL")
    help_text = "softmax attention over this many tokens instead of a step"
    parser.add_argument("--attention", dest="length", type=int, help=help_text)
    parser.add_argument("--recurrence", choices=settings.RECURRENCES, help="a recurrence of this shape instead")
    parser.add_argument("--rule", choices=settings.RULES, default=settings.RULES[0], help="of the recurrence")
    parser.add_argument("--decoder", choices=settings.DECODERS, help="a training step of this decoder instead")
    parser.add_argument("--decode", type=int, metavar="T", help="T tokens, one after the other, instead")
    parser.add_argument("--generate", type=int, metavar="N", help="N bytes of a language model, one by one, instead")
    parser.add_argument("--text", metavar="FILE", help="a training step of a model of this text instead")
    parser.add_argument("--tables", action="store_true", help="a training step of a model of tables' cells instead")
    help_text = "of the model of a text"
    parser.add_argument("--mixers", choices=settings.TEXT_MIXERS, default="recipe", help=help_text)
    parser.add_argument("--fused-adam", action="store_true", help="of a decoder, a text or tables: the fused Adam")
    parser.add_argument("--bf16", action="store_true", help="with a decoder: under autocast to bfloat16")
    parser.add_argument("--torch-device", default="cpu", help="with torch: where it computes")
    parser.add_argument("--tf32", action="store_true", help="with torch: float32 products may take inputs as TF32")
    parser.add_argument("--graphs", action="store_true", help="with --compile and a step: as CUDA graphs")
    parser.add_argument("--backward", action="store_true", help="attention's or the recurrence's backward pass as well")
    parser.add_argument("--library-path", help="with iclab: its shared library")
    settings.add_step_arguments(parser)
    return parser.parse_args()


def make_run(options):
    # Modules are imported here and no sooner: they need libraries that may be missing.
    if options.length:
        import attention_torch

        return attention_torch.make_run(options)
    if options.recurrence:
        options.shape = settings.RECURRENCES[options.recurrence]
        return __import__(f"recurrence_{options.library}").Run(options)
    if options.decoder:
        import decoder_torch

        return decoder_torch.make_step(options)
    if options.text:
        import text_torch

        return text_torch.make_step(options)
    if options.tables:
        import cells_torch

        return cells_torch.make_step(options)
    if options.generate:
        return __import__("text_torch" if options.library == "torch" else "decode_iclab").make_run(options)
    if options.decode is not None:
        return __import__(f"decode_{options.library}").make_run(options)
    return __import__(f"step_{options.library}").make_step(options, settings.parameter_shape(options))


def write(path, arrays):
    import numpy

    numpy.savez(path, *arrays)


def compare(path, arrays):
    """The largest difference from what is written there, relative to the largest element of each array."""
    import numpy

    with numpy.load(path) as file:
        expected = [file[f"arr_{i}"] for i in range(len(file.files))]
    return max(float(numpy.max(numpy.abs(a - b)) / numpy.max(numpy.abs(b))) for a, b in zip(arrays, expected))


def say(**what):
    print(json.dumps(what), flush=True)


def prepare_torch(options):
    """Says whether PyTorch may use TF32. Returns a function that waits until the device has done what it was asked."""
    if options.library != "torch" or options.torch_device == "cpu":
        return lambda: None
    import torch

    torch.backends.cuda.matmul.allow_tf32 = options.tf32
    return torch.cuda.synchronize


def answer(run, finish, request):
    word, _, path = request.rstrip("\n").partition(" ")
    if word == "write":
        write(path, run.arrays())
        return say(written=True)
    if word == "compare":
        return say(difference=compare(path, run.arrays()))
    start = time.perf_counter()
    run(int(request))
    finish()
    return say(seconds=time.perf_counter() - start)


def main():
    options = read_arguments()
    if options.library == "tinygrad":
        os.environ["DEV"] = options.device
    try:
        finish = prepare_torch(options)
        run = make_run(options)
        run(1)
        run(2)
        finish()
    except Exception as error:  # a library that is missing or cannot compile is no contender, and the session goes on
        say(unavailable=f"{type(error).__name__}: {error}".splitlines()[0])
        return
    say(ready=True)
    for line in sys.stdin:
        answer(run, finish, line)


main()
