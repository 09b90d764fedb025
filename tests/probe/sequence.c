/* Tests the inspection of sequence models whose parameters are set by hand: parity by a reflection, whose eigenvalues,
 * ranks and losses are known. */
#include <string.h>

#include "fixture.h"
#include "iclab/loss.h"

enum { LONGEST = 6, SYMBOLS = 3, MODEL_WIDTH = 4 }; /* symbols: the start, bit 0, bit 1 */

/* The words have LONGEST bits, so that no position is padded; the model has one layer with one head, without norms. */
static const char *const parity[] = {"task.family=state",       "task.rule=parity",
                                     "task.shortest=6",         "task.longest=6",
                                     "model.family=sequence",   "model.layers=1",
                                     "model.width=4",           "model.key_width=2",
                                     "model.norm=none",         "model.feed_forward=none",
                                     "train.batch=1",           "eval.every=0",
                                     "eval.predictors=uniform", NULL};

static float *matrix_of(fixture *f, const char *name) {
    const icl_model *model = icl_trainer_model(f->trainer);

    for (size_t i = 0; i < icl_model_parameter_count(model); i++)
        if (strcmp(icl_model_parameter(model, i)->name, name) == 0)
            return f->values + icl_model_parameter(model, i)->offset;
    return NULL;
}

/* Each symbol's embedding is (1, is bit 1, is the start, 0). All other parameters are 0. */
static void set_symbols(fixture *f) {
    static const float table[SYMBOLS][MODEL_WIDTH] = {{1, 0, 1, 0}, {1, 0, 0, 0}, {1, 1, 0, 0}};

    memset(f->values, 0, sizeof f->values);
    memcpy(matrix_of(f, "embedding.table"), table, sizeof table);
}

/*
 * All keys are the same unit vector (1, 0), so that the state is one row. A write's strength is 2 sigmoid(40) = 2 for
 * the bit 1, 2 sigmoid(-40) = 0 for the bit 0, 2 sigmoid(0) = 1 for the start; only the start has a value, (1, 0, 0,
 * 0): the state is (1, 0, 0, 0) after it, and every bit 1 turns its sign. The output is 20 times the state's first
 * number in coordinate 3, read as the logit of the class 0, so that the model is right everywhere.
 */
static void set_parity(fixture *f) {
    set_symbols(f);
    matrix_of(f, "block.0.mixer.query")[0] = 1;
    matrix_of(f, "block.0.mixer.key")[0] = 1;
    matrix_of(f, "block.0.mixer.value")[(size_t)2 * MODEL_WIDTH] = 1;
    matrix_of(f, "block.0.mixer.write")[0] = -40; /* of the 1 of every symbol, */
    matrix_of(f, "block.0.mixer.write")[1] = 80;  /* of the bit, */
    matrix_of(f, "block.0.mixer.write")[2] = 40;  /* and of the start */
    matrix_of(f, "block.0.mixer.output")[3] = 20;
    matrix_of(f, "readout.weight")[(size_t)3 * 2] = 1;
}

/* The inspection watches 16 sequences of T = 7 positions. */
enum { WATCHED = 16, T = LONGEST + 1 };

/* Counts the bits 1 of each of them. */
static icl_status count_ones(fixture *f, size_t ones[WATCHED], icl_error *error) {
    const icl_task *task = icl_trainer_task(f->trainer);
    float symbols[WATCHED * T];
    icl_batch batch = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_batch_create(task, f->backend, ICL_FOR_EVALUATION, WATCHED, &batch, error));
    ICL_TRY(icl_task_sample(task, f->backend, ICL_FOR_EVALUATION, 1, 0, &batch, error));
    ICL_TRY(icl_tensor_read(batch.inputs, symbols, error));
    for (size_t i = 0; i < WATCHED; i++) {
        ones[i] = 0;
        for (size_t t = 0; t < T; t++)
            ones[i] += symbols[i * T + t] == 2;
    }
done:
    icl_batch_release(&batch);
    return status;
}

