/*
 * Draws, cumulative sums and elements by number have no freedom at all. The truth of a gamma draw is the
 * host's function, whose law tests/backend/draws.c checks; sums are added one by one, and symbols are looked for from
 * the first on.
 */
#include <math.h>

#include "conformance/cases.h"
#include "core/allocate.h"
#include "iclab/status.h"

/* ---- The exact result ---- */

/* Returns the element of operand 1 that belongs to element i of the output, which it broadcasts against. */
static double shape_of_draw(const icl_truth *truth, size_t i) {
    const icl_case *c = truth->c;
    size_t index = 0, stride = 1;

    for (int axis = c->rank[0] - 1, own = c->rank[1] - 1; own >= 0; axis--, own--) {
        const size_t extent = c->shape[1][own];
        index += extent == 1 ? 0 : i % c->shape[0][axis] * stride;
        stride *= extent;
        i /= c->shape[0][axis];
    }
    return truth->operand[1][index];
}

static icl_status truth_random_gamma(icl_truth *truth, icl_error *error) {
    const icl_draw_params *params = &truth->c->params.draw;
    (void)error;

    for (size_t i = 0; i < icl_case_count(truth->c, 0); i++) {
        truth->bound[0][i] = 0;
        truth->operand[0][i] =
            (double)icl_random_gamma_value(params->key, params->first_index + i, (float)shape_of_draw(truth, i));
    }
    return ICL_OK;
}

static icl_status truth_cumulative_sum(icl_truth *truth, icl_error *error) {
    const icl_case *c = truth->c;
    const size_t length = c->shape[0][c->rank[0] - 1];
    (void)error;

    for (size_t i = 0; i < icl_case_count(c, 0); i++) {
        const float term = (float)truth->operand[1][i];
        truth->bound[0][i] = 0;
        truth->operand[0][i] = (double)(i % length == 0 ? term : icl_strict_sum((float)truth->operand[0][i - 1], term));
    }
    return ICL_OK;
}

/* Returns the symbol of u; sums [symbols] do not fall. */
static double symbol_of(float u, const double *sums, size_t symbols) {
    const float total = (float)sums[symbols - 1];

    if (!(u >= 0 && u < 1 && (double)total >= ICL_LEAST_WEIGHT && total < INFINITY))
        return (double)NAN;
    for (size_t i = 0; i < symbols; i++)
        if (sums[i] > (double)icl_strict_product(u, total))
            return (double)i;
    return (double)symbols;
}

static icl_status truth_categorical(icl_truth *truth, icl_error *error) {
    const icl_case *c = truth->c;
    const int rank = c->rank[0];
    const size_t length = c->shape[0][rank - 1], symbols = c->shape[2][c->rank[2] - 1];
    const bool is_one_row = c->rank[2] == 1;
    (void)error;

    for (size_t i = 0; i < icl_case_count(c, 0); i++) {
        const double *sums = truth->operand[2] + (is_one_row ? 0 : i / length * symbols);
        truth->bound[0][i] = 0;
        truth->operand[0][i] = symbols > 0 ? symbol_of((float)truth->operand[1][i], sums, symbols) : (double)NAN;
    }
    return ICL_OK;
}

/* Shuffles the first places of a list, one row after the other. */
static icl_status truth_random_distinct(icl_truth *truth, icl_error *error) {
    const icl_distinct_params *params = &truth->c->params.distinct;
    const size_t length = truth->c->shape[0][truth->c->rank[0] - 1], elements = icl_case_count(truth->c, 0);
    uint32_t *list = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(params->count, sizeof *list, "a list", &list, error));
    for (size_t start = 0; start < elements; start += length) {
        for (uint32_t i = 0; i < params->count; i++)
            list[i] = i;
        for (size_t j = 0; j < length; j++) {
            const uint64_t index = params->first_index + start / length * params->row_words + j;
            const uint64_t word = icl_random_word(params->key, index);
            const size_t place = j + (size_t)(word * (params->count - j) >> 32);
            truth->operand[0][start + j] = (double)params->least + list[place];
            truth->bound[0][start + j] = 0;
            list[place] = list[j];
        }
    }
done:
    icl_free(&list);
    return status;
}

/* Returns the row of a place, or `count` if it is none. */
static size_t number_of(double place, size_t count) {
    for (size_t i = 0; i < count; i++)
        if ((double)i == place)
            return i;
    return count;
}

