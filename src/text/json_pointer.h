/* References within a JSON document, as schemas have them: "#", "#/$defs/NAME", any JSON pointer (RFC 6901) written as
 * the fragment of a URI.
 */
#ifndef KAIJU_TEXT_JSON_POINTER_H
#define KAIJU_TEXT_JSON_POINTER_H

#include <jansson.h>

/* What the reference points to, or NULL: it leads nowhere, out of the document, or memory ran out. */
json_t *json_pointer_resolve(const json_t *root, const char *reference);

#endif
