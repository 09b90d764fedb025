/* Settings as tests write them, " KEY=VALUE KEY=VALUE". */
#ifndef ICLAB_TESTS_SETTINGS_H
#define ICLAB_TESTS_SETTINGS_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Returns whether both set some key, to different values. */
static inline bool settings_contradict(const char *a, const char *b) {
    for (const char *word = a; *word; word += 1 + strcspn(word + 1, " ")) {
        char key[64];
        snprintf(key, sizeof key, "%.*s", (int)(1 + strcspn(word, "=")), word);
        const char *other = strstr(b, key);
        const size_t length = 1 + strcspn(word + 1, " ");
        if (other && (strncmp(word, other, length) != 0 || (other[length] != ' ' && other[length] != '\0')))
            return true;
    }
    return false;
}

#endif
