"""Decoding with a stack of delta rules by icl_decoder_step: see decode_torch.py."""
import iclab_library
import numpy
import settings


def make_run(options):
    """A function that decodes the tokens of `count` sequences and returns when they are done."""
    layers, heads, width, batch = settings.DECODE_MODEL
    library = iclab_library.Library(options.library_path, options.formulation)
    recipe = {"family": "sequence", "mixer": "delta", "layers": layers, "heads": heads, "width": width}
    decoder = iclab_library.Decoder(library, recipe, settings.COORDINATES + 1, batch)
    tokens = numpy.random.default_rng(1).standard_normal((options.decode, batch, settings.COORDINATES + 1))
    tokens = [library.upload(token) for token in tokens]

    def run(count):
        for _ in range(count):
            decoder.reset()
            for token in tokens:
                decoder.step(token)
            library.synchronize()

    return run
