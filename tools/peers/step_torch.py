"""The training step of a linear transformer in PyTorch, written three ways.

Tokens are rows e_i = (x_i, y_i), Z [B, n + 1, D]; the query comes last, carries y = 0 and is nobody's key. One layer is

    e_i <- e_i + c P (sum over the context of e_j e_j^T) Q e_i,  c = 1/n,  prediction = -(last coordinate of the query)

    literal  as the papers and their code have it: scores Z Q Z^T of all tokens first, then scores times values
    linear   the same sums in the cheap order: the D x D matrix of the context first; of the last layer the query alone
    gram     nothing but that matrix and the query is carried from layer to layer
"""
import torch
from objective import loss_of


def expand(parameters, form, d):
    """[L, D, D] from what is trained."""
    if form == "full":
        return parameters
    return torch.diag_embed(torch.cat((parameters[:, :1].expand(-1, d), parameters[:, 1:]), dim=1))


def predict_literal(big_p, big_q, tokens, factor):
    mask = torch.ones(tokens.shape[1], dtype=tokens.dtype, device=tokens.device)
    mask[-1] = 0
    for p, q in zip(big_p, big_q):
        scores = torch.einsum("bjd,de,bie->bij", tokens, q, tokens) * mask
        values = torch.einsum("de,bje->bjd", p, tokens)
        tokens = tokens + factor * torch.einsum("bij,bjd->bid", scores, values)
    return -tokens[:, -1, -1]


def last_layer(p, q, gram, query, factor):
    attended = torch.bmm(gram, (query @ q.T).unsqueeze(2)).squeeze(2)
    return -(query[:, -1] + factor * (attended @ p[-1]))


def predict_linear(big_p, big_q, tokens, factor):
    for p, q in zip(big_p[:-1], big_q[:-1]):
        context = tokens[:, :-1]
        gram = torch.bmm(context.transpose(1, 2), context)
        update = factor * (p @ gram @ q)
        tokens = torch.baddbmm(tokens, tokens, update.transpose(1, 2))
    context = tokens[:, :-1]
    return last_layer(big_p[-1], big_q[-1], torch.bmm(context.transpose(1, 2), context), tokens[:, -1], factor)


def predict_gram(big_p, big_q, tokens, factor):
    context, query = tokens[:, :-1], tokens[:, -1]
    gram = torch.bmm(context.transpose(1, 2), context)
    for p, q in zip(big_p[:-1], big_q[:-1]):
        update = factor * (p @ gram @ q)
        query = query + torch.bmm(update, query.unsqueeze(2)).squeeze(2)
        half = torch.baddbmm(gram, update, gram)
        gram = torch.baddbmm(half, half, update.transpose(1, 2))
    return last_layer(big_p[-1], big_q[-1], gram, query, factor)


PREDICT = {"literal": predict_literal, "linear": predict_linear, "gram": predict_gram}


def check(formulation, form, p, q, tokens, targets, factor):
    """Loss and gradients in double precision, as numpy arrays."""
    p, q = (torch.tensor(array, requires_grad=True) for array in (p, q))
    loss = loss_of(PREDICT[formulation], expand, form)(p, q, torch.tensor(tokens), torch.tensor(targets), factor)
    loss.backward()
    return loss.item(), p.grad.numpy(), q.grad.numpy()


def sample(batch, n, d, device):
    """Noisy linear regression: w and x standard normal, the noise level uniform on [0, 1]."""
    x, w = torch.randn(batch, n + 1, d, device=device), torch.randn(batch, d, 1, device=device)
    y = torch.bmm(x, w).squeeze(2)
    targets = y[:, -1].clone()
    y += torch.rand(batch, 1, device=device) * torch.randn(batch, n + 1, device=device)
    y[:, -1] = 0
    return torch.cat((x, y.unsqueeze(2)), dim=2), targets


def make_step(options, shape):
    """A function that takes `count` steps and returns when they are done."""
    torch.manual_seed(1)
    p, q = (torch.nn.Parameter(0.02 * torch.randn(shape, device=options.torch_device)) for _ in range(2))
    # As for iclab: a rate so small that a long session does not diverge.
    try:
        optimizer = torch.optim.Adam((p, q), lr=1e-12, fused=True)
    except RuntimeError:  # before 2.4 only on CUDA
        optimizer = torch.optim.Adam((p, q), lr=1e-12)
    loss_function = loss_of(PREDICT[options.formulation], expand, options.form)
    at_once = options.at_once or options.batch
    if options.compile:
        loss_function = torch.compile(loss_function, mode="reduce-overhead" if options.graphs else None)

    def run(count):
        for _ in range(count):
            tokens, targets = sample(options.batch, options.n, options.d, options.torch_device)
            optimizer.zero_grad(set_to_none=True)
            for part, part_targets in zip(tokens.split(at_once), targets.split(at_once)):
                share = part.shape[0] / options.batch
                (share * loss_function(p, q, part, part_targets, 1 / options.n)).backward()
            optimizer.step()

    return run