static bool is_near(const fixture *f, size_t layer, const char *what, const char *quantity, double expected) {
    const double is = value_of(f, layer, what, quantity);
    if (!(fabs(is - expected) < 1e-5))
        tap_note("%s, %s: %.9g, expected %.9g", what, quantity, is, expected);
    return fabs(is - expected) < 1e-5;
}

static void test_reflection(tap_run *tap) {
    static const char *const overrides[] = {"model.mixer=delta", "model.write_strength=2", "model.output_norm=none",
                                            NULL};
    icl_error error = {0};
    fixture f = {0};
    size_t counts[WATCHED] = {0};

    if (tap_status(tap, open_fixture(&f, parity, overrides, &error), &error, "a layer of the delta rule") &&
        tap_status(tap, count_ones(&f, counts, &error), &error, "the symbols that it is watched on")) {
        double ones = 0;
        for (size_t i = 0; i < WATCHED; i++)
            ones += (double)counts[i] / (WATCHED * T);
        set_parity(&f);
        if (tap_status(tap, inspect(&f, &error), &error, "inspected")) {
            tap_ok(tap, is_near(&f, 1, "head 1", "eigenvalue: least", -1), "a bit 1 reflects the state");
            tap_ok(tap, is_near(&f, 1, "head 1", "eigenvalue: largest", 1), "and leaves the other direction");
            tap_ok(tap, is_near(&f, 1, "head 1", "share of writes", ones), "as often as there are ones: %.4f", ones);
            tap_ok(tap, is_near(&f, 1, "head 1", "write strength: mean", 2 * ones + 1.0 / (LONGEST + 1)),
                   "the mean strength");
            tap_ok(tap, is_near(&f, 1, "head 1", "effective rank", 1) && is_near(&f, 1, "head 1", "numeric rank", 1),
                   "the state has rank 1");
            tap_ok(tap, is_near(&f, 1, "head 1", "norm of the state", 1), "and norm 1");
            tap_ok(tap, isnan(value_of(&f, 1, "head 1", "gate: mean")), "there is no gate");
            tap_ok(tap, is_near(&f, 0, "model", "accuracy", 1) && is_near(&f, 0, "exact", "accuracy", 1),
                   "it is right everywhere, as the exact product is");
            tap_ok(tap, is_near(&f, 0, "model", "accuracy at position 3", 1), "at each position");
            tap_ok(tap, is_near(&f, 0, "uniform", "cross-entropy at position 3", log(2)),
                   "chance has log 2 at each position, although the recipe does not list every predictor");
            tap_ok(tap, strstr(f.summary, "lie in [-1, 1]") && strstr(f.summary, "negative ones: 1 of 1"),
                   "the summary says so");
        }
    }
    close_fixture(&f);
}

/* Chance is right for half of the bits: the standard error of the model's own loss tells how many sequences were
 * used. */
static void test_sequences(tap_run *tap) {
    static const char *const overrides[] = {"model.mixer=delta", "model.write_strength=1", "model.output_norm=none",
                                            NULL};
    double errors[2] = {0};

    for (size_t i = 0; i < 2; i++) {
        icl_error error = {0};
        fixture f = {0};
        if (tap_status(tap, open_fixture(&f, parity, overrides, &error), &error, "weak writes")) {
            set_parity(&f);
            if (tap_status(tap, inspect_by(&f, i == 0 ? 512 : 0, &error), &error, "inspected")) {
                const found *loss = find(&f, 0, "model", "cross-entropy");
                errors[i] = loss ? loss->standard_error : 0;
            }
        }
        close_fixture(&f);
    }
    tap_ok(tap, errors[0] / errors[1] > 1.8 && errors[0] / errors[1] < 2.2,
           "the default is four times 512 sequences: %.4f is twice %.4f", errors[0], errors[1]);
}

