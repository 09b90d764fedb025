/*
 * spherical: the factors of a block of rows (ops.h states every product and sum). Plain loops over the rows of a block, which
 * compilers turn into vectors. Included by strict.c. Cost for each row: 2 d + 12 multiplications and additions, 35 more with a radius.
 */

/* 2^L by its series about a whole number. */
static inline float power_of_two(float exponent) {
    static const float c[] = {1.0F,           0x1.62e430p-1F,  0x1.ebfbe0p-3F,  0x1.c6b08ep-5F,
                              0x1.3b2ab6p-7F, 0x1.5d87fep-10F, 0x1.430912p-13F, 0x1.ffcbfcp-17F};
    const float lower = exponent > -62.0F ? exponent : -62.0F, cut = lower < 62.0F ? lower : 62.0F;
    const int32_t whole = (int32_t)(cut + 62.5F) - 62;
    const float f = cut - (float)whole;
    const uint32_t bits = (uint32_t)(whole + 127) << 23;
    float scale, sum = c[7];

    for (int j = 6; j >= 0; j--)
        sum = sum * f + c[j];
    memcpy(&scale, &bits, sizeof scale);
    return sum * scale;
}

static inline float radius_at(const float *table, float z) {
    const float lower = z > -6.99F ? z : -6.99F, cut = lower < 6.99F ? lower : 6.99F;
    const int32_t piece = (int32_t)(cut + (float)ICL_CHI_PIECES * 0.5F);
    const float t = cut - ((float)piece - (float)(ICL_CHI_PIECES - 1) * 0.5F);
    float sum = table[(ICL_CHI_TERMS - 1) * ICL_CHI_ROW + piece];

    for (int term = ICL_CHI_TERMS - 2; term >= 0; term--)
        sum = sum * t + table[term * ICL_CHI_ROW + piece];
    return power_of_two(sum);
}

/* 1 / sqrt(s) by three steps of Newton's iteration. */
static inline float reciprocal_root(float s) {
    const float h = s * 0.5F;
    uint32_t bits;
    float y;

    memcpy(&bits, &s, sizeof bits);
    bits = 0x5f375a86U - (bits >> 1);
    memcpy(&y, &bits, sizeof y);
    for (int step = 0; step < 3; step++)
        y = y * (1.5F - h * y * y);
    return y;
}

static void spherical(const float *rows, size_t length, const float *normals, const float *table,
                      float *factors) {
    float squares[ICL_SPHERICAL_ROWS];

    for (int i = 0; i < ICL_SPHERICAL_ROWS; i++)
        squares[i] = rows[i] * rows[i];
    for (size_t k = 1; k < length; k++)
        for (int i = 0; i < ICL_SPHERICAL_ROWS; i++) {
            const float x = rows[k * ICL_SPHERICAL_ROWS + (size_t)i];
            squares[i] += x * x;
        }
    for (int i = 0; i < ICL_SPHERICAL_ROWS; i++)
        factors[i] = reciprocal_root(squares[i]);
    for (int i = 0; normals && i < ICL_SPHERICAL_ROWS; i++)
        factors[i] *= radius_at(table, normals[i]);
}
