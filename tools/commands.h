/* The table of subcommands. */
#ifndef ICLAB_TOOLS_COMMANDS_H
#define ICLAB_TOOLS_COMMANDS_H

#include "options.h"

extern const subcommand command_devices, command_train, command_eval, command_inspect, command_predict,
    command_reproduce, command_sweep, command_compare, command_bench;

/* Writes man pages and completions; for builds, and in no list. */
extern const subcommand command_documents;

/* The commands that users see, in the order of their lists: static storage, *count rows. */
const subcommand *const *all_commands(size_t *count);

#endif
