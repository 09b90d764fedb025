/*
 * Classification in context: the same bits on every device; what each kind of sequence is by definition; the law of
 * classes; reference predictors where they are right and where they are at chance.
 */
#include "task/classification.h"

#include <math.h>

#include "iclab/loss.h"
#include "same_bits.h"
#include "task/draws.h"
#include "task/streams.h"

enum { BATCH = 64, STEPS = 8, MOST = 64 };

typedef enum law { FIXED, DRAWN } law;

/* Sequences of a task on the host, one batch at a time. */
typedef struct sampled {
    icl_task *task;
    const icl_classification_state *is;
    icl_batch batch;
    float *inputs, targets[BATCH];
} sampled;

static icl_status sampled_open(sampled *s, const char *overrides, icl_backend *backend, icl_error *error) {
    *s = (sampled){0};
    ICL_CHECK(make_task(overrides, &s->task, error));
    s->is = s->task->state;
    ICL_CHECK(icl_batch_create(s->task, backend, ICL_FOR_EVALUATION, BATCH, &s->batch, error));
    return icl_allocate(icl_tensor_count(&s->batch.inputs), sizeof *s->inputs, "inputs", &s->inputs, error);
}

static icl_status sampled_next(sampled *s, icl_backend *backend, uint64_t step, icl_error *error) {
    ICL_CHECK(icl_task_sample(s->task, backend, ICL_FOR_EVALUATION, SEED, step, &s->batch, error));
    ICL_CHECK(icl_tensor_read(s->batch.inputs, s->inputs, error));
    return icl_tensor_read(s->batch.targets, s->targets, error);
}

static void sampled_close(sampled *s) {
    icl_batch_release(&s->batch);
    icl_task_destroy(&s->task);
    icl_free(&s->inputs);
}

static const float *at(const sampled *s, size_t sequence, size_t position) {
    const icl_task_shape *shape = &s->task->shape;
    return s->inputs + (sequence * shape->positions + position) * shape->inputs + s->is->places;
}

/* The vector of the `count` that is closest to `x` times `scale`; *distance is how far. */
static size_t closest(const float *x, double scale, const float *vectors, size_t count, size_t size, double *distance) {
    size_t best = 0;

    *distance = (double)INFINITY;
    for (size_t k = 0; k < count; k++) {
        double sum = 0;
        for (size_t i = 0; i < size; i++)
            sum += pow(scale * (double)x[i] - (double)vectors[k * size + i], 2);
        if (sum < *distance) {
            *distance = sum;
            best = k;
        }
    }
    *distance = sqrt(*distance);
    return best;
}

/* What a sequence shows: the class of every item, MOST + its place among the fresh ones; labels of the pairs. */
typedef struct shown {
    size_t classes[MOST], labels[MOST];
    double farthest; /* of an item times sqrt(1 + eps^2) from its centre, and of a label's vector from a known one */
    double nearest;  /* of two items from each other */
} shown;

/* The first item like that of pair j: they are of one class. */
static size_t first_like(const sampled *s, size_t sequence, size_t j) {
    double distance;

    for (size_t i = 0; i < j; i++) {
        closest(at(s, sequence, 2 * j), 1, at(s, sequence, 2 * i), 1, s->is->size, &distance);
        if (distance < 0.6)
            return i;
    }
    return j;
}

static shown look(const sampled *s, size_t sequence, bool fresh) {
    const icl_classification_state *is = s->is;
    const double scale = sqrt(1 + is->spread * is->spread);
    shown seen = {.nearest = (double)INFINITY};
    double distance;

    for (size_t j = 0; j <= is->pairs; j++) {
        const float *item = at(s, sequence, 2 * j);
        closest(item, 1, at(s, sequence, 2 * (j > 0 ? j - 1 : is->pairs)), 1, is->size, &distance);
        seen.nearest = fmin(seen.nearest, distance);
        seen.classes[j] = closest(item, scale, is->centres, is->classes, is->size, &distance);
        if (fresh)
            seen.classes[j] = MOST + first_like(s, sequence, j);
        else
            seen.farthest = fmax(seen.farthest, distance);
        seen.labels[j] =
            j == is->pairs ? (size_t)s->targets[sequence]
                           : closest(at(s, sequence, 2 * j + 1), 1, is->label_vectors, is->labels, is->size, &distance);
        if (j < is->pairs)
            seen.farthest = fmax(seen.farthest, distance);
    }
    return seen;
}

/* Whether contexts hold N / B classes B times each, with the query among them, and labels are what the law says:
 * (c + shift) mod L, or another one for each class. */
