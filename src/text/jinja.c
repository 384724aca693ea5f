#include "text/jinja.h"

#include <stdlib.h>
#include <string.h>

#include "text/jinja_lexer.h"
#include "text/jinja_parser.h"
#include "text/jinja_render.h"
#include "text/utf8.h"

enum { LONGEST_TEMPLATE = 4 * 1024 * 1024 };

struct jinja_template {
  struct arena arena;
  char *name;
  char *source;
  const struct node *body;
  struct symbols symbols;
};

int jinja_compile(struct jinja_template **template, const char *name, const char *source, size_t length,
                  struct kj_error *error) {
  *template = NULL;
  if (length > LONGEST_TEMPLATE) {
    return kj_fail(error, KJ_INVALID, "%s: the template is larger than %d bytes", name, LONGEST_TEMPLATE);
  }
  size_t offset = 0;
  if (!utf8_valid(source, length, &offset))
    return kj_fail(error, KJ_INVALID, "%s: byte %zu is not UTF-8", name, offset);
  struct jinja_template *made = calloc(1, sizeof *made);
  if (made) made->name = strdup(name);
  if (made) made->source = strndup(source, length);
  if (!made || !made->name || !made->source) {
    jinja_free(made);
    return kj_fail_memory(error, "a chat template");
  }
  struct run run = {
      .arena = {.limit = JINJA_MEMORY}, .name = made->name, .error = error, .depth_limit = JINJA_PARSE_DEPTH};
  made->body = parse_template(&run, tokenize(&run, source, length), &made->symbols);
  made->arena = run.arena;
  if (run.failed || !made->body) {
    jinja_free(made);
    return run.failed ? (int)run.code : kj_fail(error, KJ_INTERNAL, "%s: the template has no body", name);
  }
  *template = made;
  return 0;
}

void jinja_free(struct jinja_template *template) {
  if (!template) return;
  arena_free(&template->arena);
  free(template->name);
  free(template->source);
  free(template);
}

bool jinja_mentions(const struct jinja_template *template, const char *text) {
  return strstr(template->source, text) != NULL;
}

int jinja_render(const struct jinja_template *template, const struct jinja_variable *variables, size_t count,
                 struct buffer *out, struct kj_error *error) {
  struct run run = {
      .arena = {.limit = JINJA_MEMORY}, .name = template->name, .error = error, .line = 1, .depth_limit = JINJA_DEPTH};
  size_t before = out->length;
  render_template(&run, template->body, &template->symbols, variables, count, out);
  if (!run.failed && buffer_failed(out)) run_fail_plain(&run, KJ_MEMORY, "out of memory for the prompt");
  if (run.failed) {
    out->length = before;
    if (out->data) out->data[before] = '\0';
  }
  arena_free(&run.arena);
  return run.failed ? (int)run.code : 0;
}
