/* What the parts of text/tool_calls.h share: the state, and one step for each of its places.
 *
 * Text that is not yet understood waits in `pending`. A step looks at its beginning, and either uses some of it up or
 * changes the place and returns true, or returns false since it needs more. What it decides may depend only on bytes
 * that will not change with more text, and on `final`, never on how many bytes happen to be there.
 */
#ifndef KAIJU_TEXT_TOOL_CALLS_PARTS_H
#define KAIJU_TEXT_TOOL_CALLS_PARTS_H

#include <string.h>

#include "base/buffer.h"
#include "text/json_scanner.h"
#include "text/tool_calls.h"

enum {
  TOOL_NAME_MAXIMUM = 256,  /* bytes of a tool's or parameter's name */
  TOOL_SPACE_MAXIMUM = 1024 /* white space that is held back, or that may stand between tags */
};

#define TOOL_TAG_BLOCK "<tool_call>"
#define TOOL_TAG_BLOCK_END "</tool_call>"
#define TOOL_TAG_FUNCTION "<function="
#define TOOL_TAG_FUNCTION_END "</function>"
#define TOOL_TAG_PARAMETER "<parameter="
#define TOOL_TAG_PARAMETER_END "</parameter>"

enum tool_place {
  TOOL_IN_TEXT,
  TOOL_IN_FUNCTION,      /* XML: between parameters */
  TOOL_IN_PARAMETER,     /* in a value */
  TOOL_IN_FUNCTION_JSON, /* a JSON object in place of parameters */
  TOOL_IN_JSON,          /* in the object {"name", "arguments"} */
  TOOL_IN_BROKEN_JSON,   /* behind an error in it */
  TOOL_AFTER_CALL        /* more calls of the block may follow, or its end */
};

/* The member of the object {"name", "arguments"} that is being read. */
enum tool_member { TOOL_MEMBER_NONE, TOOL_MEMBER_NAME, TOOL_MEMBER_ARGUMENTS };

struct tool_calls {
  enum tool_form form;
  const struct tool_schemas *schemas;
  tool_event_handler *handler;
  void *context;

  struct buffer pending;
  size_t at; /* bytes of it that are used up */
  bool final, failed;
  enum tool_place place;
  size_t count;     /* calls begun */
  bool text_before; /* text has come since the beginning or the last call */

  struct buffer name, out; /* the tool's; a fragment being put together */
  bool has_arguments;      /* some have come out of this call */
  bool is_json;            /* the notation of this call, or of the last one */

  /* XML */
  struct buffer parameter, value, given; /* given: names of the call's parameters, each followed by NUL */
  unsigned types;
  bool value_begun, ignored; /* ignored: the parameter has been given */
  size_t members;            /* of the arguments so far */

  /* JSON */
  struct json_scanner scanner;
  struct buffer raw;                    /* the whole call, until its name is known */
  struct buffer key, member, arguments; /* as written; arguments: those that came before the name */
  enum tool_member reading;
  bool single_quoted;      /* the string that is being read is one of Python's */
  const char *python_word; /* that is being read in place of a literal, or NULL */
  bool named, complete;    /* arguments are complete */
};

enum match { MATCH_NO, MATCH_PARTIAL, MATCH_FULL };

struct tool_rest {
  const char *text;
  size_t length;
};
static inline struct tool_rest tool_rest(const struct tool_calls *calls) {
  return (struct tool_rest){buffer_text(&calls->pending) + calls->at, calls->pending.length - calls->at};
}
static inline size_t tool_leading_space(struct tool_rest rest, size_t maximum) {
  size_t count = 0;
  while (count < rest.length && count < maximum && json_space(rest.text[count])) count++;
  return count;
}

/* Does the rest, from `from` on, begin with the tag? */
enum match tool_match(const struct tool_calls *calls, struct tool_rest rest, size_t from, const char *tag);
/* Does it begin with the tag, a name and >? Gives the name, without space and quotes around it, and where it ends. */
struct tool_name {
  const char *text;
  size_t length, end;
};
enum match tool_match_name(const struct tool_calls *calls, struct tool_rest rest, size_t from, const char *tag,
                           struct tool_name *name);

void tool_emit(struct tool_calls *calls, enum tool_event_kind kind, const char *bytes, size_t length);
/* Emits `out` as arguments and clears it. */
void tool_emit_out(struct tool_calls *calls);
/* The tool's name is known. */
void tool_begin(struct tool_calls *calls, const char *name, size_t length);
void tool_end(struct tool_calls *calls);
void tool_begin_function(struct tool_calls *calls, const struct tool_name *name);
/* `head`: what was used up of the call, for the case that it is none. */
void tool_begin_json(struct tool_calls *calls, const char *head, size_t length);

bool tool_step_function(struct tool_calls *calls);
bool tool_step_parameter(struct tool_calls *calls);
bool tool_step_function_json(struct tool_calls *calls);
bool tool_step_json(struct tool_calls *calls);
bool tool_step_broken_json(struct tool_calls *calls);

/* A JSON value begins. */
void tool_mend_begin(struct tool_calls *calls);
/* The next byte of it, mended: bytes that no string may have are escaped; strings in single quotes, True, False and
 * None are taken as Python's. `take` gets what stands in its place, and the scanner with it; false if there is nothing
 * that could. */
typedef bool tool_taker(struct tool_calls *calls, char byte);
bool tool_mend(struct tool_calls *calls, char byte, tool_taker *take);

#endif