static bool is_bursty(const sampled *s, const shown *seen, law labels) {
    const size_t pairs = s->is->pairs;
    bool asked = false;

    for (size_t j = 0; j < pairs; j++) {
        size_t copies = 0;
        asked |= seen->classes[j] == seen->classes[pairs];
        for (size_t i = 0; i <= pairs; i++) {
            const bool same = seen->classes[i] == seen->classes[j];
            copies += same && i < pairs;
            if (labels == DRAWN && same != (seen->labels[i] == seen->labels[j]))
                return false;
        }
        if (copies != s->is->burstiness)
            return false;
        if (labels == FIXED && seen->labels[j] != (seen->classes[j] + s->is->shift) % s->is->labels)
            return false;
    }
    return asked;
}

static bool is_outside(const sampled *s, const shown *seen) {
    for (size_t j = 0; j <= s->is->pairs; j++) {
        if (seen->labels[j] != seen->classes[j] % s->is->labels)
            return false;
        for (size_t i = 0; i < j; i++)
            if (seen->classes[i] == seen->classes[j])
                return false;
    }
    return true;
}

#define SMALL "task.family=classification task.label_count=6 task.examples=4 task.item_size=40 "

/* Shares of the kinds of a mixture, by what sequences show. */
static icl_status check_kinds(tap_run *tap, icl_backend *backend, icl_error *error) {
    static const struct {
        const char *overrides;
        bool fresh, outside;
        law labels;
    } kinds[] = {
        {SMALL "task.classes=30", false, false, FIXED},
        {SMALL "task.classes=30 task.label_shift=2 task.burstiness=4", false, false, FIXED},
        {SMALL "task.classes=30 task.relabelled=1 task.burstiness=1", false, false, DRAWN},
        {SMALL "task.classes=1 task.fresh=1 task.burstiness=2", true, false, DRAWN},
        {SMALL "task.classes=5 task.bursty=0 task.query=outside", false, true, FIXED},
    };
    icl_status status = ICL_OK;
    sampled s = {0};

    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        size_t wrong = 0, beside = 0, places[MOST] = {0};
        double farthest = 0, nearest = (double)INFINITY;
        sampled_close(&s);
        ICL_TRY(sampled_open(&s, kinds[k].overrides, backend, error));
        for (uint64_t step = 0; step < STEPS; step++) {
            ICL_TRY(sampled_next(&s, backend, step, error));
            for (size_t i = 0; i < BATCH; i++) {
                const shown seen = look(&s, i, kinds[k].fresh);
                wrong += kinds[k].outside ? !is_outside(&s, &seen) : !is_bursty(&s, &seen, kinds[k].labels);
                farthest = fmax(farthest, seen.farthest);
                nearest = fmin(nearest, seen.nearest);
                beside += seen.classes[0] == seen.classes[1];
                for (size_t j = 0; j < s.is->pairs; j++)
                    places[j] += seen.classes[j] == seen.classes[s.is->pairs];
            }
        }
        tap_ok(tap, wrong == 0 && farthest < 0.25 && nearest > 0.03,
               "%s: %d sequences by definition, items up to %.2g from their centre, %.2g from each other",
               kinds[k].overrides, STEPS * BATCH, farthest, nearest);
        /* 512 sequences of B / N each: 5 deviations are below 57. */
        const double mean = kinds[k].outside ? 0 : (double)STEPS * BATCH * (double)s.is->burstiness / 4;
        const double together = (double)STEPS * BATCH * ((double)s.is->burstiness - 1) / 3;
        bool even = kinds[k].outside || fabs((double)beside - together) < 57;
        for (size_t j = 0; j < s.is->pairs; j++)
            even &= fabs((double)places[j] - mean) < 57;
        tap_ok(tap, even, "pairs of a class stand at any place");
    }
done:
    sampled_close(&s);
    return status;
}

