#!/usr/bin/env python3
"""One contender: warms up, says {"ready": true}, then reads numbers of calls from stdin and says how long they took:
what `iclab bench --on-request` does. {"unavailable": "why"} instead where the contender cannot run here."""
import argparse
import json
import sys
import time

import settings


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", choices=("torch", "jax"))
    parser.add_argument("formulation", help="of the step, or of attention")
    parser.add_argument("--compile", action="store_true", help="with torch: through torch.compile")
    help_text = "softmax attention over this many tokens instead of a step"
    parser.add_argument("--attention", dest="length", type=int, help=help_text)
    parser.add_argument("--backward", action="store_true", help="attention's backward pass as well")
    settings.add_step_arguments(parser)
    return parser.parse_args()


def make_run(options):
    if options.length:
        import attention_torch

        return attention_torch.make_run(options)
    if options.library == "torch":
        import step_torch

        return step_torch.make_step(options, settings.parameter_shape(options))
    import step_jax

    return step_jax.make_step(options, settings.parameter_shape(options))


def say(**what):
    print(json.dumps(what), flush=True)


def main():
    options = read_arguments()
    try:
        run = make_run(options)
        run(1)
        run(2)
    except Exception as error:  # a library that is missing or cannot compile is no contender, and the session goes on
        say(unavailable=f"{type(error).__name__}: {error}".splitlines()[0])
        return
    say(ready=True)
    for line in sys.stdin:
        start = time.perf_counter()
        run(int(line))
        say(seconds=time.perf_counter() - start)


main()
