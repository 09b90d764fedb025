#include "core/crc32c.h"

uint32_t icl_crc32c(const void *data, size_t size) {
    const uint32_t reversed_polynomial = 0x82f63b78U;
    const unsigned char *bytes = data;
    uint32_t crc = ~0U;

    for (size_t i = 0; i < size; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ (reversed_polynomial & (0U - (crc & 1U)));
    }
    return ~crc;
}