/* Returns element i / length of the leading axes: the start of the row in an operand whose rows may be one for all. */
static size_t row_start(const icl_case *c, int operand, size_t row) {
    return c->rank[operand] == 1 ? 0 : row * c->shape[operand][c->rank[operand] - 1];
}

static icl_status truth_take(icl_truth *truth, icl_error *error) {
    const icl_case *c = truth->c;
    const size_t length = c->shape[0][c->rank[0] - 1], count = c->shape[1][c->rank[1] - 1];
    (void)error;

    for (size_t i = 0; i < icl_case_count(c, 0); i++) {
        const size_t number = number_of(truth->operand[2][i], count);
        truth->bound[0][i] = 0;
        truth->operand[0][i] = number < count ? truth->operand[1][row_start(c, 1, i / length) + number] : (double)NAN;
    }
    return ICL_OK;
}

static icl_status truth_put(icl_truth *truth, icl_error *error) {
    const icl_case *c = truth->c;
    const size_t length = c->shape[2][c->rank[2] - 1], count = c->shape[0][c->rank[0] - 1];
    const bool is_one = icl_case_count(c, 1) == 1;
    (void)error;

    for (size_t i = 0; i < icl_case_count(c, 0); i++)
        truth->bound[0][i] = 0;
    for (size_t i = 0; i < icl_case_count(c, 2); i++) {
        const size_t number = number_of(truth->operand[2][i], count);
        if (number < count)
            truth->operand[0][i / length * count + number] = truth->operand[1][is_one ? 0 : i];
    }
    return ICL_OK;
}

/* ---- Cases ---- */

typedef struct shape {
    int rank;
    size_t extents[ICL_MAX_RANK];
} shape;

static void set_shape(icl_case *c, int operand, const shape *s) {
    icl_case_set_shape(c, operand, s->rank, s->extents[0], s->extents[1], s->extents[2], s->extents[3]);
}

/* Adds shapes for each draw and shapes for a row of draws; the last first draw crosses from one word of Philox's
 * counter to the next. */
static void gamma_cases(icl_case_list *list) {
    static const shape shapes[] = {{0, {0}},       {1, {7}},         {2, {33, 17}},
                                   {3, {5, 0, 3}}, {3, {3, 21, 11}}, {4, {2, 3, 5, 7}}};
    static const uint64_t firsts[] = {0, 1, (UINT64_C(1) << 28) - 5, (UINT64_C(1) << 58) + 3};
    static const char *const names[] = {"random_gamma", "random_gamma from 1", "random_gamma from 2^28 - 5",
                                        "random_gamma from 2^58 + 3"};

    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (size_t first = 0; first < sizeof firsts / sizeof *firsts; first++) {
            icl_case c = {.op = ICL_OP_random_gamma,
                          .values = first % 2 == 0 ? ICL_VALUES_RANDOM : ICL_VALUES_SPECIAL,
                          .params = {.draw = {{.seed = 9, .stream = 4, .step = UINT64_C(1) << 33}, firsts[first]}}};
            set_shape(&c, 0, &shapes[s]);
            set_shape(&c, 1, &shapes[s]);
            icl_cases_add(list, c, names[first]);
            if (shapes[s].rank > 1 && first == 0) {
                const shape row = {1, {shapes[s].extents[shapes[s].rank - 1]}};
                set_shape(&c, 1, &row);
                icl_cases_add(list, c, "random_gamma of a row");
            } else if (shapes[s].rank > 1 && first == 2) {
                c.in_place = 2;
                icl_cases_add(list, c, "random_gamma in place");
            }
        }
}

static void sum_cases(icl_case_list *list) {
    static const shape shapes[] = {{1, {1}},         {1, {257}},         {2, {33, 17}},   {2, {5, 0}},
                                   {3, {3, 21, 11}}, {4, {2, 3, 5, 70}}, {2, {130, 4099}}};
    static const icl_values values[] = {ICL_VALUES_RANDOM, ICL_VALUES_INTEGERS, ICL_VALUES_CANCELLING,
                                        ICL_VALUES_SPECIAL, ICL_VALUES_ABSORBED};

    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
            icl_case c = {.op = ICL_OP_cumulative_sum, .values = values[v], .in_place = v == 1 ? 2 : 0};
            set_shape(&c, 0, &shapes[s]);
            set_shape(&c, 1, &shapes[s]);
            icl_cases_add(list, c, v == 1 ? "cumulative_sum in place" : "cumulative_sum");
        }
}

