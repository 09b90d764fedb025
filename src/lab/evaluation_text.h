/* How losses are shown, in tables and in reports. */
#ifndef ICLAB_LAB_EVALUATION_TEXT_H
#define ICLAB_LAB_EVALUATION_TEXT_H

/* Four decimals where they say something, else powers of ten; "-" for NaN. */
const char *icl_loss_text(double value, char text[16]);

#endif
