"""What the step trains for, the same with every library: it is written with the tensors' own operators."""


def loss_of(predict, expand, form):
    """The mean squared error of `predict`, from the parameters that `form` trains."""

    def loss(p, q, tokens, targets, factor):
        d = tokens.shape[2] - 1
        predictions = predict(expand(p, form, d), expand(q, form, d), tokens, factor)
        return ((predictions - targets) ** 2).mean()

    return loss
