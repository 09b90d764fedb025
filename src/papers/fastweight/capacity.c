/*
 * How many values a memory holds (Schlag, Irie, Schmidhuber 2021, arXiv 2102.11174, section 6.1, setting 1, figure 2):
 * S keys are each written once, and one is asked. With D numbers behind the feature map no memory returns more than D
 * of them; where S is larger the loss is (1 - D / S) / 2 or more, and trained memories come close to that.
 */
#include "papers/fastweight/fastweight.h"
#include "papers/papers.h"

static icl_status reproduce(icl_reproducing *run, icl_error *error) {
    /* Where the log says .001 or less, its runs ended there. */
    static const icl_fastweight_curve curves[] = {
        {"softmax",
         "softmax",
         "identity",
         0,
         {.001, .001, .001,  .001, .001, .001, .001, .001,  .001, .001,  .001,  .001, .001, .001, .001,
          .001, .001, .0045, .001, .001, .001, .001, .0089, .001, .0089, .0088, .016, .030, .019, .030},
         NULL,
         ICL_SCALE_CI},
        {"elu+1, sum",
         "sum",
         "elu+1",
         64,
         {.00089, .00083, .0245, .108, .164, .232, .271, .301, .322, .342, [29] = .451},
         NULL,
         ICL_SCALE_SHORT},
        {"dpfp-1, sum",
         "sum",
         "dpfp:1",
         128,
         {.001, .001, .001, .001, .001, .0083, .051, .102, 0, .173, [14] = .286, [19] = .3415, [29] = .411},
         NULL,
         ICL_SCALE_CI},
        {"dpfp-2, sum",
         "sum",
         "dpfp:2",
         256,
         {.001, .001, .001, .001, .001, .001, .001, .001, .001, .001, .001, .001, .0084, .045,
          .068, [19] = .164, [29] = .323},
         NULL,
         ICL_SCALE_SHORT},
        {"dpfp-3, sum",
         "sum",
         "dpfp:3",
         384,
         {.001, .001, .001, .001, .001, .001, .001,  .001, .001, .001,        .001,
          .001, .001, .001, .001, .001, .001, .0034, 0,    .036, [24] = .169, [29] = .198},
         NULL,
         ICL_SCALE_SHORT},
        {"favor-64, sum",
         "sum",
         "favor:64",
         128,
         {.117, .274, .5, .5, .5},
         NULL,
         ICL_SCALE_SHORT,
         "model.directions=drawn"},
        {"favor-512, sum",
         "sum",
         "favor:512",
         1024,
         {.024, .075, .41, .49, .49},
         NULL,
         ICL_SCALE_SHORT,
         "model.directions=drawn"},
    };
    static const icl_fastweight_figure figure = {
        .name = "fastweight-capacity",
        .title = "Fast weights: how many values a memory holds (setting 1, figure 2)",
        .source = "authors' logs, setting 1",
        .most = 600,
        .count = sizeof curves / sizeof *curves,
        .curves = curves,
    };
    icl_curves drawn = {0};
    const icl_status status = icl_fastweight_reproduce(run, &figure, &drawn, error);

    icl_curves_release(&drawn);
    return status;
}

const icl_reproduction icl_fastweight_capacity = {
    .name = "fastweight-capacity",
    .source = "arXiv 2102.11174, figure 2",
    .about = "values that a memory of fast weights holds, by its feature map",
    .cost = {"3 s", "10 min", "5 h"},
    .is_shared = true,
    .run = reproduce,
};
