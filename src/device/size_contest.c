/* Timing of the ways of matrix products and attention by classes of sizes, in a child process. */
#include "device/device.h"

#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "core/subprocess.h"
#include "iclab/host.h"
#include "iclab/status.h"

/* The first way stays unless the second one takes less than this part of its time: noise decides nothing. */
#define MARGIN .9

enum { LEAST_TURNS = 3, MOST_TURNS = 5 };

#define MOST_SECONDS .05                 /* the most of all turns of a class, unless the first takes longer */
#define LONG_SECONDS .5                  /* of both ways */
#define MOST_WORK    ((double)(1 << 30)) /* the most multiply-adds of a class that is timed */

/* ---- One op ---- */

/* Operands of each op, outputs first; attention is causal. */
enum { OUT = 0, LEFT, RIGHT };
enum { LOG_SUM_EXP = 1, Q, K, V };
enum { D_Q = 0, D_K, D_V, D_OUT, OF_OUT, OF_LSE, OF_Q, OF_K, OF_V };

typedef struct timed_op {
    icl_op op;
    icl_tensor t[ICL_MAX_OPERANDS];
} timed_op;

static const icl_attention_params causal = {.kind = ICL_ATTENTION_SOFTMAX, .mask = ICL_MASK_CAUSAL, .scale = .125};

static icl_status run_op(icl_backend *backend, const timed_op *timed, icl_error *error) {
    const icl_tensor *t = timed->t;

    if (timed->op == ICL_OP_matmul)
        return icl_matmul(backend, t[OUT], 1, t[LEFT], t[RIGHT], 0, error);
    if (timed->op == ICL_OP_attention_forward)
        return icl_attention_forward(backend, &causal, t[OUT], t[LOG_SUM_EXP], t[Q], t[K], t[V], error);
    return icl_attention_backward(backend, &causal, t[D_Q], t[D_K], t[D_V], t[D_OUT], t[OF_OUT], t[OF_LSE], t[OF_Q],
                                  t[OF_K], t[OF_V], error);
}

/* Creates operands that hold normal numbers. Those of attention [heads, rows, columns] have their rows and columns by
 * a letter each: q(ueries), k(eys), d (width), 1. */
static icl_status create(icl_backend *backend, const icl_sizes *sizes, timed_op *timed, icl_error *error) {
    static const char *const attention[] = {"qd", "q1", "qd", "kd", "kd"}, *const gradient[] = {"qd", "kd", "kd",
                                                                                                "qd", "qd", "q1",
                                                                                                "qd", "kd", "kd"},
                             *const product[] = {"mn", "mk", "kn"};
    const icl_op_info *info = &icl_op_infos[timed->op];
    const char *const *shapes = timed->op == ICL_OP_matmul              ? product
                                : timed->op == ICL_OP_attention_forward ? attention
                                                                        : gradient;
    const size_t *size = sizes->of;
    const size_t extents[128] = {['q'] = size[0], ['k'] = timed->op == ICL_OP_matmul ? size[2] : size[1],
                                 ['d'] = size[2], ['1'] = 1,
                                 ['m'] = size[0], ['n'] = size[1]};

    for (int i = 0; i < info->outputs + info->inputs; i++) {
        const icl_random_params normal = {.key = {.seed = 1, .stream = (uint32_t)i}, .distribution = ICL_NORMAL};
        const size_t shape[] = {size[3], extents[(unsigned char)shapes[i][0]], extents[(unsigned char)shapes[i][1]]};
        const int rank = timed->op == ICL_OP_matmul && size[3] == 1 ? 2 : 3;
        ICL_CHECK(icl_tensor_create(backend, rank, shape + (3 - rank), &timed->t[i], error));
        ICL_CHECK(icl_random_fill(backend, &normal, timed->t[i], error));
    }
    if (timed->op == ICL_OP_attention_backward)
        ICL_CHECK(icl_attention_forward(backend, &causal, timed->t[OF_OUT], timed->t[OF_LSE], timed->t[OF_Q],
                                        timed->t[OF_K], timed->t[OF_V], error));
    return ICL_OK;
}

/* ---- One class ---- */

typedef struct contest {
    icl_backend *backend;
    const icl_contested *about;
    const char *before; /* words in front of those of a way, with a comma; may be "" */
    icl_contest_listener *tell;
    void *user;
} contest;

static icl_status choose(const contest *c, int way, icl_error *error) {
    icl_text words = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_text_print(&words, error, "%s%s=%s", c->before, c->about->name, c->about->ways[way]));
    ICL_TRY(c->backend->functions->choices->take(c->backend, words.bytes, error));
done:
    icl_text_release(&words);
    return status;
}

/* Waits for the op by reading an element of its output: rusticl's clFinish has been seen to return before a kernel had
 * run. */
static icl_status wait_for(const timed_op *timed, icl_error *error) {
    icl_tensor first = timed->t[OUT];
    float value;

    for (int axis = 0; axis < first.rank; axis++)
        first = icl_tensor_slice(first, axis, 0, 1);
    return icl_tensor_read(first, &value, error);
}

