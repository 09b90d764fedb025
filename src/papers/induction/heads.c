#include "papers/induction/heads.h"

#include <math.h>
#include <string.h>

#include "core/allocate.h"
#include "probe/attention_maps.h"

enum { PAIRS = 2, POSITIONS = 2 * PAIRS + 1 };

/* The pair whose item is the query: items have no noise. */
static size_t find_asked(const float *inputs, size_t size) {
    const float *query = inputs + 2 * PAIRS * size;
    size_t pair = 0;

    while (pair + 1 < PAIRS && memcmp(inputs + 2 * pair * size, query, size * sizeof *query) != 0)
        pair++;
    return pair;
}

static icl_status find_all_asked(icl_heads *heads, icl_error *error) {
    const size_t width = heads->batch.shape.inputs;
    float *inputs = NULL; /* [sequences][POSITIONS][width] */
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(icl_tensor_count(&heads->batch.inputs), sizeof *inputs, "inputs", &inputs, error));
    ICL_TRY(icl_tensor_read(heads->batch.inputs, inputs, error));
    for (size_t i = 0; i < ICL_HEADS_SEQUENCES; i++)
        heads->asked[i] = find_asked(inputs + i * POSITIONS * width, width);
done:
    icl_free(&inputs);
    return status;
}

icl_status icl_heads_open(const icl_reproducing *run, const icl_trainer *trainer, uint32_t seed, icl_heads *heads,
                          icl_error *error) {
    icl_backend *backend = run->params->backend;
    const icl_task *task = icl_trainer_task(trainer);
    const size_t size = icl_model_size(icl_trainer_model(trainer));

    ICL_CHECK(icl_batch_create(task, backend, ICL_FOR_EVALUATION, ICL_HEADS_SEQUENCES, &heads->batch, error));
    ICL_CHECK(icl_task_sample(task, backend, ICL_FOR_EVALUATION, seed, 0, &heads->batch, error));
    ICL_CHECK(find_all_asked(heads, error));
    ICL_CHECK(icl_allocate(size, sizeof *heads->values, "parameters", &heads->values, error));
    return icl_tensor_create(backend, 1, &size, &heads->parameters, error);
}

void icl_heads_release(icl_heads *heads) {
    icl_batch_release(&heads->batch);
    icl_tensor_release(&heads->parameters);
    icl_free(&heads->values);
}

static double previous_of_head(const icl_attention_map *map, size_t head) {
    double sum = 0;
    for (size_t i = 0; i < map->sequences; i++)
        for (size_t pair = 0; pair < PAIRS; pair++)
            sum += icl_attention_weight(map, i, head, 2 * pair + 1, 2 * pair);
    return sum / (double)(map->sequences * PAIRS);
}

static double induction_of_head(const icl_attention_map *map, size_t head, const size_t *asked) {
    const size_t query = map->queries - 1;
    double sum = 0;
    for (size_t i = 0; i < map->sequences; i++)
        sum += icl_attention_weight(map, i, head, query, 2 * asked[i] + 1) -
               icl_attention_weight(map, i, head, query, 2 * (PAIRS - 1 - asked[i]) + 1);
    return sum / (double)map->sequences;
}

icl_status icl_heads_measure(const icl_reproducing *run, icl_heads *heads, icl_trainer *trainer, double *previous,
                             double *induction, icl_error *error) {
    icl_attention_maps maps = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_trainer_get_parameters(trainer, heads->values, error));
    ICL_TRY(icl_tensor_write(heads->parameters, heads->values, error));
    ICL_TRY(icl_attention_maps_measure(icl_trainer_model(trainer), run->params->backend, heads->parameters,
                                       heads->batch.inputs, &maps, error));
    *previous = 0;
    *induction = -1;
    for (size_t head = 0; head < maps.maps[0].heads; head++) {
        *previous = fmax(*previous, previous_of_head(&maps.maps[0], head));
        *induction = fmax(*induction, induction_of_head(&maps.maps[1], head, heads->asked));
    }
done:
    icl_attention_maps_release(&maps);
    return status;
}