/* Adds rows of sums for each row of numbers and one for all, few symbols and many, none and one. */
static void category_cases(icl_case_list *list) {
    static const struct {
        shape numbers;
        size_t symbols;
    } sizes[] = {{{1, {101}}, 5},       {{2, {33, 17}}, 64},       {{2, {5, 0}}, 3},      {{2, {4, 9}}, 0},
                 {{3, {3, 21, 11}}, 1}, {{4, {2, 3, 5, 70}}, 129}, {{2, {3, 4099}}, 5000}};
    static const icl_values values[] = {ICL_VALUES_RANDOM, ICL_VALUES_SPECIAL};

    for (unsigned one = 0; one < 2; one++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
            for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
                icl_case c = {.op = ICL_OP_categorical, .values = values[v], .in_place = one ? 2 : 0};
                shape sums = sizes[s].numbers;
                sums.extents[sums.rank - 1] = sizes[s].symbols;
                if (one)
                    sums = (shape){1, {sizes[s].symbols}};
                set_shape(&c, 0, &sizes[s].numbers);
                set_shape(&c, 1, &sizes[s].numbers);
                set_shape(&c, 2, &sums);
                icl_cases_add(list, c, one ? "categorical of one row" : "categorical");
            }
}

/* Adds rows of all numbers, of some and of one; rows that share words and rows that leave some out. */
static void distinct_cases(icl_case_list *list) {
    static const struct {
        shape out;
        icl_distinct_params params;
    } rows[] = {
        {{1, {7}}, {{3, 4, 5}, 0, 7, 0, 8}},
        {{2, {33, 8}}, {{3, 4, UINT64_C(1) << 33}, 2, 24, 1, 31}},
        {{3, {3, 21, 64}}, {{3, 4, 5}, (UINT64_C(1) << 34) - 5, 64, 100, 64}},
        {{2, {129, 1}}, {{3, 4, 5}, 1, 1, 0, 1000}},
        {{2, {3, 0}}, {{3, 4, 5}, 0, 5, 0, 5}},
        {{4, {2, 3, 5, 19}}, {{3, 4, 5}, UINT64_MAX - 200, 7, ICL_MOST_DISTINCT - 20, 20}},
        {{2, {2, 300}}, {{3, 4, 5}, 0, 300, 1 << 23, 1 << 20}},
    };

    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        icl_case c = {.op = ICL_OP_random_distinct, .params = {.distinct = rows[r].params}};
        set_shape(&c, 0, &rows[r].out);
        icl_cases_add(list, c, "random_distinct");
    }
}

static const struct {
    shape places;
    size_t count;
} numbered[] = {{{1, {7}}, 5},         {{2, {33, 17}}, 64},       {{2, {5, 0}}, 3},      {{2, {4, 9}}, 0},
                {{3, {3, 21, 11}}, 1}, {{4, {2, 3, 5, 70}}, 129}, {{2, {3, 401}}, 5000}, {{2, {130, 5}}, 9}};

static icl_case numbered_case(icl_op op, size_t size, int rows, int others, unsigned variant) {
    icl_case c = {.op = op, .values = variant % 2 == 0 ? ICL_VALUES_RANDOM : ICL_VALUES_SPECIAL};
    shape row = numbered[size].places;

    set_shape(&c, others, &row);
    set_shape(&c, 2, &row);
    row.extents[row.rank - 1] = numbered[size].count;
    set_shape(&c, rows, &row);
    return c;
}

/* Adds rows for each row of places and one for all. */
static void take_cases(icl_case_list *list) {
    for (size_t size = 0; size < sizeof numbered / sizeof *numbered; size++)
        for (unsigned variant = 0; variant < 4; variant++) {
            icl_case c = numbered_case(ICL_OP_take, size, 1, 0, variant);
            if (variant > 1)
                icl_case_set_shape(&c, 1, 1, numbered[size].count, 0, 0, 0);
            icl_cases_add(list, c, variant > 1 ? "take of one row" : "take");
        }
}

