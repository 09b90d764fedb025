/* A clean end on Ctrl-C: long work looks at a flag. */
#ifndef ICLAB_TOOLS_STOP_H
#define ICLAB_TOOLS_STOP_H

#include <signal.h>

/* The signal that asked for an end; 0 before. Signal handlers can reach nothing but a global. */
extern volatile sig_atomic_t stop_signal;

/* First of all: a hang-up ends the command, whatever a library made of it, unless the command was begun to outlive one
 * (nohup). */
void settle_hangup(void);

/* Makes SIGINT, SIGTERM and SIGHUP requests. The handler then steps aside, so that a second one ends the process at
 * once. */
void catch_stop_signals(void);
void release_stop_signals(void);

#endif
