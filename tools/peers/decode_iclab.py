"""Decoding by icl_decoder_step: tokens of a stack of delta rules (decode_torch.py), and bytes of the model of the
recipe `text` (text_torch.py), each the most likely one."""
import iclab_library
import numpy
import settings


def make_run(options):
    return make_writer(options) if options.generate else make_reader(options)


def make_reader(options):
    """A function that decodes the tokens of `count` sequences and returns when they are done."""
    layers, heads, width, batch = settings.DECODE_MODEL
    library = iclab_library.Library(options.library_path, options.formulation)
    recipe = {"family": "sequence", "mixer": "delta", "layers": layers, "heads": heads, "width": width}
    shape = {"positions": 1, "scored": 1, "inputs": settings.COORDINATES + 1, "outputs": 1}
    decoder = iclab_library.Decoder(library, recipe, shape, batch)
    tokens = numpy.random.default_rng(1).standard_normal((options.decode, batch, settings.COORDINATES + 1))
    tokens = [library.upload(token) for token in tokens]

    def run(count):
        for _ in range(count):
            decoder.reset()
            for token in tokens:
                decoder.step(token)
            library.synchronize()

    return run


def make_writer(options):
    """A function that writes `count` texts of options.generate bytes and returns when they are done."""
    heads, width, length, _ = settings.TEXT_MODEL
    mixers = settings.TEXT_MIXERS[options.mixers]
    library = iclab_library.Library(options.library_path, options.formulation)
    recipe = {
        "family": "sequence", "mixer": ",".join(mixers), "layers": len(mixers), "heads": heads, "width": width,
        "convolution": settings.TEXT_CONVOLUTION, "norm": "rms", "feed_forward": "swiglu",
        "feed_forward_factor": settings.TEXT_FACTOR,
    }
    if "softmax" in mixers:
        recipe["window"] = settings.TEXT_WINDOW
    shape = {"positions": length, "scored": length, "outputs": settings.BYTES, "symbols": settings.BYTES}
    decoder = iclab_library.Decoder(library, recipe, shape, 1)
    symbols = [library.upload(numpy.array([byte])) for byte in range(settings.BYTES)]
    logits = numpy.empty(settings.BYTES, numpy.float32)
    address = logits.ctypes.data

    def run(count):
        for _ in range(count):
            decoder.reset()
            byte = 0
            for _ in range(options.generate):
                decoder.step(symbols[byte])
                library.call("icl_tensor_read", decoder.outputs, address)
                byte = int(logits.argmax())

    return run
