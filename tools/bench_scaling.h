/* `iclab bench --ranks`: what a training would take and cost on more ranks. */
#ifndef ICLAB_TOOLS_BENCH_SCALING_H
#define ICLAB_TOOLS_BENCH_SCALING_H

#include "command.h"
#include "iclab/bench.h"
#include "iclab/ranks.h"
#include "iclab/scaling.h"
#include "options.h"

/* A network of 100 gigabits a second, as clusters have them. */
#define DEFAULT_NETWORK "2:12.5"

/* As the command line has them. */
typedef struct scaling_options {
    const char *ranks; /* "1..1024" or "1,2,4"; NULL: no scaling is asked for */
    const char
        *network;       /* as DEFAULT_NETWORK, microseconds a message and gigabytes a second; NULL: measured, or that */
    option_count cores; /* that all ranks share */
} scaling_options;

icl_status check_scaling_usage(const scaling_options *options, icl_error *error);

/* Measures, prints and keeps a row for each number of ranks, then the verdict in words. Collective where there are
 * several ranks: they measure the network between them, and the first goes on alone. */
icl_status print_scaling(const scaling_options *options, const icl_bench_params *params, const icl_network *network,
                         kept *keep, icl_error *error);

/* The network of the options, or of the ranks where there are several; NULL ranks: of the options alone. */
icl_status find_network(const scaling_options *options, const icl_ranks *ranks, icl_network *network, icl_error *error);

/* "12.3 us", right-aligned to nine characters; "-" for what was not measured. */
const char *format_seconds(double seconds, char text[16]);

#endif
