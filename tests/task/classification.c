/* Classification in context: the same bits on every device; each kind of sequence by definition; the law of classes;
 * reference predictors in cases where they are right and where they are at chance. */
#include "frame.h"
#include "task/draws.h"
#include "task/parts.h"
#include "task/streams.h"

enum { BATCH = 64, STEPS = 8, MOST = 64 };

typedef enum law { FIXED, DRAWN } law;

static const icl_classification_state *state_of(const drawn *batch) {
    return batch->task->state;
}

static const float *at(const drawn *batch, size_t sequence, size_t position) {
    return input_at(batch, sequence, position) + state_of(batch)->places;
}

/* Returns which of `count` vectors is closest to `x` times `scale`; *distance is its distance. */
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

/* The contents of a sequence: the class of every item, or MOST + its place if it is a fresh one; the labels of the
 * pairs. */
typedef struct shown {
    size_t classes[MOST], labels[MOST];
    double farthest; /* largest distance: item times sqrt(1 + eps^2) to centre, or label's vector to a known one */
    double nearest;  /* smallest distance of two items */
} shown;

/* Returns the first item that is like that of pair j, and so of one class with it. */
static size_t first_like(const drawn *s, size_t sequence, size_t j) {
    double distance;

    for (size_t i = 0; i < j; i++) {
        closest(at(s, sequence, 2 * j), 1, at(s, sequence, 2 * i), 1, state_of(s)->item_size, &distance);
        if (distance < 0.6)
            return i;
    }
    return j;
}

static shown look(const drawn *s, size_t sequence, bool fresh) {
    const icl_classification_state *state = state_of(s);
    const double scale = sqrt(1 + state->spread * state->spread);
    shown seen = {.nearest = (double)INFINITY};
    double distance;

    for (size_t j = 0; j <= state->examples; j++) {
        const float *item = at(s, sequence, 2 * j);
        closest(item, 1, at(s, sequence, 2 * (j > 0 ? j - 1 : state->examples)), 1, state->item_size, &distance);
        seen.nearest = fmin(seen.nearest, distance);
        seen.classes[j] = closest(item, scale, state->centres, state->classes, state->item_size, &distance);
        if (fresh)
            seen.classes[j] = MOST + first_like(s, sequence, j);
        else
            seen.farthest = fmax(seen.farthest, distance);
        seen.labels[j] = j == state->examples ? (size_t)target_at(s, sequence, 0)
                                              : closest(at(s, sequence, 2 * j + 1), 1, state->label_vectors,
                                                        state->label_count, state->item_size, &distance);
        if (j < state->examples)
            seen.farthest = fmax(seen.farthest, distance);
    }
    return seen;
}

/* Returns whether contexts hold N / B classes B times each, with the query's class among them, and labels follow the
 * law: (c + shift) mod L, or another one for each class. */
static bool is_bursty(const drawn *s, const shown *seen, law labels) {
    const size_t pairs = state_of(s)->examples;
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
        if (copies != state_of(s)->burstiness)
            return false;
        if (labels == FIXED &&
            seen->labels[j] != (seen->classes[j] + state_of(s)->label_shift) % state_of(s)->label_count)
            return false;
    }
    return asked;
}

static bool is_outside(const drawn *s, const shown *seen) {
    for (size_t j = 0; j <= state_of(s)->examples; j++) {
        if (seen->labels[j] != seen->classes[j] % state_of(s)->label_count)
            return false;
        for (size_t i = 0; i < j; i++)
            if (seen->classes[i] == seen->classes[j])
                return false;
    }
    return true;
}

#define SMALL "task.family=classification task.label_count=6 task.examples=4 task.item_size=40 "