static icl_status time_once(const contest *c, const timed_op *timed, int way, double *seconds, icl_error *error) {
    ICL_CHECK(choose(c, way, error));
    ICL_CHECK(wait_for(timed, error));
    const double start = icl_clock_seconds();
    ICL_CHECK(run_op(c->backend, timed, error));
    ICL_CHECK(wait_for(timed, error));
    *seconds = icl_clock_seconds() - start;
    return ICL_OK;
}

/* A class has a few turns even where they take longer than they should: what else the machine does may spoil one. */
static bool goes_on(int turns, double seconds) {
    return turns == 0 || seconds < (turns < LEAST_TURNS ? LONG_SECONDS : MOST_SECONDS);
}

/* Times the ways from `first` on by turns, each once before that to compile and to warm up. Sets the least seconds. */
static icl_status time_class(const contest *c, const icl_sizes *sizes, int first, double seconds[2], icl_error *error) {
    timed_op timed = {.op = c->about->op};
    icl_status status = ICL_OK;
    double once;

    ICL_TRY(create(c->backend, sizes, &timed, error));
    for (int way = first; way < 2; way++)
        ICL_TRY(time_once(c, &timed, way, &once, error));
    const double begin = icl_clock_seconds();
    for (int turn = 0; turn < MOST_TURNS && goes_on(turn, icl_clock_seconds() - begin); turn++)
        for (int way = first; way < 2; way++) {
            ICL_TRY(time_once(c, &timed, way, &once, error));
            seconds[way] = turn == 0 || once < seconds[way] ? once : seconds[way];
        }
done:
    for (int i = 0; i < ICL_MAX_OPERANDS; i++)
        icl_tensor_release(&timed.t[i]);
    return status;
}

/* ---- All classes ---- */

static double work_of(const icl_sizes *sizes) {
    return (double)sizes->of[0] * (double)sizes->of[1] * (double)sizes->of[2] * (double)sizes->of[3];
}

/* Attention is timed with as many queries as keys. */
static bool is_meant(const icl_contested *about, const icl_sizes *sizes) {
    return about->op == ICL_OP_matmul || (sizes->of[0] == sizes->of[1] && sizes->of[2] <= 256);
}

/* Once a class takes long on this device, those with as much work or more are left out. */
static icl_status time_classes(const contest *c, icl_contest_row *rows, icl_error *error) {
    double most = MOST_WORK;

    for (size_t i = 0; i < c->about->classes; i++) {
        icl_contest_row *row = &rows[i];
        row->sizes = c->about->class(i);
        const double work = work_of(&row->sizes);
        if (!is_meant(c->about, &row->sizes) || work > most)
            continue;
        ICL_CHECK(time_class(c, &row->sizes, 0, row->seconds, error));
        if (row->seconds[0] + row->seconds[1] > LONG_SECONDS)
            most = work / 2;
        c->tell(c->user, NULL);
    }
    return ICL_OK;
}

/* Times the second way with the variant in the classes that were timed without. */
static icl_status time_variant(const contest *c, icl_contest_row *rows, icl_error *error) {
    for (size_t i = 0; i < c->about->classes; i++) {
        double seconds[2] = {0};
        if (rows[i].seconds[0] == 0)
            continue;
        ICL_CHECK(time_class(c, &rows[i].sizes, 1, seconds, error));
        rows[i].variant = seconds[1];
        c->tell(c->user, NULL);
    }
    return ICL_OK;
}

static double least(double a, double b) {
    return a < b ? a : b;
}

/* Returns whether all classes together take less time with the variant, each in its faster way. */
static bool prefers_variant(const icl_contest_row *rows, size_t count) {
    double without = 0, with = 0;

    for (size_t i = 0; i < count; i++) {
        without += least(rows[i].seconds[0], rows[i].seconds[1]);
        with += least(rows[i].seconds[0], rows[i].variant);
    }
    return with < MARGIN * without;
}

/* Decides the classes. One that was not timed goes with the class before it that has fewer matrices. */
static void decide(const icl_contested *about, icl_contest_row *rows, bool takes_variant) {
    for (size_t i = 0; i < about->classes; i++) {
        const double second = takes_variant ? rows[i].variant : rows[i].seconds[1];
        rows[i].is_second = rows[i].seconds[0] > 0 && second < MARGIN * rows[i].seconds[0];
        for (size_t j = 0; rows[i].seconds[0] == 0 && j < i; j++)
            if (memcmp(rows[j].sizes.of, rows[i].sizes.of, 3 * sizeof(size_t)) == 0)
                rows[i].is_second = rows[j].is_second;
    }
}

static icl_status write_words(const icl_contested *about, const icl_contest_row *rows, bool takes_variant,
                              icl_text *words, icl_error *error) {
    if (takes_variant)
        ICL_CHECK(icl_text_print(words, error, "%s,", about->variant));
    if (about->has_rule)
        ICL_CHECK(icl_text_print(words, error, "%s=%s,", about->name, about->ways[0]));
    for (size_t i = 0; i < about->classes; i++) {
        const size_t *size = rows[i].sizes.of;
        if (rows[i].is_second)
            ICL_CHECK(icl_text_print(words, error, "%s:%zux%zux%zux%zu=%s,", about->name, size[0], size[1], size[2],
                                     size[3], about->ways[1]));
    }
    return ICL_OK;
}

