/* Two toys of how circuits of several parts are learned: three vectors must all be right before any of them helps. */
#include "papers/induction/toys.h"

#include "papers/papers.h"

/* Seeds of each toy. */
static const struct { size_t clamping, transience; } seeds[ICL_SCALES] = {{100, 10}, {200, 20}, {2000, 200}};

void icl_toy_step(icl_products *products, icl_product_vectors gradient) {
    for (size_t v = 0; v < products->count; v++)
        for (size_t i = 0; i < products->length[v]; i++)
            products->fitted[v][i] -= gradient[v][i];
}

static icl_status reproduce(icl_reproducing *run, icl_error *error) {
    if (icl_reproduce_wants(run, "clamping") && icl_reproduce_judges(run))
        ICL_CHECK(icl_toys_clamping(run, seeds[run->params->scale].clamping, error));
    if (icl_reproduce_wants(run, "transience") && icl_reproduce_judges(run))
        ICL_CHECK(icl_toys_transience(run, seeds[run->params->scale].transience, error));
    return ICL_OK;
}

const icl_reproduction icl_induction_toys = {
    .name = "induction-toys",
    .source = "arXiv 2404.07129 and 2503.05631",
    .about = "outer products learned by outer products: parts that are given, and a mechanism that is lost again",
    .cost = {"1 s", "2 s", "15 s"},
    .run = reproduce,
};