/* Checks the kinds of sequences of a mixture, one kind at a time, by their definition. */
static void check_kinds(task_test *test) {
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
    drawn s = {0};

    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        size_t wrong = 0, beside = 0, places[MOST] = {0};
        double farthest = 0, nearest = (double)INFINITY;
        draw(&s, test->device, BATCH, "%s", kinds[k].overrides);
        for (uint64_t step = 0; step < STEPS; step++) {
            draw_step(&s, SEED, step);
            for (size_t i = 0; i < BATCH; i++) {
                const shown seen = look(&s, i, kinds[k].fresh);
                wrong += kinds[k].outside ? !is_outside(&s, &seen) : !is_bursty(&s, &seen, kinds[k].labels);
                farthest = fmax(farthest, seen.farthest);
                nearest = fmin(nearest, seen.nearest);
                beside += seen.classes[0] == seen.classes[1];
                for (size_t j = 0; j < state_of(&s)->examples; j++)
                    places[j] += seen.classes[j] == seen.classes[state_of(&s)->examples];
            }
        }
        tap_ok(&test->tap, wrong == 0 && farthest < 0.25 && nearest > 0.03,
               "%s: %d sequences by definition, items up to %.2g from their centre, %.2g from each other",
               kinds[k].overrides, STEPS * BATCH, farthest, nearest);
        /* Of the 512 sequences, expect B / N each; 5 deviations are below 57. */
        const double mean = kinds[k].outside ? 0 : (double)STEPS * BATCH * (double)state_of(&s)->burstiness / 4;
        const double together = (double)STEPS * BATCH * ((double)state_of(&s)->burstiness - 1) / 3;
        bool even = kinds[k].outside || fabs((double)beside - together) < 57;
        for (size_t j = 0; j < state_of(&s)->examples; j++)
            even &= fabs((double)places[j] - mean) < 57;
        tap_ok(&test->tap, even, "pairs of a class stand at any place");
    }
    release(&s);
}

/* The query of an independent sequence has class c with p ~ (c + 1)^-alpha; half of the sequences are bursty. */
static void check_mixture(task_test *test) {
    enum { K = 4, TOTAL = STEPS * BATCH };
    size_t of_class[K] = {0}, bursty = 0;
    double sum = 0, worst = 0;
    drawn s = {0};

    draw(&s, test->device, BATCH, SMALL "task.classes=4 task.frequency_exponent=1.5 task.bursty=0");
    for (uint64_t step = 0; step < STEPS; step++) {
        draw_step(&s, SEED, step);
        for (size_t i = 0; i < BATCH; i++)
            of_class[look(&s, i, false).classes[4]]++;
    }
    for (size_t c = 0; c < K; c++)
        sum += pow((double)c + 1, -1.5);
    for (size_t c = 0; c < K; c++) {
        const double p = pow((double)c + 1, -1.5) / sum;
        worst = fmax(worst, fabs((double)of_class[c] - TOTAL * p) / sqrt(TOTAL * p * (1 - p)));
    }
    tap_ok(&test->tap, worst < 4.5, "classes by their frequency: %.2g deviations", worst);
    draw(&s, test->device, BATCH, SMALL "task.classes=500 task.bursty=0.5");
    for (uint64_t step = 0; step < STEPS; step++) {
        draw_step(&s, SEED, step);
        for (size_t i = 0; i < BATCH; i++) {
            const shown seen = look(&s, i, false);
            bursty += is_bursty(&s, &seen, FIXED);
        }
    }
    tap_ok(&test->tap, fabs((double)bursty - TOTAL / 2.0) < 5 * sqrt(TOTAL / 4.0), "half of %d are bursty: %zu", TOTAL,
           bursty);
    release(&s);
}

/* One-hot places continue from a random offset, which the last word of a sequence draws. */
static void check_places(task_test *test) {
    enum { P = 12, OFFSETS = P - 8, WORDS = 3 * 4 + 5 };
    const icl_random_key draws = {SEED, icl_stream_for(ICL_FOR_EVALUATION, ICL_CLASSIFICATION_STREAMS), 0};
    size_t wrong = 0, of_offset[OFFSETS] = {0};
    bool all = true;
    drawn s = {0};

    draw(&s, test->device, BATCH, SMALL "task.classes=30 task.places=12");
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
    tap_ok(&test->tap, wrong == 0 && all, "%d places, all offsets", P);
    release(&s);
}

/* Items are centres if there is no noise, and noise if that is a million times larger. No two independent vectors of 40
 * numbers are alike. */
static void check_noise(task_test *test) {
    drawn centres = {0}, noise = {0};
    double nearest = (double)INFINITY, distance;

    draw(&centres, test->device, BATCH, SMALL "task.classes=1 task.fresh=1 task.spread=0");
    draw(&noise, test->device, BATCH, SMALL "task.classes=1 task.fresh=1 task.spread=1e6");
    for (size_t i = 0; i < BATCH; i++)
        for (size_t j = 0; j <= state_of(&noise)->examples; j++) {
            closest(at(&noise, i, 2 * j), 1, centres.inputs, BATCH * centres.task->shape.positions,
                    state_of(&centres)->item_size, &distance);
            nearest = fmin(nearest, distance);
        }
    tap_ok(&test->tap, nearest > 0.1, "noise stands apart from fresh centres and labels: %.2g from the nearest",
           nearest);
    release(&centres);
    release(&noise);
}

