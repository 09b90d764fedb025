/* The table of subcommands. */
#ifndef ICLAB_TOOLS_COMMANDS_H
#define ICLAB_TOOLS_COMMANDS_H

#include "options.h"

extern const subcommand command_devices, command_train, command_eval, command_inspect, command_predict,
    command_reproduce, command_sweep, command_compare, command_bench;

/* In no list: what writes man pages, for builds, and what completes command lines, for shells. */
extern const subcommand command_documents, command_complete;

/* The commands that users see, in the order of their lists: static storage, *count rows. */
const subcommand *const *all_commands(size_t *count);

/* The one of them that has the name, or NULL. */
const subcommand *find_command(const char *name);

/* Prints a line for each name of a reproduction, with `before` in front of it. */
void put_reproductions(const char *before);

#endif
