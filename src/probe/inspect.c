#include "iclab/inspect.h"

#include <math.h>
#include <string.h>

#include "core/allocate.h"
#include "iclab/file.h"
#include "iclab/recipe.h"
#include "iclab/run.h"
#include "model/linear_transformer.h"
#include "probe/inspection.h"

/* Sequences to measure on, and below which a model has to be large: prunings of all layers cost about WORK
 * multiplications then. */
#define LEAST_SEQUENCES 100
#define WORK            8e9

/* Each of about 6 prunings a layer runs all layers, at two products of D x D matrices a head and two more. */
static size_t sequences_of(const icl_inspection *run) {
    const double depth = (double)icl_model_layers(run->model), heads = (double)icl_model_heads(run->model);
    const double each = 6 * depth * depth * (2 * heads + 2) * pow((double)(run->d + 1), 3);

    if (run->params->sequences > 0)
        return run->params->sequences;
    return (size_t)fmin(ICL_INSPECT_SEQUENCES, fmax(LEAST_SEQUENCES, WORK / each));
}

static icl_status inspect_linear(icl_inspection *run, icl_error *error) {
    /* Then a layer is no product of matrices. */
    const bool is_softmax = icl_recipe_choice(run->recipe, "model", "scale") == ICL_SCALE_SOFTMAX;
    icl_linear_layers *layers = NULL;
    icl_inspect_sample sample = {0};
    icl_inspect_descent descent = {.steps = icl_model_layers(run->model)};
    icl_status status = ICL_OK;

    ICL_TRY(icl_linear_layers_create(run->model, run->d, run->n, run->values, &layers, error));
    ICL_TRY(icl_inspect_draw(run, ICL_INSPECT_MEASURE, sequences_of(run), &sample, error));
    ICL_TRY(icl_inspect_weights(run, layers, error));
    if (!is_softmax)
        ICL_TRY(icl_inspect_terms(run, layers, &sample, &descent, error));
    else
        ICL_TRY(icl_inspect_paragraph(run, error,
                                      "Attention weights pass through a softmax here (model.scale = softmax): "
                                      "layers are not linear and do not fall into terms."));
    ICL_TRY(icl_inspect_algorithms(run, &sample, &descent, error));
    if (run->details.length > 0)
        ICL_TRY(icl_text_append(&run->lead, run->details.bytes, run->details.length, error));
done:
    icl_inspect_sample_release(&sample);
    icl_linear_layers_destroy(&layers);
    return status;
}

static icl_status inspect_family(icl_inspection *run, icl_error *error) {
    static const struct {
        const char *name;
        icl_status (*inspect)(icl_inspection *, icl_error *);
    } families[] = {{"linear", inspect_linear}, {"softmax", icl_inspect_window}, {"sequence", icl_inspect_sequence}};
    const char *family = icl_recipe_value(run->recipe, "model", "family");

    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (strcmp(families[i].name, family) == 0)
            return families[i].inspect(run, error);
    return icl_recipe_reject(run->recipe, "model", "family", error,
                             "one that can be inspected: linear, softmax or sequence");
}

static icl_status load(icl_inspection *run, icl_error *error) {
    ICL_CHECK(icl_recipe_create_complete(&run->recipe, error));
    ICL_CHECK(icl_run_read_recipe(run->params->run, run->recipe, error));
    ICL_CHECK(icl_trained_load(run->params->backend, run->params->run, run->recipe, &run->trainer, error));
    run->task = icl_trainer_task(run->trainer);
    run->model = icl_trainer_model(run->trainer);
    run->d = icl_task_dimension(run->task);
    run->n = icl_task_context(run->task);
    run->seed = (uint32_t)icl_recipe_count(run->recipe, "eval", "seed");
    ICL_CHECK(icl_allocate(icl_model_size(run->model), sizeof *run->values, "parameters", &run->values, error));
    return icl_trainer_get_parameters(run->trainer, run->values, error);
}

/* Begins the documents. */
static icl_status begin(icl_inspection *run, icl_error *error) {
    const icl_inspect_params *params = run->params;

    run->drawing =
        (icl_drawing){.folder = params->folder, .command = "iclab inspect", .draw = params->draw, .user = params->user};
    ICL_CHECK(icl_folder_create(params->folder, error));
    ICL_CHECK(icl_report_create(&run->report, error));
    return icl_text_print(&run->table, error, "layer,what,quantity,value,standard_error,note\n");
}

icl_status icl_inspect(const icl_inspect_params *params, char **summary, icl_error *error) {
    icl_inspection run = {.params = params};
    icl_status status = ICL_OK;

    ICL_TRY(load(&run, error));
    ICL_TRY(begin(&run, error));
    ICL_TRY(inspect_family(&run, error));
    ICL_TRY(icl_inspect_write(&run, error));
    ICL_TRY(icl_duplicate(run.lead.bytes, summary, error));
done:
    icl_text_release(&run.lead);
    icl_text_release(&run.details);
    icl_text_release(&run.markdown);
    icl_text_release(&run.table);
    icl_report_destroy(&run.report);
    icl_free(&run.values);
    icl_trainer_destroy(&run.trainer);
    icl_recipe_destroy(&run.recipe);
    return status;
}
