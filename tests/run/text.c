/* A model on text: the state that is carried from window to window, against one long window; bits per byte. */
#include <math.h>

#include "core/allocate.h"
#include "iclab/evaluate.h"
#include "iclab/file.h"
#include "iclab/recipe.h"
#include "recipes.h"
#include "report/report.h"
#include "run/evaluation.h"
#include "tap.h"

#include "../core/scratch.h"

/* The text's bytes, and those of its end for the test: 70 windows of 7 bytes and 1 of 6, or 1 of 495 and 1 of 1. */
enum { BYTES = 5000, TEST = 496, SHORT = 7, LONG = 495, SHOWN = 490 };

static icl_trainer *open_trainer(icl_backend *backend, scratch_folder *scratch, const char *mixer, size_t length,
                                 const char *evaluation, icl_recipe **recipe) {
    char overrides[1024];
    icl_trainer *trainer = NULL;

    snprintf(overrides, sizeof overrides,
             "task.family=text task.file=%s task.test=0.0992 task.validation=0 task.length=%zu task.evaluation=%s "
             "model.family=sequence model.mixer=%s model.layers=2 model.width=8 model.heads=2 model.positions=rotary "
             "model.convolution=3 train.batch=4 eval.predictors=uniform,ngram:2,context:1",
             scratch_path(scratch, "text"), length, evaluation, mixer);
    tap_need(make_recipe("", overrides, recipe, tap_error()));
    tap_need(icl_trainer_create(backend, *recipe, &trainer, tap_error()));
    return trainer;
}

/* Writes the outputs of all windows of the trainer's task, one after the other; returns how many positions. */
static size_t predict_all(icl_backend *backend, icl_trainer *trainer, bool in_one, float *outputs) {
    const icl_task *task = icl_trainer_task(trainer);
    const size_t window = icl_task_get_shape(task)->positions, windows = in_one ? 1 : SHOWN / SHORT;
    icl_sequences sequences = {0};

    tap_need(icl_sequences_create_carried(backend, task, 1, &sequences, tap_error()));
    for (size_t j = 0; j < windows; j++) {
        tap_need(icl_sequences_sample(&sequences, j, tap_error()));
        tap_need(icl_sequences_predict(&sequences, trainer, tap_error()));
        memcpy(outputs + j * window * 256, sequences.model, window * 256 * sizeof *outputs);
    }
    icl_sequences_release(&sequences);
    return windows * window;
}

/* Carried outputs are those of one forward pass over all bytes; both add up to 495
 * terms for a position, in another order, so that they differ by at most about 495 roundings of the largest. */
static void check_carried(tap_run *tap, icl_backend *backend, scratch_folder *scratch, const char *mixer) {
    static float carried[SHOWN * 256], whole[LONG * 256];
    icl_recipe *recipe = NULL, *other = NULL;
    icl_trainer *by_state = open_trainer(backend, scratch, mixer, SHORT, "carried", &recipe);
    icl_trainer *at_once = open_trainer(backend, scratch, mixer, LONG, "windows", &other);
    double largest = 0, most = 0;

    predict_all(backend, by_state, false, carried);
    predict_all(backend, at_once, true, whole);
    for (size_t i = 0; i < (size_t)SHOWN * 256; i++) {
        largest = fmax(largest, fabs((double)carried[i] - (double)whole[i]));
        most = fmax(most, fabs((double)whole[i]));
    }
    tap_ok(tap, largest < LONG * 0x1p-24 * most && most > 0.01,
           "%s: 70 windows with the state carried are one forward pass over %d bytes (%g of %g)", mixer, SHOWN, largest,
           most);
    icl_trainer_destroy(&by_state);
    icl_trainer_destroy(&at_once);
    icl_recipe_destroy(&recipe);
    icl_recipe_destroy(&other);
}

/* Each evaluation scores each byte once: its bits are those of the sum over its own windows. */
static void check_scores(tap_run *tap, icl_backend *backend, scratch_folder *scratch, const char *evaluation,
                         size_t windows) {
    icl_recipe *recipe = NULL;
    icl_trainer *trainer = open_trainer(backend, scratch, "gated-delta", SHORT, evaluation, &recipe);
    icl_evaluation *all = NULL;
    bool relate = true;

    tap_need(icl_evaluate(backend, trainer, recipe, &all, tap_error()));
    for (size_t i = 0; i < all->count; i++) {
        const icl_score *score = &all->scores[i];
        relate = relate && fabs(score->bits_per_byte - score->mse / log(2)) < 1e-14 &&
                 fabs(score->bits_per_byte_se - score->se / log(2)) < 1e-14 && score->se >= 0;
    }
    tap_ok(tap,
           all->sequences == windows && relate && all->count == 4 && all->scores[1].bits_per_byte == 8 &&
               all->scores[1].se == 0,
           "%s: %d windows, bits per byte and standard errors; uniform: 8 +- 0", evaluation, (int)all->sequences);
    tap_ok(tap, strstr(all->text, "the last 496 bytes"), "the table says: %s", all->text);
    icl_evaluation_destroy(&all);
    icl_trainer_destroy(&trainer);
    icl_recipe_destroy(&recipe);
}

