"""What every contender is told, on the command line of a worker and of the drivers."""
import os

FORMULATIONS = ("literal", "linear", "gram")

# Recurrences with a matrix state: batch, heads, tokens, width of keys and values.
RECURRENCES = {"S1": (32, 4, 64, 16), "S2": (32, 4, 256, 32), "S3": (8, 8, 1024, 64), "S4": (2, 8, 4096, 64)}
RULES = ("gated-delta", "sum", "kda", "rwkv7")
CHANNEL_RULES = ("kda", "rwkv7")  # a decay for each channel

# GPT-style models: layers, heads, width, tokens, batch.
DECODERS = {
    "garg-small": (3, 2, 64, 82, 64),
    "raventos": (4, 2, 64, 32, 256),
    "mid": (6, 4, 128, 82, 64),
    "garg": (12, 8, 256, 82, 64),
    "wide": (4, 8, 512, 82, 64),
}
COORDINATES = 20  # of x, in the regression that the decoders learn
DECODE_MODEL = (3, 2, 64, 1)  # layers, heads, width, sequences at once

# The recipe `text`: heads, width, tokens, batch; the convolution, the feed-forward part over the width, and how many
# positions softmax attention sees; the mixers of its layers, and of others of its size, each written so in PyTorch.
TEXT_MODEL = (2, 128, 1024, 4)
TEXT_CONVOLUTION, TEXT_FACTOR, TEXT_WINDOW = 4, 3, 256
BYTES = 256
TEXT_MIXERS = {
    "recipe": ("gated-delta", "gated-delta", "gated-delta", "softmax"),
    "gated-delta": ("gated-delta",) * 4,
    "softmax": ("softmax",) * 4,
}
TEXT_FORMULATIONS = {"recipe": ("chunk16", "chunk32"), "gated-delta": ("chunk16", "chunk32"), "softmax": ("blocks",)}

# The recipe `tables-cells`: layers, heads, width, hidden numbers and outputs; tables of a batch, their rows and their
# features; the fewest and the most labelled rows.
TABLE_MODEL = (3, 4, 96, 192, 100)
TABLE_BATCH = (32, 150, 5)
TABLE_LEAST, TABLE_MOST = 8, 118
TABLE_FORMULATIONS = ("masked", "split")


def add_step_arguments(parser):
    parser.add_argument("--d", type=int, default=20, help="dimension of x")
    parser.add_argument("--n", type=int, default=20, help="labelled pairs in the context")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--batch", type=int, default=2048)
    parser.add_argument(
        "--at-once", type=int, metavar="N",
        help="PyTorch takes N sequences at a time and adds the gradients, so that long contexts fit into memory "
        "(default: the whole batch)",
    )
    parser.add_argument("--form", choices=("full", "diag"), default="full", help="which entries of P and Q are trained")


def step_arguments(options):
    return [
        f"--{name}={getattr(options, name)}"
        for name in ("d", "n", "layers", "batch", "form")
    ] + ([f"--at-once={options.at_once}"] if options.at_once else [])


def parameter_shape(options):
    """Of P and of Q, each."""
    big_d = options.d + 1
    return (options.layers, big_d, big_d) if options.form == "full" else (options.layers, 2)


def keep_to(threads):
    """This process and those that it starts may use `threads` processors, and count them as the machine's; 0: all."""
    if not threads:
        return
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "POCL_CPU_MAX_CU_COUNT", "POCL_MAX_PTHREAD_COUNT"):
        os.environ[name] = str(threads)
