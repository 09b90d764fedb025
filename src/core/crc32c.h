/* CRC-32C (Castagnoli), as TFRecord files and others check their bytes. */
#ifndef ICLAB_CORE_CRC32C_H
#define ICLAB_CORE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

uint32_t icl_crc32c(const void *data, size_t size);

#endif