/* The query of an independent sequence is of class c with p ~ (c + 1)^-alpha; half of the sequences are bursty. */
static icl_status check_mixture(tap_run *tap, icl_backend *backend, icl_error *error) {
    enum { K = 4, TOTAL = STEPS * BATCH };
    size_t of_class[K] = {0}, bursty = 0;
    double sum = 0, worst = 0;
    sampled s = {0};
    icl_status status = ICL_OK;

    ICL_TRY(sampled_open(&s, SMALL "task.classes=4 task.frequency_exponent=1.5 task.bursty=0", backend, error));
    for (uint64_t step = 0; step < STEPS; step++) {
        ICL_TRY(sampled_next(&s, backend, step, error));
        for (size_t i = 0; i < BATCH; i++)
            of_class[look(&s, i, false).classes[4]]++;
    }
    for (size_t c = 0; c < K; c++)
        sum += pow((double)c + 1, -1.5);
    for (size_t c = 0; c < K; c++) {
        const double p = pow((double)c + 1, -1.5) / sum;
        worst = fmax(worst, fabs((double)of_class[c] - TOTAL * p) / sqrt(TOTAL * p * (1 - p)));
    }
    tap_ok(tap, worst < 4.5, "classes by their frequency: %.2g deviations", worst);
    sampled_close(&s);
    ICL_TRY(sampled_open(&s, SMALL "task.classes=500 task.bursty=0.5", backend, error));
    for (uint64_t step = 0; step < STEPS; step++) {
        ICL_TRY(sampled_next(&s, backend, step, error));
        for (size_t i = 0; i < BATCH; i++) {
            const shown seen = look(&s, i, false);
            bursty += is_bursty(&s, &seen, FIXED);
        }
    }
    tap_ok(tap, fabs((double)bursty - TOTAL / 2.0) < 5 * sqrt(TOTAL / 4.0), "half of %d are bursty: %zu", TOTAL,
           bursty);
done:
    sampled_close(&s);
    return status;
}

/* One-hot places run on from a random offset, which the last of a sequence's words draws. */
static icl_status check_places(tap_run *tap, icl_backend *backend, icl_error *error) {
    enum { P = 12, OFFSETS = P - 8, WORDS = 3 * 4 + 5 };
    const icl_random_key draws = {SEED, icl_stream_for(ICL_FOR_EVALUATION, ICL_CLASSIFICATION_STREAMS), 0};
    size_t wrong = 0, of_offset[OFFSETS] = {0};
    bool all = true;
    sampled s = {0};
    icl_status status = ICL_OK;

    ICL_TRY(sampled_open(&s, SMALL "task.classes=30 task.places=12", backend, error));
    ICL_TRY(sampled_next(&s, backend, 0, error));
    for (size_t i = 0; i < BATCH; i++) {
        const float *first = at(&s, i, 0) - P;
        size_t offset = 0;
        while (offset < OFFSETS - 1 && first[offset] == 0)
            offset++;
        of_offset[offset]++;
        wrong += offset != icl_draw_below(draws, (i + 1) * WORDS - 1, OFFSETS);
        for (size_t t = 0; t < s.task->shape.positions; t++)
            for (size_t p = 0; p < P; p++)
                wrong += (at(&s, i, t) - P)[p] != (p == offset + t ? 1 : 0);
    }
    for (size_t o = 0; o < OFFSETS; o++)
        all &= of_offset[o] > 0;
    tap_ok(tap, wrong == 0 && all, "%d places, all offsets", P);
done:
    sampled_close(&s);
    return status;
}

/* Items are centres without noise, and noise alone where it outweighs them a million times. No two independent
 * vectors of 40 numbers are alike. */
static icl_status check_noise(tap_run *tap, icl_backend *backend, icl_error *error) {
    static const char *const overrides[] = {SMALL "task.classes=1 task.fresh=1 task.spread=0",
                                            SMALL "task.classes=1 task.fresh=1 task.spread=1e6"};
    sampled centres = {0}, noise = {0};
    double nearest = (double)INFINITY, distance;
    icl_status status = ICL_OK;

    ICL_TRY(sampled_open(&centres, overrides[0], backend, error));
    ICL_TRY(sampled_open(&noise, overrides[1], backend, error));
    ICL_TRY(sampled_next(&centres, backend, 0, error));
    ICL_TRY(sampled_next(&noise, backend, 0, error));
    for (size_t i = 0; i < BATCH; i++)
        for (size_t j = 0; j <= noise.is->pairs; j++) {
            closest(at(&noise, i, 2 * j), 1, centres.inputs, BATCH * centres.task->shape.positions, centres.is->size,
                    &distance);
            nearest = fmin(nearest, distance);
        }
    tap_ok(tap, nearest > 0.1, "noise stands apart from fresh centres and labels: %.2g from the nearest", nearest);
done:
    sampled_close(&centres);
    sampled_close(&noise);
    return status;
}

/* Accuracies of the four predictors: [0] uniform, context, nearest, weights. */
static icl_status measure(icl_backend *backend, const char *overrides, double accuracy[4], icl_error *error) {
    static double outputs[BATCH * 6];
    const icl_reference_predictor *known;
    sampled s = {0};
    icl_status status = ICL_OK;

    ICL_TRY(sampled_open(&s, overrides, backend, error));
    ICL_TRY(sampled_next(&s, backend, 0, error));
    const icl_shown_sequences shown_ones = {s.task, BATCH, s.inputs, &s.batch};
    known = s.task->family->references(s.task);
    for (size_t r = 0; r < 4; r++) {
        ICL_TRY(known[r].predict(&known[r], &shown_ones, outputs, error));
        accuracy[r] = 0;
        for (size_t i = 0; i < BATCH; i++) {
            const double class = (double)s.targets[i];
            accuracy[r] += icl_loss_accuracy(ICL_LOSS_CROSS_ENTROPY, 6, outputs + i * 6, &class) / BATCH;
        }
    }
done:
    sampled_close(&s);
    return status;
}