/* As above, with strengths up to 1: no eigenvalue is negative, and parity is lost. */
static void test_weak_writes(tap_run *tap) {
    static const char *const overrides[] = {"model.mixer=delta", "model.write_strength=1", "model.output_norm=none",
                                            NULL};
    icl_error error = {0};
    fixture f = {0};

    if (tap_status(tap, open_fixture(&f, parity, overrides, &error), &error, "weak writes")) {
        set_parity(&f);
        if (tap_status(tap, inspect(&f, &error), &error, "inspected")) {
            tap_ok(tap, is_near(&f, 1, "head 1", "eigenvalue: least", 0), "a bit 1 forgets");
            tap_ok(tap, is_near(&f, 1, "head 1", "share of writes", 0), "no write has a negative eigenvalue");
            /* Rounding gives a forgotten state a sign, and so the model an accuracy; only the loss tells that nothing
             * is known. */
            tap_ok(tap, value_of(&f, 0, "model", "cross-entropy") > log(2) / 2, "loss %.3f",
                   value_of(&f, 0, "model", "cross-entropy"));
        }
    }
    close_fixture(&f);
}

/* Gates sigmoid(x A B)^(1 / 16): sigmoid(-log 3) = 1/4 at the bit 1, 1/2 elsewhere. */
static void test_gates(tap_run *tap) {
    static const char *const overrides[] = {"model.mixer=gla", NULL};
    const double at_one = pow(.25, 1. / 16), else_where = pow(.5, 1. / 16);
    icl_error error = {0};
    fixture f = {0};
    size_t counts[WATCHED] = {0};
    double ones = 0;

    if (tap_status(tap, open_fixture(&f, parity, overrides, &error), &error, "gated linear attention") &&
        tap_status(tap, count_ones(&f, counts, &error), &error, "its symbols")) {
        for (size_t i = 0; i < WATCHED; i++)
            ones += (double)counts[i] / (WATCHED * T);
        set_symbols(&f);
        matrix_of(&f, "block.0.mixer.gate_down")[16] = 1; /* the bit's coordinate */
        matrix_of(&f, "block.0.mixer.gate_up")[0] = matrix_of(&f, "block.0.mixer.gate_up")[1] = -(float)log(3);
        if (tap_status(tap, inspect(&f, &error), &error, "inspected")) {
            tap_ok(tap, ones > .1 && ones < .5, "more than a tenth are ones, and fewer than half: %.4f", ones);
            tap_ok(tap, is_near(&f, 1, "head 1", "gate: mean", ones * at_one + (1 - ones) * else_where),
                   "the gates' mean");
            tap_ok(tap, is_near(&f, 1, "head 1", "gate: 10 % quantile", at_one), "the least of them are the ones'");
            tap_ok(tap,
                   is_near(&f, 1, "head 1", "gate: median", else_where) &&
                       is_near(&f, 1, "head 1", "gate: 90 % quantile", else_where),
                   "the others are the others'");
        }
    }
    close_fixture(&f);
}

/* Tests sums: the start writes (1, 0) under (1, 0), each bit 1 writes (0, 1) under (0, 1), the bit 0 nothing. After n
 * ones the state is diag(1, n). */
static void test_sums(tap_run *tap) {
    static const char *const overrides[] = {"model.mixer=linear", NULL};
    icl_error error = {0};
    fixture f = {0};
    size_t ones[WATCHED] = {0};
    double rank = 0, norm = 0;

    if (tap_status(tap, open_fixture(&f, parity, overrides, &error), &error, "linear attention") &&
        tap_status(tap, count_ones(&f, ones, &error), &error, "its symbols")) {
        for (size_t i = 0; i < WATCHED; i++) {
            rank += (ones[i] > 0 ? 2.0 : 1.0) / WATCHED;
            norm += sqrt(1 + (double)ones[i] * (double)ones[i]) / WATCHED;
        }
        set_symbols(&f);
        matrix_of(&f, "block.0.mixer.key")[(size_t)2 * 2] = 1;             /* the start's coordinate */
        matrix_of(&f, "block.0.mixer.key")[(size_t)1 * 2 + 1] = 1;         /* the bit's */
        matrix_of(&f, "block.0.mixer.value")[(size_t)2 * MODEL_WIDTH] = 1; /* likewise */
        matrix_of(&f, "block.0.mixer.value")[(size_t)1 * MODEL_WIDTH + 1] = 1;
        if (tap_status(tap, inspect(&f, &error), &error, "inspected")) {
            tap_ok(tap, is_near(&f, 1, "head 1", "numeric rank", rank), "two directions behind a one: %.4f", rank);
            tap_ok(tap, is_near(&f, 1, "head 1", "norm of the state", norm), "the norm grows: %.4f", norm);
        }
    }
    close_fixture(&f);
}

