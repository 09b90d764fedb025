"""The training step of a linear transformer in tinygrad: see step_torch.py for the formulations. The whole step,
random numbers and Adam included, is one TinyJit."""
import os

from objective import loss_of

os.environ["TRAINING"] = "1"  # or optimizers refuse to step
from tinygrad import Tensor, TinyJit, dtypes, nn

Tensor.training = True


def expand(parameters, form, d):
    if form == "full":
        return parameters
    diagonals = Tensor.cat(parameters[:, :1].expand(-1, d), parameters[:, 1:], dim=1)
    return diagonals.unsqueeze(2) * Tensor.eye(d + 1, dtype=parameters.dtype)


def gram_of(tokens):
    return tokens[:, :-1].transpose(1, 2) @ tokens[:, :-1]


def predict_literal(big_p, big_q, tokens, factor):
    context = tokens.shape[1] - 1
    for layer in range(big_p.shape[0]):
        keys = tokens[:, :context]
        scores = (tokens @ big_q[layer].T) @ keys.transpose(1, 2)
        tokens = tokens + factor * scores @ (keys @ big_p[layer].T)
    return -tokens[:, -1, -1]


def last_layer(p, q, gram, query, factor):
    attended = (gram @ (query @ q.T).unsqueeze(2)).squeeze(2)
    return -(query[:, -1] + factor * (attended @ p[-1]))


def predict_linear(big_p, big_q, tokens, factor):
    for layer in range(big_p.shape[0] - 1):
        update = factor * (big_p[layer] @ gram_of(tokens) @ big_q[layer])
        tokens = tokens + tokens @ update.transpose(1, 2)
    return last_layer(big_p[-1], big_q[-1], gram_of(tokens), tokens[:, -1], factor)


def predict_gram(big_p, big_q, tokens, factor):
    gram, query = gram_of(tokens), tokens[:, -1]
    for layer in range(big_p.shape[0] - 1):
        update = factor * (big_p[layer] @ gram @ big_q[layer])
        query = query + (update @ query.unsqueeze(2)).squeeze(2)
        half = gram + update @ gram
        gram = half + half @ update.transpose(1, 2)
    return last_layer(big_p[-1], big_q[-1], gram, query, factor)


PREDICT = {"literal": predict_literal, "linear": predict_linear, "gram": predict_gram}


def check(formulation, form, p, q, tokens, targets, factor):
    """Loss and gradients in double precision, as numpy arrays."""
    p, q, tokens, targets = (Tensor(array, dtype=dtypes.double) for array in (p, q, tokens, targets))
    loss = loss_of(PREDICT[formulation], expand, form)(p, q, tokens, targets, factor)
    return loss.item(), *(gradient.numpy() for gradient in loss.gradient(p, q))


def sample(batch, n, d):
    x, w = Tensor.randn(batch, n + 1, d), Tensor.randn(batch, d, 1)
    y = (x @ w).squeeze(2)
    noisy = y + Tensor.rand(batch, 1) * Tensor.randn(batch, n + 1)
    shown = Tensor.cat(noisy[:, :-1], Tensor.zeros(batch, 1), dim=1)
    return Tensor.cat(x, shown.unsqueeze(2), dim=2).realize(), y[:, -1].realize()


def make_step(options, shape):
    """A function that takes `count` steps and returns when they are done."""
    Tensor.manual_seed(1)
    p, q = ((0.02 * Tensor.randn(*shape)).realize() for _ in range(2))
    for parameter in (p, q):
        parameter.requires_grad = True  # what versions before 0.14 ask for
    optimizer = nn.optim.Adam([p, q], lr=1e-12)
    loss_function = loss_of(PREDICT[options.formulation], expand, options.form)

    @TinyJit
    def step():
        tokens, targets = sample(options.batch, options.n, options.d)
        optimizer.zero_grad()
        loss = loss_function(p, q, tokens, targets, 1 / options.n)
        loss.backward()
        optimizer.step()
        return loss.realize()

    def run(count):
        for _ in range(count):
            loss = step()
        loss.item()  # waits for the device

    return run