static void release(icl_passages *passages) {
    icl_free(&passages->bytes);
    icl_free(&passages->bits);
    icl_free(&passages->written);
}

/* The passages of all windows hold every byte of the end once with its bits, whose mean is that of the table. Batches
 * of another size may add up logits in another order, so that each bit differs by some roundings: of sums of at most 32
 * terms in each of the two layers and the output, about 100 roundings of bits near 8. */
static void check_passages(tap_run *tap, icl_backend *backend, scratch_folder *scratch, const char *text,
                           const char *evaluation) {
    icl_recipe *recipe = NULL;
    icl_trainer *trainer = open_trainer(backend, scratch, "gated-delta", SHORT, evaluation, &recipe);
    icl_evaluation *all = NULL;
    icl_passages passages = {0}, few = {0};
    size_t scored = 0, found = 0;
    double sum = 0;

    tap_need(icl_evaluate(backend, trainer, recipe, &all, tap_error()));
    tap_need(icl_passages_read(trainer, 2 * (size_t)BYTES, 1, &passages, tap_error()));
    tap_need(icl_passages_read(trainer, 2 * SHORT + 1, 2, &few, tap_error()));
    for (size_t i = 0; i < passages.count; i++) {
        const double *bits = passages.bits + i * passages.length;
        size_t end = passages.length;
        while (isnan(bits[end - 1]))
            end--;
        for (size_t place = BYTES - TEST - SHORT; place + end <= BYTES; place++)
            if (memcmp(text + place, passages.bytes + i * passages.length, end) == 0) {
                found++;
                break;
            }
        for (size_t t = 0; t < end; t++) {
            scored += !isnan(bits[t]);
            sum += isnan(bits[t]) ? 0 : bits[t];
        }
    }
    tap_ok(tap, passages.count == all->sequences && scored == TEST && found == passages.count,
           "%s: %zu passages of the text's end, each byte once", evaluation, passages.count);
    tap_ok(tap, fabs(sum / TEST - all->scores[0].bits_per_byte) < 100 * 0x1p-24 * 8,
           "their bits are the table's: %g and %g a byte", sum / TEST, all->scores[0].bits_per_byte);
    tap_ok(tap, few.count == 2 && memcmp(few.bytes, passages.bytes, 2 * few.length) == 0, "as many as are asked for");
    release(&passages);
    release(&few);
    icl_evaluation_destroy(&all);
    icl_trainer_destroy(&trainer);
    icl_recipe_destroy(&recipe);
}

static void check_refusal(tap_run *tap, icl_backend *backend, scratch_folder *scratch) {
    icl_recipe *recipe = NULL;
    icl_trainer *trainer = open_trainer(backend, scratch, "softmax", SHORT, "carried", &recipe);
    icl_evaluation *all = NULL;
    icl_error error = {0};

    icl_trainer_destroy(&trainer);
    tap_need(icl_recipe_override(recipe, "model.convolution=0", tap_error()));
    tap_need(icl_recipe_override(recipe, "model.causal=false", tap_error()));
    tap_need(icl_trainer_create(backend, recipe, &trainer, tap_error()));
    tap_ok(tap,
           icl_evaluate(backend, trainer, recipe, &all, &error) == ICL_ERROR_INPUT &&
               strstr(error.message, "expected windows or stride:K"),
           "a model without a state: %s", error.message);
    icl_trainer_destroy(&trainer);
    icl_recipe_destroy(&recipe);
}

int main(int argc, char **argv) {
    static char text[BYTES];
    tap_run tap = {0};
    scratch_folder scratch;
    icl_backend *backend = tap_open_device(&tap, argc > 1 ? argv[1] : "cpu");

    if (!backend)
        return tap_done(&tap);
    scratch_open(&scratch);
    for (size_t i = 0; i < BYTES; i++)
        text[i] = (char)('a' + icl_random_word((icl_random_key){5, 0, 0}, i) % 12);
    scratch_write(&scratch, "text", text, BYTES);
    check_carried(&tap, backend, &scratch, "gated-delta");
    check_carried(&tap, backend, &scratch, "softmax");
    check_scores(&tap, backend, &scratch, "windows", 71);
    check_scores(&tap, backend, &scratch, "stride:2", 248);
    check_scores(&tap, backend, &scratch, "carried", 71);
    check_passages(&tap, backend, &scratch, text, "windows");
    check_passages(&tap, backend, &scratch, text, "stride:2");
    check_passages(&tap, backend, &scratch, text, "carried");
    check_refusal(&tap, backend, &scratch);
    scratch_close(&scratch);
    icl_backend_close(&backend);
    return tap_done(&tap);
}
