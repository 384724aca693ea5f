/* Upper and title case of the characters that become several, such as ß. */
#ifndef KAIJU_TEXT_JINJA_CASE_H
#define KAIJU_TEXT_JINJA_CASE_H

#include <stdbool.h>
#include <stdint.h>

/* Up to three characters, ended by 0 where fewer; NULL if the character is not one of these. */
const int32_t *special_case(int32_t character, bool title);

#endif
