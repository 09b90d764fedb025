/*
 * spherical: the factors of a block of rows (ops.h states every product and sum). Plain loops over the rows of a block,
 * which compilers turn into vectors. Included by strict.c. Cost for each row: 2 d + 12 multiplications and additions,
 * 35 more with a radius.
 */

/* x cut to [-limit, limit]; -limit where it is no number. */
static inline float cut_to(float x, float limit) {
    const float lower = x > -limit ? x : -limit;
    return lower < limit ? lower : limit;
}

/* factors times 2^exponents, by the series about a whole number. */
static void scale_by_powers(const float *exponents, float *factors) {
    static const float c[] = {1.0F,           0x1.62e430p-1F,  0x1.ebfbe0p-3F,  0x1.c6b08ep-5F,
                              0x1.3b2ab6p-7F, 0x1.5d87fep-10F, 0x1.430912p-13F, 0x1.ffcbfcp-17F};
    float f[ICL_SPHERICAL_ROWS], sum[ICL_SPHERICAL_ROWS], scale[ICL_SPHERICAL_ROWS];
    uint32_t bits[ICL_SPHERICAL_ROWS];

    for (int i = 0; i < ICL_SPHERICAL_ROWS; i++) {
        const float cut = cut_to(exponents[i], 62.0F);
        const int32_t whole = (int32_t)(cut + 62.5F) - 62;
        f[i] = cut - (float)whole;
        bits[i] = (uint32_t)(whole + 127) << 23;
        sum[i] = c[7];
    }
    for (int j = 6; j >= 0; j--)
        for (int i = 0; i < ICL_SPHERICAL_ROWS; i++)
            sum[i] = sum[i] * f[i] + c[j];
    memcpy(scale, bits, sizeof scale);
    for (int i = 0; i < ICL_SPHERICAL_ROWS; i++)
        factors[i] *= sum[i] * scale[i];
}

/* L(z) from the table. */
static void exponents_at(const float *table, const float *normals, float *exponents) {
    float t[ICL_SPHERICAL_ROWS];
    int32_t piece[ICL_SPHERICAL_ROWS];

    for (int i = 0; i < ICL_SPHERICAL_ROWS; i++) {
        const float z = cut_to(normals[i], 6.99F);
        piece[i] = (int32_t)(z + (float)ICL_CHI_PIECES * 0.5F);
        t[i] = z - ((float)piece[i] - (float)(ICL_CHI_PIECES - 1) * 0.5F);
        exponents[i] = table[(ICL_CHI_TERMS - 1) * ICL_CHI_ROW + piece[i]];
    }
    for (int term = ICL_CHI_TERMS - 2; term >= 0; term--)
        for (int i = 0; i < ICL_SPHERICAL_ROWS; i++)
            exponents[i] = exponents[i] * t[i] + table[term * ICL_CHI_ROW + piece[i]];
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

static void spherical(const float *rows, size_t length, const float *normals, const float *table, float *factors) {
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
    if (!normals)
        return;
    exponents_at(table, normals, squares);
    scale_by_powers(squares, factors);
}
