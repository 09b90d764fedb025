#include "task/draws.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "core/allocate.h"

/* ---- Lots ---- */

icl_status icl_lots_create(size_t count, size_t draws, icl_lots *lots, icl_error *error) {
    *lots = (icl_lots){.count = count};
    ICL_CHECK(icl_allocate(count, sizeof *lots->order, "draws", &lots->order, error));
    ICL_CHECK(icl_allocate(draws, sizeof *lots->swapped, "draws", &lots->swapped, error));
    for (size_t i = 0; i < count; i++)
        lots->order[i] = (uint32_t)i;
    return ICL_OK;
}

void icl_lots_destroy(icl_lots *lots) {
    icl_free(&lots->order);
    icl_free(&lots->swapped);
    icl_free(&lots->weights);
}

icl_status icl_lots_weigh(icl_lots *lots, double exponent, icl_error *error) {
    const double unit = 0x1p32, largest = exponent > 0 ? (double)lots->count : 1;

    if (!lots->weights)
        ICL_CHECK(icl_allocate(lots->count, sizeof *lots->weights, "weights of draws", &lots->weights, error));
    lots->total = 0;
    for (size_t i = 0; i < lots->count; i++) {
        lots->weights[i] = fmax(1, nearbyint(unit * pow((double)(i + 1) / largest, exponent)));
        lots->total += lots->weights[i];
    }
    return ICL_OK;
}

static void draw_equal(icl_lots *lots, icl_random_key key, uint64_t first_word, size_t draws, uint32_t *drawn) {
    uint32_t *order = lots->order;

    for (size_t j = 0; j < draws; j++) {
        const size_t place = j + icl_draw_below(key, first_word + j, lots->count - j);
        drawn[j] = order[place];
        order[place] = order[j];
        order[j] = drawn[j];
        lots->swapped[j] = (uint32_t)place;
    }
    for (size_t j = draws; j-- > 0;) {
        const uint32_t own = order[j];
        order[j] = order[lots->swapped[j]];
        order[lots->swapped[j]] = own;
    }
}

/* Draws by weights; those of numbers that are already drawn are negative meanwhile. */
static void draw_weighted(icl_lots *lots, icl_random_key key, uint64_t first_word, size_t draws, uint32_t *drawn) {
    double left = lots->total;

    for (size_t j = 0; j < draws; j++) {
        const double share = (double)icl_random_word(key, first_word + j) * 0x1p-32 * left;
        double sum = 0;
        size_t i = 0;
        while ((sum += fmax(0, lots->weights[i])) <= share || lots->weights[i] < 0)
            i++;
        drawn[j] = (uint32_t)i;
        left -= lots->weights[i];
        lots->weights[i] = -lots->weights[i];
    }
    for (size_t j = 0; j < draws; j++)
        lots->weights[drawn[j]] = -lots->weights[drawn[j]];
}

void icl_lots_draw(icl_lots *lots, icl_random_key key, uint64_t first_word, size_t draws, uint32_t *drawn) {
    assert(draws <= lots->count);
    if (lots->weights)
        draw_weighted(lots, key, first_word, draws, drawn);
    else
        draw_equal(lots, key, first_word, draws, drawn);
}

/* ---- Batches of symbols ---- */

#define MOST_SYMBOLS 16777216.0 /* floats hold whole numbers up to this */

#define KEY(field) ICL_KEY("task", icl_vocabulary, field)

static const icl_recipe_key vocabulary_rows[] = {
    {KEY(vocabulary), "64", 4, MOST_SYMBOLS, .help = "symbols V, the special ones among them"},
};
const icl_recipe_group icl_vocabulary_keys = ICL_RECIPE_GROUP(vocabulary_rows);

static const icl_recipe_key length_rows[] = {
    {KEY(length), "48", 1, ICL_MAX_EXTENT, .help = "symbols of a sequence"},
};
const icl_recipe_group icl_length_keys = ICL_RECIPE_GROUP(length_rows);

