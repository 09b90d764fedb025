#include "bench_scaling.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "iclab/json.h"
#include "iclab/number.h"
#include "iclab/recipe.h"

enum { MOST_RANKS = 1048576, MOST_ROWS = 64 };

const char *format_seconds(double seconds, char text[16]) {
    static const struct {
        double unit;
        const char *name;
    } units[] = {{1, "s "}, {1e-3, "ms"}, {1e-6, "us"}, {1e-9, "ns"}};
    size_t i = 0;

    if (isnan(seconds)) {
        snprintf(text, 16, "%9s", "-");
        return text;
    }
    while (i < 3 && seconds < units[i].unit)
        i++;
    snprintf(text, 16, "%6.4g %s", seconds / units[i].unit, units[i].name);
    return text;
}

/* ---- What is asked for ---- */

typedef struct rank_list {
    size_t counts[MOST_ROWS], count;
} rank_list;

static bool add_rank(rank_list *list, uint64_t ranks) {
    if (ranks < 1 || ranks > MOST_RANKS || list->count == MOST_ROWS ||
        (list->count > 0 && ranks <= list->counts[list->count - 1]))
        return false;
    list->counts[list->count++] = (size_t)ranks;
    return true;
}

/* "4", or "1..1024": doubled from the first to the last. */
static bool add_part(rank_list *list, const char *part, size_t length) {
    const char *dots = memchr(part, '.', length);
    const size_t left = dots ? (size_t)(dots - part) : length;
    uint64_t first, last;

    if (!icl_parse_count(part, left, &first))
        return false;
    if (!dots)
        return add_rank(list, first);
    if (length < left + 2 || dots[1] != '.' || !icl_parse_count(dots + 2, length - left - 2, &last) || first < 1 ||
        last > MOST_RANKS)
        return false;
    for (; first < last; first *= 2)
        if (!add_rank(list, first))
            return false;
    return add_rank(list, last);
}

static icl_status read_ranks(const scaling_options *options, rank_list *list, icl_error *error) {
    *list = (rank_list){.count = 0};
    for (const char *at = options->ranks;; at++) {
        const size_t length = strcspn(at, ",");
        if (!add_part(list, at, length))
            return icl_fail(
                error, ICL_ERROR_INPUT,
                "bench: --ranks %s: expected rising numbers from 1 to %d, such as 1,2,4, or 1..1024, doubled",
                options->ranks, MOST_RANKS);
        at += length;
        if (*at == '\0')
            return ICL_OK;
    }
}

static icl_status read_network(const char *text, icl_network *network, icl_error *error) {
    const char *colon = strchr(text, ':');
    double microseconds, gigabytes;

    if (!colon || !icl_parse_number(text, (size_t)(colon - text), &microseconds) ||
        !icl_parse_number(colon + 1, strlen(colon + 1), &gigabytes) || microseconds < 0 || !(gigabytes > 0))
        return icl_fail(error, ICL_ERROR_INPUT,
                        "bench: --network %s: expected microseconds of a message and gigabytes a second, such as %s",
                        text, DEFAULT_NETWORK);
    *network = (icl_network){1e-6 * microseconds, 1e9 * gigabytes};
    return ICL_OK;
}

icl_status check_scaling_usage(const scaling_options *options, icl_error *error) {
    icl_network network;
    rank_list list;

    if (!options->ranks && (options->network || options->cores.given))
        return icl_fail(error, ICL_ERROR_INPUT, "bench: %s: expected --ranks beside it",
                        options->network ? "--network" : "--cores");
    if (options->cores.given && (options->cores.value < 1 || options->cores.value > MOST_RANKS))
        return icl_fail(error, ICL_ERROR_INPUT, "bench: --cores %" PRIu64 ": expected 1 to %d", options->cores.value,
                        MOST_RANKS);
    if (options->network)
        ICL_CHECK(read_network(options->network, &network, error));
    return options->ranks ? read_ranks(options, &list, error) : ICL_OK;
}

icl_status find_network(const scaling_options *options, const icl_ranks *ranks, icl_network *network,
                        icl_error *error) {
    if (options->network || ranks->count == 1)
        return read_network(options->network ? options->network : DEFAULT_NETWORK, network, error);
    return icl_network_measure(ranks, network, error);
}

/* ---- Rows ---- */