/* Measures the accuracies of the four predictors. */
static void measure(task_test *test, const char *overrides, double accuracy[4]) {
    static const char *const names[] = {"uniform", "context", "nearest", "weights"};
    drawn s = {0};

    draw(&s, test->device, BATCH, "%s", overrides);
    tap_ok(&test->tap, has_predictors(&s, names, 4), "uniform, context, nearest and weights are there");
    for (size_t i = 0; i < 4; i++) {
        predict(&s, names[i]);
        accuracy[i] = mean_of_classes(&s, icl_loss_accuracy);
    }
    release(&s);
}

static void check_references(task_test *test) {
    double a[4];

    measure(test, SMALL "task.classes=30 task.fresh=1", a);
    tap_ok(&test->tap, fabs(a[0] - 1. / 6) < 1e-9 && fabs(a[1] - 1. / 2) < 1e-9 && a[2] == 1 && a[3] < .5,
           "fresh classes: context and nearest alone know them (%.3g, %.3g, %.3g, %.3g)", a[0], a[1], a[2], a[3]);
    measure(test, SMALL "task.classes=30 task.bursty=0 task.query=outside", a);
    tap_ok(&test->tap, a[2] < .5 && a[3] == 1, "outside of the context weights alone know (%.3g, %.3g)", a[2], a[3]);
    measure(test, SMALL "task.classes=30 task.label_shift=1", a);
    tap_ok(&test->tap, a[2] == 1 && a[3] == 0, "swapped labels: weights give the old ones (%.3g, %.3g)", a[2], a[3]);
    measure(test, SMALL "task.classes=30 task.spread=3 task.bursty=0 task.query=outside", a);
    tap_ok(&test->tap, a[3] > .3 && a[3] < 1, "noise costs weights some answers: %.3g", a[3]);
}

/* A joined sequence has the numbers of the separate one, two positions in one, and the predictors' answers. */
static void check_joined(task_test *test) {
#define BOTH SMALL "task.fresh=0.3 task.relabelled=0.3 task.bursty=0.5 task.classes=30 task.places=9"
    static const char *const names[] = {"uniform", "context", "nearest", "weights"};
    enum { D = 40, N = 4, L = 6 };
    drawn apart = {0}, joined = {0};
    size_t wrong = 0, answers = 0;

    draw(&apart, test->device, BATCH, BOTH);
    draw(&joined, test->device, BATCH, BOTH " task.joined=true");
#undef BOTH
    tap_ok(&test->tap, joined.task->shape.positions == N + 1 && joined.task->shape.inputs == 9 + 2 * D,
           "a pair has one position, a query too");
    for (size_t i = 0; i < BATCH; i++)
        for (size_t j = 0; j <= N; j++)
            for (size_t k = 0; k < D; k++) {
                const float label = j < N ? at(&apart, i, 2 * j + 1)[k] : 0;
                wrong += at(&joined, i, j)[k] != at(&apart, i, 2 * j)[k] || at(&joined, i, j)[D + k] != label;
            }
    for (size_t p = 0; p < 4; p++) {
        predict(&apart, names[p]);
        predict(&joined, names[p]);
        for (size_t i = 0; i < (size_t)BATCH * L; i++)
            answers += apart.outputs[i] != joined.outputs[i];
    }
    for (size_t i = 0; i < BATCH; i++)
        wrong += apart.targets[i] != joined.targets[i];
    tap_ok(&test->tap, wrong == 0 && answers == 0, "joined pairs are separate ones side by side (%zu, %zu differ)",
           wrong, answers);
    release(&apart);
    release(&joined);
}

static void check_all_bits(task_test *test) {
    check_bits(test, SMALL "task.fresh=0.3 task.relabelled=0.3 task.bursty=0.5 task.places=20", BATCH, 4);
}

int main(int count, char **arguments) {
    static task_check *const checks[] = {check_kinds,      check_mixture, check_places,  check_noise,
                                         check_references, check_joined,  check_all_bits};
    return run_checks(count, arguments, checks, sizeof checks / sizeof *checks);
}