icl_vocabulary icl_vocabulary_read(const icl_recipe *recipe) {
    icl_vocabulary size;

    icl_recipe_read(recipe, &icl_vocabulary_keys, &size);
    icl_recipe_read(recipe, &icl_length_keys, &size);
    return size;
}

/* The tensors that a batch keeps in icl_batch.scratch. */
enum { SCRATCH_TARGETS = 0 /* [B, S, c] */, SCRATCH_WEIGHTS /* [B, S, 1] */ };

static size_t target_size(const icl_task *task) {
    return icl_loss_target_size(task->shape.loss, task->shape.outputs);
}

icl_status icl_symbols_batch_create(const icl_task *task, icl_backend *backend, icl_task_purpose purpose, size_t size,
                                    icl_batch *batch, icl_error *error) {
    const size_t targets[] = {size, task->shape.scored, target_size(task)};
    const size_t weights[] = {size, task->shape.scored, 1};

    (void)purpose;
    ICL_CHECK(icl_tensor_create(backend, 2, (size_t[]){size, task->shape.positions}, &batch->inputs, error));
    ICL_CHECK(icl_tensor_create(backend, 3, targets, &batch->scratch[SCRATCH_TARGETS], error));
    ICL_CHECK(icl_tensor_create(backend, 3, weights, &batch->scratch[SCRATCH_WEIGHTS], error));
    batch->targets = batch->scratch[SCRATCH_TARGETS];
    batch->weights = batch->scratch[SCRATCH_WEIGHTS];
    return ICL_OK;
}

/* ---- Batches that the host draws ---- */

/* The parts of a batch that have numbers on the host. */
enum { INPUTS, TARGETS, WEIGHTS, FIRST_SIDE, PARTS = FIRST_SIDE + ICL_MAX_SIDES };

static icl_tensor tensor_of(const icl_batch *batch, int part) {
    const icl_tensor own[] = {batch->inputs, batch->targets, batch->weights};
    return part < FIRST_SIDE ? own[part] : batch->sides[part - FIRST_SIDE].tensor;
}

static size_t numbers_of(const icl_batch *batch, int part) {
    const icl_tensor tensor = tensor_of(batch, part);
    return tensor.buffer ? icl_tensor_count(&tensor) : 0;
}

icl_status icl_host_batch_create(const icl_batch *batch, icl_host_batch *host, icl_error *error) {
    icl_batch_values *values = &host->values;
    float **places[PARTS] = {&values->inputs, &values->targets, &values->weights};
    size_t first = 0;

    *host = (icl_host_batch){.values.size = batch->size};
    for (int part = 0; part < PARTS; part++)
        host->count += numbers_of(batch, part);
    ICL_CHECK(icl_allocate(host->count, sizeof *host->memory, "sequences", &host->memory, error));
    for (int i = 0; i < ICL_MAX_SIDES; i++)
        places[FIRST_SIDE + i] = &values->sides[i];
    for (int part = 0; part < PARTS; first += numbers_of(batch, part++))
        *places[part] = tensor_of(batch, part).buffer ? host->memory + first : NULL;
    return ICL_OK;
}

void icl_host_batch_destroy(icl_host_batch *host) {
    icl_free(&host->memory);
    *host = (icl_host_batch){0};
}

icl_status icl_host_batch_draw(const icl_task *task, icl_task_purpose purpose, uint32_t seed, uint64_t step,
                               icl_host_batch *host, icl_error *error) {
    memset(host->memory, 0, host->count * sizeof *host->memory);
    return task->family->draw(task, purpose, seed, step, &host->values, error);
}

icl_status icl_host_batch_write(const icl_host_batch *host, const icl_batch *batch, icl_error *error) {
    const float *next = host->memory;

    for (int part = 0; part < PARTS; next += numbers_of(batch, part++))
        if (numbers_of(batch, part) > 0)
            ICL_CHECK(icl_tensor_write(tensor_of(batch, part), next, error));
    return ICL_OK;
}
