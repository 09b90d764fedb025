"""Softmax attention in PyTorch: scaled_dot_product_attention, and the three lines that it replaces.

16 sequences, one head of width 64.
"""
import torch

BATCH, WIDTH, SCALE = 16, 64, 0.125


def fused(q, k, v):
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, scale=SCALE)


def plain(q, k, v):
    return torch.softmax(SCALE * torch.matmul(q, k.transpose(-1, -2)), dim=-1) @ v


ATTEND = {"fused": fused, "plain": plain}


def check(formulation, q, k, v, d_out):
    """The output and the three gradients in double precision, as numpy arrays."""
    q, k, v = (torch.tensor(array, requires_grad=True) for array in (q, k, v))
    out = ATTEND[formulation](q, k, v)
    out.backward(torch.tensor(d_out))
    return [out.detach().numpy(), q.grad.numpy(), k.grad.numpy(), v.grad.numpy()]


def make_run(options):
    torch.manual_seed(1)
    attend = torch.compile(ATTEND[options.formulation]) if options.compile else ATTEND[options.formulation]
    shape = (BATCH, 1, options.length, WIDTH)
    q, k, v, d_out = (torch.randn(shape, device=options.torch_device) for _ in range(4))

    def forward(count):
        with torch.inference_mode():
            for _ in range(count):
                attend(q, k, v)

    def both(count):
        for _ in range(count):
            for tensor in (q, k, v):
                tensor.requires_grad_(True)
                tensor.grad = None
            attend(q, k, v).backward(d_out)

    return both if options.backward else forward
