#include "terminal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define GREEN  "\x1b[32m"
#define RED    "\x1b[31m"
#define NORMAL "\x1b[0m"

bool is_smart_terminal(FILE *stream) {
    const char *term = getenv("TERM");
    return isatty(fileno(stream)) == 1 && term && term[0] != '\0' && strcmp(term, "dumb") != 0;
}

size_t terminal_columns(FILE *stream) {
#ifdef TIOCGWINSZ
    struct winsize size = {0};
    if (ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col;
#endif
    return DEFAULT_COLUMNS;
}

const char *paint_verdict(const char *verdict, bool good, char text[64]) {
    const char *no_color = getenv("NO_COLOR");
    const bool colour = is_smart_terminal(stdout) && !(no_color && no_color[0] != '\0');

    snprintf(text, 64, "%s%s%s", !colour ? "" : good ? GREEN : RED, verdict, colour ? NORMAL : "");
    return text;
}