static void name_row(const icl_contested *about, icl_contest_row *row) {
    snprintf(row->choice, sizeof row->choice, "%s", about->name);
    for (int way = 0; way < 2; way++)
        snprintf(row->ways[way], sizeof row->ways[way], "%s", about->ways[way]);
    snprintf(row->variant_name, sizeof row->variant_name, "%s", about->variant ? about->variant : "");
}

/* Runs one contest and adds its words, each with a comma, behind those of the contests before. */
static icl_status run_contest(contest c, icl_text *words, icl_error *error) {
    icl_contest_row *rows = NULL;
    char variant[64];
    bool takes_variant = false;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(c.about->classes, sizeof *rows, "rows of a contest", &rows, error));
    ICL_TRY(time_classes(&c, rows, error));
    if (c.about->variant) {
        snprintf(variant, sizeof variant, "%s,", c.about->variant);
        c.before = variant;
        ICL_TRY(time_variant(&c, rows, error));
        takes_variant = prefers_variant(rows, c.about->classes);
    }
    decide(c.about, rows, takes_variant);
    ICL_TRY(write_words(c.about, rows, takes_variant, words, error));
    for (size_t i = 0; i < c.about->classes; i++) {
        name_row(c.about, &rows[i]);
        if (rows[i].seconds[0] > 0)
            c.tell(c.user, &rows[i]);
    }
done:
    icl_free(&rows);
    return status;
}

icl_status icl_contest_run_sizes(icl_backend *backend, icl_contest_listener *tell, void *user, icl_text *words,
                                 icl_error *error) {
    const icl_contested *list = NULL;
    const icl_choice_functions *choices = backend->functions->choices;
    const size_t count = choices ? choices->contests(backend, &list) : 0;
    icl_text before = {0};
    icl_status status = ICL_OK;

    for (size_t i = 0; i < count; i++) {
        before.length = 0;
        ICL_TRY(icl_text_append(&before, words->bytes, words->length, error));
        ICL_TRY(run_contest((contest){backend, &list[i], before.bytes, tell, user}, words, error));
    }
    if (words->length > 0)
        words->bytes[--words->length] = '\0'; /* the last comma */
    if (count > 0)
        ICL_TRY(choices->take(backend, words->bytes, error));
done:
    icl_text_release(&before);
    return status;
}

/* ---- In a child process ---- */

/* A message of the child: it is at work, a row, or its end. */
typedef struct message {
    enum { AT_WORK, ROW, END } what;
    icl_contest_row row;
    icl_status status;
    icl_error error;
} message;

typedef struct listening {
    const char *spec;
    icl_contest_listener *tell;
    void *user;
    message end;
} listening;

static void say_row(void *child, const icl_contest_row *row) {
    message said = {.what = row ? ROW : AT_WORK};

    if (row)
        said.row = *row;
    icl_subprocess_send(child, &said);
}

static void work(icl_subprocess *child, void *context) {
    const listening *listener = context;
    message end = {.what = END};
    icl_backend *backend = NULL;
    icl_text words = {0};
    icl_status status = ICL_OK;
    icl_error *error = &end.error;

    ICL_TRY(icl_open_exactly(&(icl_backend_params){0}, listener->spec, &backend, error));
    ICL_TRY(icl_contest_run_sizes(backend, say_row, child, &words, error));
    if (words.length > 0)
        ICL_TRY(backend->functions->choices->keep(backend, words.bytes, error));
done:
    icl_backend_close(&backend);
    icl_text_release(&words);
    end.status = status;
    icl_subprocess_send(child, &end);
}

static void hear(void *context, const void *said) {
    const message *heard = said;
    listening *listener = context;

    if (heard->what == ROW)
        listener->tell(listener->user, &heard->row);
    else if (heard->what == END)
        listener->end = *heard;
}

icl_status icl_contest_sizes(const char *spec, double trial_seconds, icl_contest_listener *tell, void *user,
                             icl_error *error) {
    listening listener = {.spec = spec, .tell = tell, .user = user};
    icl_subprocess_outcome outcome;
    const icl_subprocess_params child = {.title = "the contest of an OpenCL device's ways",
                                         .size = sizeof(message),
                                         .seconds = trial_seconds,
                                         .work = work,
                                         .hear = hear,
                                         .context = &listener};

    ICL_CHECK(icl_subprocess_run(&child, &outcome, error));
    if (outcome.end != ICL_SUBPROCESS_DONE)
        return icl_fail(error, ICL_ERROR_DEVICE, "%s: the process that timed its ways %s", spec, outcome.words);
    return listener.end.status == ICL_OK
               ? ICL_OK
               : icl_fail(error, listener.end.status, "%s: %s", spec, listener.end.error.message);
}
