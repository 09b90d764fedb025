#ifndef NAMES_H
#define NAMES_H

typedef struct entry {
    const char *name;
    int value;
} entry;

extern const entry *const names[1];

#endif