static icl_status keep_row(kept *keep, const icl_scaling_row *row, icl_error *error) {
    icl_json json = {0};

    icl_json_count(&json, "ranks", row->ranks);
    icl_json_count(&json, "slices", row->slices);
    icl_json_number(&json, "step_s", row->step);
    icl_json_number(&json, "compute_s", row->divided);
    icl_json_number(&json, "repeated_s", row->repeated);
    icl_json_number(&json, "latency_s", row->latency);
    icl_json_number(&json, "bandwidth_s", row->bandwidth);
    icl_json_number(&json, "speed_up", row->speed_up);
    icl_json_number(&json, "efficiency", row->efficiency);
    icl_json_number(&json, "hours", row->hours);
    icl_json_number(&json, "rank_hours", row->rank_hours);
    icl_json_number(&json, "gathered_bytes", row->gathered);
    icl_json_text(&json, "limit", icl_scaling_limit_name(row->limit));
    return kept_row(keep, &json, error);
}

static void print_header(const icl_bench_params *params, const scaling_options *options, const icl_network *network) {
    printf("step of %s on %s, each rank's compute measured; a gather of %.4g us a message and %.4g GB/s\n",
           params->recipe_name, icl_backend_capabilities(params->device)->spec, 1e6 * network->latency,
           1e-9 * network->bandwidth);
    if (options->cores.given)
        printf("all ranks on one machine, %" PRIu64 " cores\n", options->cores.value);
    printf("\n%8s %8s %9s %9s %9s %9s %9s %9s %6s %9s %10s  %s\n", "ranks", "slices", "compute", "repeated", "latency",
           "bandwidth", "step", "speed-up", "effic.", "hours", "rank-hours", "limit");
}

static icl_status print_row(const icl_scaling_row *row, kept *keep, icl_error *error) {
    char divided[16], repeated[16], latency[16], bandwidth[16], step[16];

    if (!keep->json)
        printf("%8zu %8zu %s %s %s %s %s %8.4gx %4.0f %% %9.4g %10.4g  %s\n", row->ranks, row->slices,
               format_seconds(row->divided, divided), format_seconds(row->repeated, repeated),
               format_seconds(row->latency, latency), format_seconds(row->bandwidth, bandwidth),
               format_seconds(row->step, step), row->speed_up, 100 * row->efficiency, row->hours, row->rank_hours,
               icl_scaling_limit_name(row->limit));
    ICL_CHECK(keep_row(keep, row, error));
    return finish_output(error);
}

/* A number of ranks that the batch or the memory is too small for ends the table with its reason. */
static icl_status measure(const icl_bench_params *params, size_t ranks, icl_scaling_step *step, bool *ends,
                          icl_error *error) {
    icl_error refused = {0};
    const icl_status status = icl_scaling_measure(params, ranks, step, &refused);

    *ends = status == ICL_ERROR_INPUT && ranks > 1;
    if (*ends)
        fprintf(stderr, "iclab: %s\n", refused.message);
    return *ends || status == ICL_OK ? ICL_OK : icl_fail(error, status, "%s", refused.message);
}

static icl_status print_verdict(const icl_scaling_row *rows, size_t count, icl_error *error) {
    icl_text text = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_scaling_verdict(rows, count, &text, error));
    printf("\n%s", text.bytes);
    status = finish_output(error);
done:
    icl_text_release(&text);
    return status;
}

icl_status print_scaling(const scaling_options *options, const icl_bench_params *params, const icl_network *network,
                         kept *keep, icl_error *error) {
    icl_scaling_params of = {.network = *network,
                             .steps = (double)icl_recipe_count(params->recipe, "train", "steps"),
                             .cores = options->cores.given ? (size_t)options->cores.value : 0,
                             .threads = icl_backend_capabilities(params->device)->compute_units};
    icl_scaling_row rows[MOST_ROWS];
    icl_scaling_step step;
    size_t count = 0;
    rank_list list;
    bool ends;

    ICL_CHECK(read_ranks(options, &list, error));
    ICL_CHECK(measure(params, 1, &step, &ends, error));
    of.single = 1;
    of.single = icl_scaling_predict(&step, &of).step;
    if (!keep->json)
        print_header(params, options, network);
    for (; count < list.count; count++) {
        if (list.counts[count] > 1)
            ICL_CHECK(measure(params, list.counts[count], &step, &ends, error));
        if (ends)
            break;
        rows[count] = icl_scaling_predict(&step, &of);
        ICL_CHECK(print_row(&rows[count], keep, error));
    }
    return keep->json || count == 0 ? ICL_OK : print_verdict(rows, count, error);
}
