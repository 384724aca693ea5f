/* What the server does with text alone, without the engine, in llama.cpp's shapes: /tokenize, /detokenize and
 * /apply-template. The work is done on the preparer's thread, as that of a generation.
 */
#ifndef KAIJU_HTTP_TEXT_CALLS_H
#define KAIJU_HTTP_TEXT_CALLS_H

#include "http/connection.h"
#include "http/prepare.h"

/* The body is JSON; each fills `answer` or `error` of the preparation. */
void text_tokenize(const struct preparer_options *options, struct preparation *preparation);
void text_detokenize(const struct preparer_options *options, struct preparation *preparation);
void text_apply_template(const struct preparer_options *options, struct preparation *preparation);

/* Responds on the connection, in time. Moves `body` out. */
void text_call_start(struct preparer *preparer, struct connection *connection, preparer_work *work,
                     struct buffer *body);
/* The work is done; the preparation is taken over. */
void text_call_done(struct preparation *preparation);

#endif
