"""A recurrence with a matrix state by icl_recurrence_forward and icl_recurrence_backward: see recurrence_data.py."""
import iclab_library
import recurrence_data


class Run:
    def __init__(self, options):
        library = iclab_library.Library(options.library_path, options.formulation)
        inputs, d_out = recurrence_data.make(options.rule, options.shape)
        scale, names = recurrence_data.scale_of(options.shape), recurrence_data.NAMES[options.rule]
        self.call = iclab_library.Recurrence(library, options.rule, scale, dict(zip(names, inputs)), d_out)
        self.library, self.backward = library, options.backward

    def __call__(self, count):
        for _ in range(count):
            self.call.forward(self.backward)
            if self.backward:
                self.call.backward()
        self.library.synchronize()

    def arrays(self):
        return self.call.arrays(self.backward)