/* Adds values for each place and one for all. */
static void put_cases(icl_case_list *list) {
    for (size_t size = 0; size < sizeof numbered / sizeof *numbered; size++)
        for (unsigned variant = 0; variant < 4; variant++) {
            icl_case c = numbered_case(ICL_OP_put, size, 0, 1, variant);
            if (variant > 1)
                icl_case_set_shape(&c, 1, 1, 1, 0, 0, 0);
            icl_cases_add(list, c, variant > 1 ? "put of one value" : "put");
        }
}

static bool put_updates(const icl_case *c, int output) {
    (void)c;
    return output == 0;
}

/* ---- Values ---- */

/* Writes numbers below `count`, some of them twice; special values include some that are none. */
static void number_inputs(const icl_case *c, int operand, float *const *operands) {
    static const float none[] = {-1, NAN, 1.5F, INFINITY, 1e30F, -0.0F};
    const int rows = c->op == ICL_OP_take ? 1 : 0;
    const size_t count = c->shape[rows][c->rank[rows] - 1];
    const icl_random_key key = {.seed = c->seed, .stream = 14};

    if (operand != 2) {
        icl_case_values(c, operand, false, operands[operand]);
        return;
    }
    for (size_t i = 0; i < icl_case_count(c, 2); i++) {
        const uint32_t word = icl_random_word(key, i), kind = word >> 28;
        operands[2][i] = count > 0 ? (float)(word % count) : 0.0F;
        if (c->values == ICL_VALUES_SPECIAL && kind < 7)
            operands[2][i] = kind < 6 ? none[kind] : (float)count;
    }
}

/* Writes shapes from 2^-5 to 2^11, most of them below 8; special values include some that no distribution has. */
static void gamma_inputs(const icl_case *c, int operand, float *const *operands) {
    static const float special[] = {
        0, -1, NAN, INFINITY, 0x1p-11F, 0x1p-10F, 0x1p30F, 0x1.000002p30F, 0x1p-149F, 1, 0x1.fffffep-1F, 1e6F};
    const icl_random_key key = {.seed = c->seed, .stream = 11};

    for (size_t i = 0; i < icl_case_count(c, operand); i++) {
        const uint32_t word = icl_random_word(key, i), kind = word >> 27;
        const float mantissa = 1 + (float)(word & 0xfffff) * 0x1p-20F;
        operands[operand][i] = kind < 16 ? ldexpf(mantissa, (int)kind - 5) : 0.05F + 8 * (mantissa - 1);
        if (c->values == ICL_VALUES_SPECIAL && kind < sizeof special / sizeof *special)
            operands[operand][i] = special[kind];
    }
}

/* Writes rows of sums of weights, some of which are 0; special rows have a sum that is too small, or none. */
static void write_sums(const icl_case *c, float *sums) {
    const size_t symbols = c->shape[2][c->rank[2] - 1];
    const icl_random_key key = {.seed = c->seed, .stream = 12};

    for (size_t i = 0; i < icl_case_count(c, 2); i++) {
        const uint32_t word = icl_random_word(key, i), row = (uint32_t)(i / symbols) % 4;
        const float weight = word >> 30 == 0 ? 0 : (float)(word & 0xffff) + 1;
        sums[i] = (i % symbols == 0 ? 0 : sums[i - 1]) + weight;
        if (c->values == ICL_VALUES_SPECIAL && row == 1)
            sums[i] = i % symbols + 1 < symbols ? 0 : 0x1p-100F;
        if (c->values == ICL_VALUES_SPECIAL && row == 2)
            sums[i] = 0x1.fffffep-101F;
        if (c->values == ICL_VALUES_SPECIAL && row == 3)
            sums[i] = INFINITY;
    }
}

/* Writes numbers in [0, 1), both ends often. */
static void category_inputs(const icl_case *c, int operand, float *const *operands) {
    static const float special[] = {0, 1, -1, NAN, INFINITY, -0.0F, 0x1p-24F, 0x1.fffffep-1F};
    const icl_random_key key = {.seed = c->seed, .stream = 13};

    if (operand == 2) {
        write_sums(c, operands[operand]);
        return;
    }
    for (size_t i = 0; i < icl_case_count(c, operand); i++) {
        const uint32_t word = icl_random_word(key, i), kind = word & 31;
        operands[operand][i] = (float)(word >> 8) * 0x1p-24F;
        if (kind == 0 || kind == 7)
            operands[operand][i] = special[kind];
        if (c->values == ICL_VALUES_SPECIAL && kind < 8)
            operands[operand][i] = special[kind];
    }
}