/* Says whether inspect.md holds the text. */
static bool is_written(const fixture *f, const char *text) {
    char path[512], *bytes = NULL;
    size_t size = 0;

    snprintf(path, sizeof path, "%s/inspect.md", f->out.folder);
    const bool holds = icl_file_read(path, 0, &bytes, &size, NULL) == ICL_OK && strstr(bytes, text) != NULL;
    icl_free(&bytes);
    return holds;
}

/* Tests the first words of the summary, and which layers are said to have no state. */
static void test_introduction(tap_run *tap) {
    static const char *const one[] = {"model.mixer=delta", NULL};
    static const char *const two[] = {"model.layers=2", "model.heads=2", "model.mixer=delta,softmax", NULL};
    static const char *const whole[] = {"model.mixer=linear", "model.causal=false", NULL};
    static const struct {
        const char *const *overrides;
        const char *words, *stateless; /* NULL: none */
    } cases[] = {{one, "The model has 1 layer of delta, 1 head and width 4.", NULL},
                 {two, "The model has 2 layers of delta, softmax, 2 heads and width 4.", "Layers of softmax: "},
                 {whole, "The model has 1 layer of linear, 1 head and width 4.",
                  "Layers of linear: with model.causal = false every position sees"}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        icl_error error = {0};
        fixture f = {0};
        if (tap_status(tap, open_fixture(&f, parity, cases[i].overrides, &error), &error, "a model") &&
            tap_status(tap, inspect(&f, &error), &error, "inspected")) {
            const char *stateless = cases[i].stateless;
            tap_ok(tap, strncmp(f.summary, cases[i].words, strlen(cases[i].words)) == 0, "%s", cases[i].words);
            tap_ok(tap,
                   is_written(&f, "no state") == (stateless != NULL) && is_written(&f, stateless ? stateless : "#"),
                   "%s", stateless ? stateless : "every layer has a state");
        }
        close_fixture(&f);
    }
}

/* ---- Attention, linearity ---- */

/* If queries and keys are 0, all visible keys have equal weights: t + 1 of them from position t, for the scored
 * positions 1 to 6. A block that adds 0 is linear. */
static void test_attention(tap_run *tap) {
    static const char *const overrides[] = {"model.mixer=softmax", NULL};
    icl_error error = {0};
    fixture f = {0};
    double keys = 0, itself = 0;

    for (size_t t = 1; t <= LONGEST; t++) {
        keys += log((double)t + 1) / LONGEST;
        itself += 1 / ((double)t + 1) / LONGEST;
    }
    if (tap_status(tap, open_fixture(&f, parity, overrides, &error), &error, "a layer of softmax attention")) {
        for (size_t i = 0; i < MOST_SIZE; i++)
            f.values[i] = 0;
        for (size_t i = 0; i < (size_t)SYMBOLS * MODEL_WIDTH; i++)
            matrix_of(&f, "embedding.table")[i] = (float)((i * 7) % 5);
        if (tap_status(tap, inspect(&f, &error), &error, "inspected")) {
            tap_ok(tap, is_near(&f, 1, "head 1", "effective number of keys", exp(keys)), "keys in effect");
            tap_ok(tap, is_near(&f, 1, "head 1", "largest weight", itself), "its largest weight,");
            tap_ok(tap, is_near(&f, 1, "head 1", "weight of its own position", itself), "that on itself,");
            tap_ok(tap, is_near(&f, 1, "head 1", "weight of the position before", itself), "and on the one before");
            tap_ok(tap, is_near(&f, 1, "head 1", "mean distance", 1.75), "how far back it looks");
            tap_ok(tap, is_near(&f, 1, "residual stream", "linearity", 1), "what adds nothing is linear,");
            tap_ok(tap, isnan(value_of(&f, 1, "residual stream", "linearity of what it adds")), "and adds nothing");
        }
    }
    close_fixture(&f);
}

