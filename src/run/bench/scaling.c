#include "iclab/scaling.h"

#include <assert.h>
#include <math.h>

#include "run/bench/bench.h"

/* From so many bytes on, records go around a ring. */
#define RING_BYTES 524288.0

const char *icl_scaling_limit_name(icl_scaling_limit limit) {
    static const char *const names[] = {"compute", "repeated work", "latency", "bandwidth"};
    return names[limit];
}

/* How many messages follow each other. */
double icl_scaling_messages(size_t ranks, double bytes) {
    double messages = 0;

    if (bytes >= RING_BYTES)
        return (double)(ranks - 1);
    for (size_t reached = 1; reached < ranks; reached *= 2)
        messages++;
    return messages;
}

static icl_scaling_limit limit_of(const icl_scaling_row *row) {
    const double parts[] = {row->divided, row->repeated, row->latency, row->bandwidth};
    int most = 0;

    for (int i = 1; i < (int)(sizeof parts / sizeof *parts); i++)
        most = parts[i] > parts[most] ? i : most;
    return (icl_scaling_limit)most;
}

icl_scaling_row icl_scaling_predict(const icl_scaling_step *measured, const icl_scaling_params *params) {
    const double ranks = (double)measured->ranks, running = ranks * (double)params->threads;
    const double crowding = params->cores > 0 ? fmax(1, running / (double)params->cores) : 1;
    icl_scaling_row row = {.ranks = measured->ranks,
                           .slices = measured->slices,
                           .divided = crowding * measured->divided,
                           .repeated = crowding * measured->repeated,
                           .gathered = measured->gathered};

    if (measured->ranks > 1) {
        row.latency = icl_scaling_messages(measured->ranks, measured->gathered) * params->network.latency;
        row.bandwidth = measured->gathered * (ranks - 1) / ranks / params->network.bandwidth;
    }
    row.step = row.divided + row.repeated + row.latency + row.bandwidth;
    row.speed_up = params->single / row.step;
    row.efficiency = row.speed_up / ranks;
    row.hours = row.step * params->steps / 3600;
    row.rank_hours = ranks * row.hours;
    row.limit = limit_of(&row);
    return row;
}

/* ---- In words ---- */

static const char *reason(icl_scaling_limit limit) {
    static const char *const reasons[] = {
        "compute: the slices of the batch, which more ranks divide further",
        "repeated work: every rank adds the gradients of all slices and makes the whole update",
        "latency: the messages of the gather, one after the other",
        "bandwidth: the bytes of the gather, which hold the gradients of all slices",
    };
    return reasons[limit];
}

icl_status icl_scaling_verdict(const icl_scaling_row *rows, size_t count, icl_text *text, icl_error *error) {
    size_t last, shortest = 0, efficient = 0;

    assert(count > 0);
    for (size_t first = 0; first < count; first = last) {
        for (last = first + 1; last < count && rows[last].limit == rows[first].limit; last++)
            ;
        if (last - first > 1)
            ICL_CHECK(icl_text_print(text, error, "%zu to %zu ranks are limited by %s.\n", rows[first].ranks,
                                     rows[last - 1].ranks, reason(rows[first].limit)));
        else
            ICL_CHECK(icl_text_print(text, error, "%zu rank%s limited by %s.\n", rows[first].ranks,
                                     rows[first].ranks == 1 ? " is" : "s are", reason(rows[first].limit)));
    }
    for (size_t i = 1; i < count; i++) {
        shortest = rows[i].step < rows[shortest].step ? i : shortest;
        efficient = rows[i].efficiency >= 0.5 ? i : efficient;
    }
    return icl_text_print(text, error, "A step is shortest on %zu rank%s; half of the efficiency is left up to %zu.\n",
                          rows[shortest].ranks, rows[shortest].ranks == 1 ? "" : "s", rows[efficient].ranks);
}
