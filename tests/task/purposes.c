/* Training, evaluation and fitting share no numbers, nor do seeds and steps, of which all 64 bits count: every
 * stream has one purpose and one kind of draw, and whatever varies from batch to batch, in any tensor of any family,
 * differs. */
#include "frame.h"
#include "task/streams.h"
#include "task/task.h"

#include "../core/scratch.h"

enum { BATCH = 32, PURPOSES = 3 };

/* ---- Streams ---- */

static void check_streams(task_test *test) {
    static const enum icl_streams firsts[] = {ICL_RECALL_STREAMS,
                                              ICL_RECALL_FILLER_STREAMS,
                                              ICL_STATE_STREAMS,
                                              ICL_ASSOCIATIVE_STREAMS,
                                              ICL_DYNAMICAL_STREAMS,
                                              ICL_CLASSIFICATION_STREAMS,
                                              ICL_CLASSIFICATION_NOISE_STREAMS,
                                              ICL_CLASSIFICATION_FRESH_STREAMS,
                                              ICL_MAD_STREAMS,
                                              ICL_CLASSES_STREAMS,
                                              ICL_CLASSES_INPUT_STREAMS,
                                              ICL_CLASSES_NOISE_STREAMS,
                                              ICL_CLASSES_CHOICE_STREAMS,
                                              ICL_CLASSES_RARE_STREAMS,
                                              ICL_GRAPH_STREAMS,
                                              ICL_TEXT_STREAMS,
                                              ICL_TABLE_STREAMS,
                                              ICL_RULES_STREAMS,
                                              ICL_COEFFICIENT_STREAMS,
                                              ICL_RADIUS_STREAMS,
                                              ICL_GRAM_STREAMS};
    enum { FIRSTS = sizeof firsts / sizeof *firsts, ONCE = 7 };
    uint32_t streams[PURPOSES * (FIRSTS + ICL_ROLE_COUNT) + ONCE] = {
        ICL_CLASSIFICATION_CENTRES, ICL_CLASSIFICATION_LABELS, ICL_MAD_FACTS_STREAM, ICL_CLASSES_NETWORK_STREAM,
        ICL_CLASSES_POOL_STREAM,    ICL_ROTATION_STREAM,       ICL_RULES_POOL_STREAM};
    size_t count = ONCE, shared = 0;

    for (icl_task_purpose purpose = ICL_FOR_TRAINING; purpose <= ICL_FOR_FITTING; purpose++) {
        for (size_t i = 0; i < FIRSTS; i++)
            streams[count++] = icl_stream_for(purpose, firsts[i]);
        for (icl_task_role role = ICL_ROLE_INPUTS; role < ICL_ROLE_COUNT; role++)
            streams[count++] = icl_task_stream(purpose, role);
    }
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < i; j++)
            shared += streams[i] == streams[j];
    tap_ok(&test->tap, shared == 0, "%zu streams are all different", count);
}

/* ---- Batches ---- */

typedef struct setting {
    const char *overrides;
    bool of_outliers; /* compare only which numbers are outliers */
} setting;

static const setting settings[] = {
    {"task.family=linear-regression task.d=4 task.n=6 task.noise=uniform:2", false},
    {"task.family=linear-regression task.d=4 task.n=6 task.inputs=gamma:2,1 task.noise=choice:1,3", false},
    {"task.family=linear-regression task.d=4 task.n=6 task.noise=uniform:2 task.sampler=gram", false},
    {"task.family=quadratic-regression task.d=3 task.n=9 task.noise=fixed:0.5", false},
    {"task.family=functions task.inputs=sphere task.d=4 task.n=6 task.noise=fixed:1 task.function=relu", false},
    {"task.family=functions task.inputs=sphere task.d=4 task.n=6 task.noise=fixed:1 task.subspace=2", false},
    {"task.family=function-classes task.d=4 task.n=6 task.noise=fixed:1 task.outliers=0.3", false},
    {"task.family=function-classes task.d=1 task.n=6 task.noise=fixed:1e6", false},
    {"task.family=function-classes task.d=1 task.n=6 task.noise=fixed:1 task.outliers=0.5 task.outlier_size=1e6", true},
    {"task.family=recall task.vocabulary=16 task.length=20 task.pairs=4", false},
    {"task.family=state task.rule=s5 task.shortest=20", false},
    {"task.family=associative", false},
    {"task.family=dynamical-system task.process_noise=0.3", false},
    {"task.family=autoregression task.jumps=regimes", false},
    {"task.family=classification", false},
    /* Items that consist of noise only, and fresh centres without noise. */
    {"task.family=classification task.label_count=1 task.spread=1e6", false},
    {"task.family=classification task.label_count=1 task.spread=0 task.examples=1 task.burstiness=1 task.fresh=1",
     false},
    {"task.family=mad", false},
    {"task.family=graphs", false},
    {"task.family=markov", false},
    {"task.family=rules task.mapping=letters", false},
    {"task.family=text", false},
    {"task.family=tables", false},
};

/* Writes a text of random bytes, and the row's overrides with its name if they are of text. */
static const char *overrides_of(const setting *row, scratch_folder *scratch) {
    enum { BYTES = 20 * 40 * 128 }; /* 40 whole windows for evaluation */
    static char overrides[640];
    static unsigned char text[BYTES];

    if (!strstr(row->overrides, "task.family=text"))
        return row->overrides;
    for (size_t i = 0; i < BYTES; i++)
        text[i] = (unsigned char)icl_random_word((icl_random_key){SEED, 0, 0}, i);
    scratch_write(scratch, "text", text, BYTES);
    snprintf(overrides, sizeof overrides, "%s task.file=%s", row->overrides, scratch_path(scratch, "text"));
    return overrides;
}