/* Every query looks only at the start, which is the position before only for position 1. */
static void test_attention_to_the_start(tap_run *tap) {
    static const char *const overrides[] = {"model.mixer=softmax", NULL};
    icl_error error = {0};
    fixture f = {0};

    if (tap_status(tap, open_fixture(&f, parity, overrides, &error), &error, "attention to the start")) {
        set_symbols(&f);
        matrix_of(&f, "block.0.mixer.query")[0] = 40;
        matrix_of(&f, "block.0.mixer.key")[(size_t)2 * 2] = 1;
        if (tap_status(tap, inspect(&f, &error), &error, "inspected")) {
            tap_ok(tap, is_near(&f, 1, "head 1", "effective number of keys", 1), "one key in effect");
            tap_ok(tap, is_near(&f, 1, "head 1", "weight of the position before", 1.0 / LONGEST), "before position 1");
            tap_ok(tap, is_near(&f, 1, "head 1", "weight of its own position", 0), "no query looks at itself");
            tap_ok(tap, is_near(&f, 1, "head 1", "mean distance", 3.5), "but as far back as it can");
        }
    }
    close_fixture(&f);
}

/* The layer adds the parity so far, which is no linear function of the symbol at its position. */
static void test_linearity(tap_run *tap) {
    static const char *const overrides[] = {"model.mixer=delta", "model.write_strength=2", "model.output_norm=none",
                                            NULL};
    icl_error error = {0};
    fixture f = {0};

    if (tap_status(tap, open_fixture(&f, parity, overrides, &error), &error, "the delta rule")) {
        set_parity(&f);
        if (tap_status(tap, inspect(&f, &error), &error, "inspected")) {
            const double adds = value_of(&f, 1, "residual stream", "linearity of what it adds");
            tap_ok(tap, adds > 0 && adds < .5, "the parity so far is not linear in the symbol: %.4f", adds);
        }
    }
    close_fixture(&f);
}

/* ---- Mixers without some of it ---- */

/* Says whether the file of the inspection holds the text. */
static bool holds(const fixture *f, const char *name, const char *text) {
    char path[512], *bytes = NULL;
    size_t size;
    bool is_there = false;

    snprintf(path, sizeof path, "%s/%s", f->out.folder, name);
    if (icl_file_read(path, 0, &bytes, &size, NULL) == ICL_OK)
        is_there = strstr(bytes, text) != NULL;
    icl_free(&bytes);
    return is_there;
}

typedef struct mixer_case {
    const char *mixer;
    const char *has, *lacks; /* quantities of layer 1; NULL: none */
    const char *says;        /* in inspect.md; NULL: nothing more */
} mixer_case;

static void test_mixers(tap_run *tap) {
    static const mixer_case cases[] = {
        {"model.mixer=softmax", NULL, "eigenvalue", "softmax attention keeps keys and values"},
        {"model.mixer=linear", "written: mean norm", "gate: mean", NULL},
        {"model.mixer=gla", "gate: median", "write strength", NULL},
        {"model.mixer=gated-delta", "gate: median", NULL, NULL},
        {"model.mixer=mesa", "write strength: mean", NULL, NULL},
        {"model.mixer=delta-product", "write strength: mean", "gate: mean", NULL},
        {"model.mixer=oja", "write strength: mean", NULL, NULL},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *const overrides[] = {cases[i].mixer, NULL};
        icl_error error = {0};
        fixture f = {0};
        if (tap_status(tap, open_fixture(&f, parity, overrides, &error), &error, cases[i].mixer) &&
            tap_status(tap, inspect(&f, &error), &error, "inspected")) {
            tap_ok(tap, !cases[i].has || find(&f, 1, "head 1", cases[i].has), "it has %s",
                   cases[i].has ? cases[i].has : "no state");
            tap_ok(tap, !cases[i].lacks || !find(&f, 1, "head 1", cases[i].lacks), "and no %s",
                   cases[i].lacks ? cases[i].lacks : "more");
            tap_ok(tap, !cases[i].says || holds(&f, "inspect.md", cases[i].says), "what it lacks is said");
        }
        close_fixture(&f);
    }
}

