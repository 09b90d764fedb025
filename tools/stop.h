/* A clean end on Ctrl-C: long work looks at a flag. */
#ifndef ICLAB_TOOLS_STOP_H
#define ICLAB_TOOLS_STOP_H

#include <signal.h>

/* The signal that asked for an end; 0 before. Signal handlers can reach nothing but a global. */
extern volatile sig_atomic_t stop_signal;

/* First of all: a hang-up ends the command, whatever a library made of it, unless the command was begun to outlive one
 * (nohup). */
void settle_hangup(void);

/* Readers of stdout and stderr that go away do not end the command: writing fails instead, and main looks at stdout at
 * the end. */
void outlive_readers(void);

/* Makes SIGINT, SIGTERM and SIGHUP requests. The handler then steps aside, so that a second one ends the process at
 * once. So it does of what batch systems send (SIGUSR1, SIGUSR2, SIGXCPU, SIGALRM), where nobody else handles or
 * ignores that, but these come again and again, and are heard until the process ends. */
void catch_stop_signals(void);

/* Lets signals end the process again, except those of batch systems once one has asked for an end. */
void release_stop_signals(void);

#endif