/* ---- Calls and benchmarks ---- */

ICL_CASE_CALL(random_gamma, icl_random_gamma(on, &c->params.draw, t[0], t[1], error))
ICL_CASE_CALL(cumulative_sum, icl_cumulative_sum(on, t[0], t[1], error))
ICL_CASE_CALL(categorical, icl_categorical(on, t[0], t[1], t[2], error))

ICL_CASE_CALL(random_distinct, icl_random_distinct(on, &c->params.distinct, t[0], error))
ICL_CASE_CALL(take, icl_take(on, t[0], t[1], t[2], error))
ICL_CASE_CALL(put, icl_put(on, t[0], t[1], t[2], error))

static double sum_flops(const icl_case *c) {
    return (double)icl_case_count(c, 0);
}

/* Fills the operands of a benchmark with inputs of the domain. */
static icl_status fill(const icl_case *c, icl_backend *backend, const icl_tensor *operands, icl_error *error) {
    float *values[3] = {NULL, NULL, NULL};
    icl_status status = ICL_OK;
    (void)backend;

    for (int i = 1; i < 3; i++)
        if (operands[i].buffer) {
            ICL_TRY(icl_allocate(icl_case_count(c, i), sizeof **values, "inputs", &values[i], error));
            icl_describe(c->op)->inputs(c, i, values);
            ICL_TRY(icl_tensor_write(operands[i], values[i], error));
        }
done:
    icl_free(&values[1]);
    icl_free(&values[2]);
    return status;
}

static const icl_timed_shape gamma_timed[] = {
    {"random_gamma (256Ki)",
     {.draw = {.key = {.seed = 1}}},
     {ICL_AXIS(ICL_MILLIONS / 16), ICL_AXIS(ICL_MILLIONS / 16)}},
};
static const icl_timed_shape sum_timed[] = {
    {"cumulative_sum (16384x64)", {0}, {ICL_AXES2(16384, 64), ICL_AXES2(16384, 64)}},
};
static const icl_timed_shape category_timed[] = {
    {"categorical of 64 (16384x64)", {0}, {ICL_AXES2(16384, 64), ICL_AXES2(16384, 64), ICL_AXES2(16384, 64)}},
};

const icl_described_op icl_described_random_gamma =
    ICL_DESCRIBED(gamma_timed, .call = call_random_gamma, .truth = truth_random_gamma, .cases = gamma_cases,
                  .inputs = gamma_inputs, .fill = fill);
const icl_described_op icl_described_cumulative_sum = ICL_DESCRIBED(
    sum_timed, .call = call_cumulative_sum, .truth = truth_cumulative_sum, .cases = sum_cases, .flops = sum_flops);
const icl_described_op icl_described_categorical =
    ICL_DESCRIBED(category_timed, .call = call_categorical, .truth = truth_categorical, .cases = category_cases,
                  .inputs = category_inputs, .fill = fill);

static const icl_timed_shape distinct_timed[] = {
    {"random_distinct of 64 (16384x8)", {.distinct = {{.seed = 1}, 0, 8, 0, 64}}, {ICL_AXES2(16384, 8)}},
};
static const icl_timed_shape take_timed[] = {
    {"take of 64 (16384x64)", {0}, {ICL_AXES2(16384, 64), ICL_AXES2(16384, 64), ICL_AXES2(16384, 64)}},
};
static const icl_timed_shape put_timed[] = {
    {"put into 64 (16384x64)", {0}, {ICL_AXES2(16384, 64), ICL_AXES2(16384, 64), ICL_AXES2(16384, 64)}},
};

const icl_described_op icl_described_random_distinct = ICL_DESCRIBED(
    distinct_timed, .call = call_random_distinct, .truth = truth_random_distinct, .cases = distinct_cases);
const icl_described_op icl_described_take = ICL_DESCRIBED(take_timed, .call = call_take, .truth = truth_take,
                                                          .cases = take_cases, .inputs = number_inputs, .fill = fill);
const icl_described_op icl_described_put =
    ICL_DESCRIBED(put_timed, .call = call_put, .truth = truth_put, .cases = put_cases, .inputs = number_inputs,
                  .is_updated = put_updates, .fill = fill);