/* A map has a row for each head, but at most 48. */
static void test_rows(tap_run *tap) {
    static const struct {
        const char *layers;
        size_t rows;
    } cases[] = {{"model.layers=11", 44}, {"model.layers=12", 48}, {"model.layers=13", 48}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *const overrides[] = {"model.mixer=delta", "model.heads=4", "model.key_width=1", cases[i].layers,
                                         NULL};
        char path[512], *bytes = NULL;
        size_t size, rows = 0;
        icl_error error = {0};
        fixture f = {0};
        if (tap_status(tap, open_fixture(&f, parity, overrides, &error), &error, cases[i].layers) &&
            tap_status(tap, inspect_by(&f, 100, &error), &error, "inspected")) {
            snprintf(path, sizeof path, "%s/strengths-1.csv", f.out.folder);
            if (tap_status(tap, icl_file_read(path, 0, &bytes, &size, &error), &error, "a map of strengths"))
                for (size_t at = 0; at < size; at++)
                    rows += bytes[at] == '\n';
            tap_ok(tap, rows == cases[i].rows, "%zu rows, expected %zu", rows, cases[i].rows);
        }
        icl_free(&bytes);
        close_fixture(&f);
    }
}

/* Sets each matrix of a model to diag(3, 1, 0, ...): its singular values are 3 and 1, shares 3/4 and 1/4, whose entropy
 * is log 4 - 3/4 log 3. */
static void test_other_family(tap_run *tap) {
    static const char *const base[] = {"task.family=associative",
                                       "model.family=fast-weights",
                                       "model.layers=1",
                                       "train.batch=1",
                                       "eval.every=0",
                                       NULL};
    static const char *const none[] = {"task.keys=4",      "task.writes=4",          "model.key_width=2",
                                       "model.rule=delta", "model.feature_map=relu", NULL};
    const double rank = exp(log(4) - 0.75 * log(3));
    icl_error error = {0};
    size_t matrices = 0;
    fixture f = {0};

    if (!tap_status(tap, open_fixture(&f, base, none, &error), &error, "a family without probes of its own"))
        goto done;
    const icl_model *model = icl_trainer_model(f.trainer);
    for (size_t i = 0; i < icl_model_parameter_count(model); i++) {
        const icl_parameter_info *info = icl_model_parameter(model, i);
        for (size_t k = 0; info->rank == 2 && k < info->count; k++)
            f.values[info->offset + k] = k == 0 ? 3 : k == info->shape[1] + 1 ? 1 : 0;
    }
    if (!tap_status(tap, inspect_by(&f, 64, &error), &error, "inspected"))
        goto done;
    for (size_t i = 0; i < icl_model_parameter_count(model); i++) {
        const icl_parameter_info *info = icl_model_parameter(model, i);
        if (info->rank != 2 || info->shape[0] < 2 || info->shape[1] < 2)
            continue;
        matrices++;
        tap_ok(tap,
               fabs(value_of(&f, 0, info->name, "root mean square") - sqrt(10 / (double)info->count)) < 1e-12 &&
                   fabs(value_of(&f, 0, info->name, "largest singular value") - 3) < 1e-7 &&
                   fabs(value_of(&f, 0, info->name, "effective rank") - rank) < 1e-6,
               "%s: its numbers follow from its singular values 3 and 1", info->name);
    }
    tap_ok(tap, matrices > 0 && find(&f, 0, "model", "squared error"), "%zu matrices, and the loss", matrices);
done:
    close_fixture(&f);
}

int main(void) {
    tap_run tap = {0};

    test_reflection(&tap);
    test_weak_writes(&tap);
    test_sequences(&tap);
    test_gates(&tap);
    test_sums(&tap);
    test_introduction(&tap);
    test_attention(&tap);
    test_attention_to_the_start(&tap);
    test_linearity(&tap);
    test_mixers(&tap);
    test_rows(&tap);
    test_other_family(&tap);
    return tap_done(&tap);
}
