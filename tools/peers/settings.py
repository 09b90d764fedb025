"""What every contender is told, on the command line of a worker and of the drivers."""

FORMULATIONS = ("literal", "linear", "gram")


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
