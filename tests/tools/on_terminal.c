/*
 * on_terminal COLUMNS COMMAND [ARGUMENT...]
 *
 * Runs a command whose standard output and error are a terminal of that many columns, and prints what it wrote there.
 * Ends as the command does.
 */
#define _XOPEN_SOURCE 700
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

static int fail(const char *what) {
    perror(what);
    return 1;
}

/* Opens the terminal, which passes bytes on unchanged: it puts no carriage return before a newline. */
static int open_terminal(int master, unsigned short columns) {
    const struct winsize size = {.ws_row = 25, .ws_col = columns};
    struct termios settings;
    const int terminal = open(ptsname(master), O_RDWR | O_NOCTTY);

    if (terminal < 0 || tcgetattr(terminal, &settings) != 0)
        return -1;
    settings.c_oflag &= (tcflag_t)~OPOST;
    return tcsetattr(terminal, TCSANOW, &settings) == 0 && ioctl(terminal, TIOCSWINSZ, &size) == 0 ? terminal : -1;
}

static void run(int master, int terminal, char **arguments) {
    close(master);
    if (dup2(terminal, STDOUT_FILENO) < 0 || dup2(terminal, STDERR_FILENO) < 0)
        _exit(125);
    close(terminal);
    execvp(arguments[0], arguments);
    _exit(126);
}

/* Copies the output until everybody has closed the terminal, which Linux reports as EIO and others as an end of
 * file. */
static void copy_output(int master) {
    char buffer[4096];

    for (;;) {
        const ssize_t count = read(master, buffer, sizeof buffer);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            return;
        fwrite(buffer, 1, (size_t)count, stdout);
    }
}

int main(int count, char **arguments) {
    const int master = posix_openpt(O_RDWR | O_NOCTTY);
    int terminal, state = 0;
    pid_t child;

    if (count < 3)
        return 2;
    if (master < 0 || grantpt(master) != 0 || unlockpt(master) != 0)
        return fail("pseudo-terminal");
    terminal = open_terminal(master, (unsigned short)strtoul(arguments[1], NULL, 10));
    if (terminal < 0)
        return fail("terminal");
    child = fork();
    if (child < 0)
        return fail("fork");
    if (child == 0)
        run(master, terminal, arguments + 2);
    close(terminal);
    copy_output(master);
    while (waitpid(child, &state, 0) < 0)
        if (errno != EINTR)
            return fail("wait");
    return WIFEXITED(state) ? WEXITSTATUS(state) : 1;
}