static icl_status check_references(tap_run *tap, icl_backend *backend, icl_error *error) {
    double a[4];

    ICL_CHECK(measure(backend, SMALL "task.classes=30 task.fresh=1", a, error));
    tap_ok(tap, fabs(a[0] - 1. / 6) < 1e-9 && fabs(a[1] - 1. / 2) < 1e-9 && a[2] == 1 && a[3] < .5,
           "fresh classes: context and nearest alone know them (%.3g, %.3g, %.3g, %.3g)", a[0], a[1], a[2], a[3]);
    ICL_CHECK(measure(backend, SMALL "task.classes=30 task.bursty=0 task.query=outside", a, error));
    tap_ok(tap, a[2] < .5 && a[3] == 1, "outside of the context weights alone know (%.3g, %.3g)", a[2], a[3]);
    ICL_CHECK(measure(backend, SMALL "task.classes=30 task.label_shift=1", a, error));
    tap_ok(tap, a[2] == 1 && a[3] == 0, "swapped labels: weights give the old ones (%.3g, %.3g)", a[2], a[3]);
    ICL_CHECK(measure(backend, SMALL "task.classes=30 task.spread=3 task.bursty=0 task.query=outside", a, error));
    tap_ok(tap, a[3] > .3 && a[3] < 1, "noise costs weights some answers: %.3g", a[3]);
    return ICL_OK;
}

/* Batches of different purposes, seeds and steps share nothing; one of the same has the cpu's bits. */
static icl_status check_bits(tap_run *tap, icl_backend *backend, icl_backend *cpu, icl_error *error) {
    static const char mixed[] = SMALL "task.fresh=0.3 task.relabelled=0.3 task.bursty=0.5 task.places=20";
    two_devices both = {0};
    size_t different = 0, alike = 0;
    icl_status status = ICL_OK;

    ICL_TRY(two_devices_open(&both, mixed, BATCH, backend, cpu, error));
    for (uint64_t step = 0; step < 4; step++) {
        ICL_TRY(two_devices_sample(&both, shuffled_step(step, 3, 4), error));
        different += parts_differ(&both.seen, &both.expected);
    }
    tap_ok(tap, different == 0, "a batch has the cpu's bits");
    ICL_TRY(icl_task_sample(both.task, cpu, ICL_FOR_TRAINING, SEED + 1, 1, &both.theirs, error));
    ICL_TRY(parts_read(&both.theirs, &both.expected, error));
    alike += parts_differ(&both.seen, &both.expected) < 1000;
    ICL_TRY(icl_task_sample(both.task, cpu, ICL_FOR_EVALUATION, SEED, 1, &both.theirs, error));
    ICL_TRY(parts_read(&both.theirs, &both.expected, error));
    alike += parts_differ(&both.seen, &both.expected) < 1000;
    tap_ok(tap, alike == 0, "another seed or purpose: other numbers");
done:
    two_devices_close(&both);
    return status;
}

static void check_all(tap_run *tap, icl_backend *backend, icl_backend *cpu) {
    static const char *const allowed[] = {SMALL "task.classes=2",
                                          SMALL "task.classes=5 task.bursty=0.5 task.query=outside",
                                          SMALL "task.classes=1 task.bursty=0",
                                          SMALL "task.fresh=0.5 task.relabelled=0.5",
                                          SMALL "task.burstiness=1 task.label_count=4 task.fresh=1",
                                          SMALL "task.places=9"};
    icl_error error = {0};

    tap_status(tap, check_kinds(tap, backend, &error), &error, "sampling runs");
    tap_status(tap, check_mixture(tap, backend, &error), &error, "sampling runs");
    tap_status(tap, check_places(tap, backend, &error), &error, "sampling runs");
    tap_status(tap, check_noise(tap, backend, &error), &error, "sampling runs");
    tap_status(tap, check_references(tap, backend, &error), &error, "predicting runs");
    tap_status(tap, check_bits(tap, backend, cpu, &error), &error, "sampling runs");
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++) { /* what is one beyond: tests/task/refusals.c */
        icl_task *task = NULL;
        tap_status(tap, make_task(allowed[i], &task, &error), &error, allowed[i]);
        icl_task_destroy(&task);
    }
}

int main(int count, char **arguments) {
    return test_beside_cpu(count, arguments, check_all);
}
