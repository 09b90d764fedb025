#include "above/names.h"

#include <stdio.h>

int main(void) {
    const int right = names[0]->value == 8;

    printf("%s 1 - the most\n1..1\n", right ? "ok" : "not ok");
    return !right;
}