enum { TENSORS = 3 + ICL_MAX_SIDES + 8 };

/* Every tensor of a batch, with the task's own scratch. */
typedef struct numbers {
    float *values[TENSORS];
    size_t count[TENSORS];
} numbers;

static void read_numbers(const icl_batch *batch, numbers *all) {
    icl_tensor tensors[TENSORS] = {batch->inputs, batch->targets, batch->weights};

    for (size_t i = 0; i < batch->side_count; i++)
        tensors[3 + i] = batch->sides[i].tensor;
    memcpy(tensors + 3 + ICL_MAX_SIDES, batch->scratch, sizeof batch->scratch);
    for (int i = 0; i < TENSORS; i++) {
        if (!tensors[i].buffer)
            continue;
        all->count[i] = icl_tensor_count(&tensors[i]);
        tap_need(icl_allocate(all->count[i], sizeof(float), "a tensor", &all->values[i], tap_error()));
        tap_need(icl_tensor_read(tensors[i], all->values[i], tap_error()));
    }
}

/* Counts numbers that differ by more than a thousandth: if noise is far larger than what it is added to, this compares
 * the noise. */
static size_t count_apart(const setting *row, const numbers *a, const numbers *b, int tensor) {
    size_t different = 0;

    for (size_t i = 0; i < a->count[tensor] && a->count[tensor] == b->count[tensor]; i++) {
        const float x = fabsf(a->values[tensor][i]), y = fabsf(b->values[tensor][i]);
        const float difference = fabsf(a->values[tensor][i] - b->values[tensor][i]);
        different += row->of_outliers ? (x > 1e3F) != (y > 1e3F) : difference > 1e-3F * fmaxf(x, y);
    }
    return different;
}

/* The batches that are compared. The first two of a purpose are of neighbouring steps. */
static const struct batch_key {
    const char *name;
    icl_task_purpose purpose;
    uint32_t seed;
    uint64_t step;
} keys[] = {{"training", ICL_FOR_TRAINING, SEED, 5},
            {"the next step", ICL_FOR_TRAINING, SEED, 6},
            {"another seed", ICL_FOR_TRAINING, SEED + 1, 5},
            {"a step beyond 32 bits", ICL_FOR_TRAINING, SEED, ((uint64_t)1 << 32) + 5},
            {"evaluation", ICL_FOR_EVALUATION, SEED, 5},
            {"evaluation's next step", ICL_FOR_EVALUATION, SEED, 6},
            {"fitting", ICL_FOR_FITTING, SEED, 5},
            {"fitting's next step", ICL_FOR_FITTING, SEED, 6}};
static const size_t first_of[PURPOSES] = {0, 4, 6};

enum { KEYS = sizeof keys / sizeof *keys };

/* If two steps of one purpose differ in so many numbers, any two batches differ in nearly as many. */
static void compare(tap_run *tap, const setting *row, const numbers *seen) {
    size_t varying = 0;

    for (int a = 1; a < KEYS; a++)
        for (int b = 0; b < a; b++)
            for (int tensor = 0; tensor < TENSORS; tensor++) {
                const numbers *first = &seen[first_of[keys[b].purpose]];
                const size_t usual = count_apart(row, first, first + 1, tensor);
                if (usual < BATCH || seen[a].count[tensor] != seen[b].count[tensor])
                    continue;
                varying++;
                const size_t different = count_apart(row, &seen[a], &seen[b], tensor);
                if (5 * different < 4 * usual)
                    tap_ok(tap, false, "%s: tensor %d of %s and %s differs in %zu numbers, that of two steps in %zu",
                           row->overrides, tensor, keys[a].name, keys[b].name, different, usual);
            }
    tap_ok(tap, varying > 0, "%s: %zu pairs of tensors have numbers of their own", row->overrides, varying);
}

static void check_family(task_test *test, const setting *row) {
    numbers seen[KEYS] = {{{0}}};
    scratch_folder scratch;

    scratch_open(&scratch);
    for (int key = 0; key < KEYS; key++) {
        drawn all = {0};
        open_batch(&all, test->cpu, keys[key].purpose, BATCH, overrides_of(row, &scratch));
        draw_step(&all, keys[key].seed, keys[key].step);
        read_numbers(&all.batch, &seen[key]);
        release(&all);
    }
    compare(&test->tap, row, seen);
    for (int key = 0; key < KEYS; key++)
        for (int i = 0; i < TENSORS; i++)
            icl_free(&seen[key].values[i]);
    scratch_close(&scratch);
}

/* Returns whether a family has a row. */
static bool has_row(const char *family) {
    char start[128];
    bool found = false;

    snprintf(start, sizeof start, "task.family=%s", family);
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        found = found || (strncmp(settings[i].overrides, start, strlen(start)) == 0 &&
                          strchr(" ", settings[i].overrides[strlen(start)]));
    return found;
}

#define WORD(word, family) word,
static const char *const families[] = {ICL_TASK_FAMILIES(WORD)};
#undef WORD

static void check_families(task_test *test) {
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        tap_ok(&test->tap, has_row(families[i]), "%s has a row here", families[i]);
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        check_family(test, &settings[i]);
}

int main(int count, char **arguments) {
    static task_check *const checks[] = {check_streams, check_families};
    return run_checks(count, arguments, checks, sizeof checks / sizeof *checks);
}
