#include "cmd/exposition.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One line that is being read. */
struct line {
  const char *at, *end;
  size_t number;
  struct exposition_sample *sample;
  size_t used; /* of the sample's text */
  struct kj_error *error;
};

struct exposition_reader exposition_read(const char *text, size_t length) {
  return (struct exposition_reader){.at = text, .end = text + length};
}

static int fail(const struct line *line, const char *what) {
  return kj_fail(line->error, KJ_INVALID, "line %zu of the metrics: %s", line->number, what);
}

static void skip_blanks(struct line *line) {
  while (line->at < line->end && (*line->at == ' ' || *line->at == '\t')) line->at++;
}

static bool take(struct line *line, char byte) {
  skip_blanks(line);
  if (line->at == line->end || *line->at != byte) return false;
  line->at++;
  return true;
}

static int keep(struct line *line, char byte) {
  if (line->used == EXPOSITION_MAX_TEXT) return fail(line, "its name and labels are too long");
  line->sample->text[line->used++] = byte;
  return 0;
}

static bool is_letter(char byte) { return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || byte == '_'; }
static bool is_digit(char byte) { return byte >= '0' && byte <= '9'; }

/* A metric's name may have colons, a label's may not. */
static int read_name(struct line *line, bool colons, const char **name) {
  skip_blanks(line);
  const char *start = line->at;
  *name = line->sample->text + line->used;
  while (line->at < line->end &&
         (is_letter(*line->at) || (colons && *line->at == ':') || (line->at > start && is_digit(*line->at)))) {
    int code = keep(line, *line->at++);
    if (code) return code;
  }
  return line->at == start ? fail(line, "a name is needed") : keep(line, '\0');
}

static int read_escape(struct line *line) {
  char escape = line->at < line->end ? *line->at++ : '\0';
  if (escape == 'n') return keep(line, '\n');
  if (escape == '\\' || escape == '"') return keep(line, escape);
  return fail(line, "an unknown escape in a label's value");
}

static int read_quoted(struct line *line, const char **value) {
  if (!take(line, '"')) return fail(line, "a label's value needs quotes");
  *value = line->sample->text + line->used;
  while (line->at < line->end) {
    char byte = *line->at++;
    if (byte == '"') return keep(line, '\0');
    if (byte == '\0') return fail(line, "a NUL byte in a label's value");
    int code = byte == '\\' ? read_escape(line) : keep(line, byte);
    if (code) return code;
  }
  return fail(line, "a label's value does not end");
}

/* Behind the opening brace. A comma may end the list. */
static int read_labels(struct line *line) {
  struct exposition_sample *sample = line->sample;
  while (!take(line, '}')) {
    if (sample->label_count == EXPOSITION_MAX_LABELS) return fail(line, "too many labels");
    struct exposition_label *label = &sample->labels[sample->label_count++];
    int code = read_name(line, false, &label->name);
    if (code) return code;
    if (!take(line, '=')) return fail(line, "a label needs a value");
    if ((code = read_quoted(line, &label->value))) return code;
    if (!take(line, ',')) return take(line, '}') ? 0 : fail(line, "the list of labels does not end");
  }
  return 0;
}

/* strtod knows more than numbers in decimal: those alone, and the three words of the format, are let through. */
static int read_number(struct line *line, double *value) {
  char word[64];
  size_t length = 0;
  skip_blanks(line);
  while (line->at < line->end && *line->at != ' ' && *line->at != '\t') {
    if (length == sizeof word - 1) return fail(line, "a number is too long");
    word[length++] = *line->at++;
  }
  word[length] = '\0';
  if (length == 0) return fail(line, "a value is needed");
  if (strcmp(word, "NaN") == 0) {
    *value = NAN;
  } else if (strcmp(word, "+Inf") == 0 || strcmp(word, "Inf") == 0) {
    *value = INFINITY;
  } else if (strcmp(word, "-Inf") == 0) {
    *value = -INFINITY;
  } else {
    char *end = word;
    if (strspn(word, "0123456789+-.eE") == length) *value = strtod(word, &end);
    if (end != word + length) return fail(line, "a number is needed");
  }
  return 0;
}

static int read_sample(struct line *line) {
  double timestamp;
  int code = read_name(line, true, &line->sample->name);
  if (!code && take(line, '{')) code = read_labels(line);
  if (!code) code = read_number(line, &line->sample->value);
  if (code) return code;
  skip_blanks(line);
  if (line->at < line->end && (code = read_number(line, &timestamp))) return code;
  skip_blanks(line);
  return line->at == line->end ? 0 : fail(line, "something follows the value");
}

int exposition_next(struct exposition_reader *reader, struct exposition_sample *sample, bool *found,
                    struct kj_error *error) {
  *found = false;
  while (reader->at < reader->end && !*found) {
    const char *end = memchr(reader->at, '\n', (size_t)(reader->end - reader->at));
    struct line line = {reader->at, end ? end : reader->end, ++reader->line, sample, 0, error};
    reader->at = end ? end + 1 : reader->end;
    if (line.end > line.at && line.end[-1] == '\r') line.end--;
    skip_blanks(&line);
    if (line.at == line.end || *line.at == '#') continue;
    sample->label_count = 0;
    int code = read_sample(&line);
    if (code) return code;
    *found = true;
  }
  return 0;
}

const char *exposition_label(const struct exposition_sample *sample, const char *name) {
  for (size_t i = 0; i < sample->label_count; i++)
    if (strcmp(sample->labels[i].name, name) == 0) return sample->labels[i].value;
  return NULL;
}
