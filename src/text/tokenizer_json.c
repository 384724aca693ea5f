#include "text/tokenizer_json.h"

#include <stdlib.h>
#include <string.h>

#include "text/byte_level.h"
#include "text/normalize.h"
#include "text/utf8.h"

/* GPT-2's expression, which ByteLevel applies itself with use_regex. */
static const char byte_level_expression[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

static const char *type_of(const json_t *part) {
  const char *type = json_string_value(json_object_get(part, "type"));
  return type ? type : "(none)";
}

static bool absent(const json_t *value) { return !value || json_is_null(value); }

static bool equals(const json_t *value, const char *text) {
  return json_is_string(value) && !strcmp(json_string_value(value), text);
}

static int unsupported(struct kj_error *error, const char *part, const char *what) {
  return kj_fail(error, KJ_UNSUPPORTED, "%s %s is not supported", part, what);
}

/* A part's members: itself, or those of a Sequence. */
static size_t member_count(const json_t *part, const char *list) {
  return equals(json_object_get(part, "type"), "Sequence") ? json_array_size(json_object_get(part, list)) : 1;
}

static const json_t *member(const json_t *part, const char *list, size_t index) {
  if (!equals(json_object_get(part, "type"), "Sequence")) return part;
  return json_array_get(json_object_get(part, list), index);
}

static int read_normalizer(struct tokenizer *tokenizer, const json_t *normalizer, struct kj_error *error) {
  if (absent(normalizer)) return 0;
  size_t count = member_count(normalizer, "normalizers");
  for (size_t i = 0; i < count; i++) {
    const char *type = type_of(member(normalizer, "normalizers", i));
    if (strcmp(type, "NFC") != 0) return unsupported(error, "normalizer", type);
    tokenizer->normalize_nfc = true;
  }
  return 0;
}

static int add_split(struct tokenizer *tokenizer, const char *text, size_t length, bool literal,
                     struct kj_error *error) {
  if (tokenizer->split_count == TOKENIZER_SPLIT_LIMIT)
    return kj_fail(error, KJ_UNSUPPORTED, "pre_tokenizer: more than %d expressions are not supported",
                   TOKENIZER_SPLIT_LIMIT);
  int code = split_expression_compile(&tokenizer->splits[tokenizer->split_count], text, length, literal, error);
  if (!code) tokenizer->split_count++;
  return code;
}

static int read_split(struct tokenizer *tokenizer, const json_t *split, struct kj_error *error) {
  const json_t *pattern = json_object_get(split, "pattern");
  const json_t *regex = json_object_get(pattern, "Regex"), *string = json_object_get(pattern, "String");
  if (!equals(json_object_get(split, "behavior"), "Isolated"))
    return unsupported(error, "pre_tokenizer Split:", "a behavior other than Isolated");
  if (!json_is_false(json_object_get(split, "invert"))) return unsupported(error, "pre_tokenizer Split:", "invert");
  const json_t *text = regex ? regex : string;
  if (!json_is_string(text) || (regex && string))
    return kj_fail(error, KJ_INVALID, "pre_tokenizer Split: the pattern is neither a Regex nor a String");
  return add_split(tokenizer, json_string_value(text), json_string_length(text), !regex, error);
}

static int read_byte_level(struct tokenizer *tokenizer, const json_t *byte_level, struct kj_error *error) {
  if (!json_is_false(json_object_get(byte_level, "add_prefix_space")))
    return unsupported(error, "pre_tokenizer ByteLevel:", "add_prefix_space");
  const json_t *use_regex = json_object_get(byte_level, "use_regex");
  if (use_regex && !json_is_boolean(use_regex))
    return kj_fail(error, KJ_INVALID, "pre_tokenizer ByteLevel: use_regex is not a boolean");
  if (json_is_false(use_regex)) return 0;
  return add_split(tokenizer, byte_level_expression, sizeof byte_level_expression - 1, false, error);
}

static int read_pre_tokenizer(struct tokenizer *tokenizer, const json_t *pre_tokenizer, struct kj_error *error) {
  size_t count = absent(pre_tokenizer) ? 0 : member_count(pre_tokenizer, "pretokenizers");
  int code = 0;
  for (size_t i = 0; i < count; i++) {
    const json_t *part = member(pre_tokenizer, "pretokenizers", i);
    const char *type = type_of(part);
    bool last = i + 1 == count;
    if (!last && !strcmp(type, "Split"))
      code = read_split(tokenizer, part, error);
    else if (last && !strcmp(type, "ByteLevel"))
      return read_byte_level(tokenizer, part, error);
    else
      code =
          kj_fail(error, KJ_UNSUPPORTED, "pre_tokenizer %s is not supported as number %zu of %zu", type, i + 1, count);
    if (code) return code;
  }
  return unsupported(error, "pre_tokenizer", "without ByteLevel");
}

static int read_post_processor(const json_t *post_processor, struct kj_error *error) {
  if (absent(post_processor)) return 0;
  size_t count = member_count(post_processor, "processors");
  for (size_t i = 0; i < count; i++) {
    const char *type = type_of(member(post_processor, "processors", i));
    if (strcmp(type, "ByteLevel") != 0) return unsupported(error, "post_processor", type);
  }
  return 0;
}

static int read_vocabulary(struct tokenizer *tokenizer, json_t *vocabulary, struct kj_error *error) {
  const char *content;
  json_t *id;
  if (!json_is_object(vocabulary)) return kj_fail(error, KJ_INVALID, "model: vocab is not an object");
  json_object_foreach(vocabulary, content, id) {
    json_int_t value = json_integer_value(id);
    if (!json_is_integer(id) || value < 0 || value >= VOCABULARY_LIMIT)
      return kj_fail(error, KJ_INVALID, "vocab: the id of \"%.80s\" is not an integer of 0 to %d", content,
                     VOCABULARY_LIMIT - 1);
    int code = vocabulary_add(tokenizer->vocabulary, (uint32_t)value, content, strlen(content), error);
    if (code) return code;
  }
  for (unsigned byte = 0; byte < 256; byte++) {
    char spelling[4];
    size_t length = utf8_write(byte_level_character((unsigned char)byte), spelling);
    if (!vocabulary_find(tokenizer->vocabulary, spelling, length, &tokenizer->byte_ids[byte]))
      return kj_fail(error, KJ_INVALID,
                     "vocab: byte 0x%02x (\"%.*s\") has no token, so that text with it would be lost", byte,
                     (int)length, spelling);
  }
  return 0;
}

/* The two sides of a merge, in either form. */
static bool merge_sides(const json_t *merge, const char *sides[2], size_t lengths[2]) {
  if (json_is_array(merge) && json_array_size(merge) == 2) {
    for (size_t i = 0; i < 2; i++) {
      const json_t *side = json_array_get(merge, i);
      if (!json_is_string(side)) return false;
      sides[i] = json_string_value(side);
      lengths[i] = json_string_length(side);
    }
    return true;
  }
  const char *text = json_string_value(merge), *space = text ? strchr(text, ' ') : NULL;
  if (!space || strchr(space + 1, ' ')) return false;
  sides[0] = text;
  lengths[0] = (size_t)(space - text);
  sides[1] = space + 1;
  lengths[1] = strlen(space + 1);
  return true;
}

static int read_merges(struct tokenizer *tokenizer, const json_t *merges, struct kj_error *error) {
  if (!json_is_array(merges)) return kj_fail(error, KJ_INVALID, "model: merges is not an array");
  size_t count = json_array_size(merges);
  int code = merges_create(&tokenizer->merges, count, error);
  struct buffer joined = {0};
  for (size_t i = 0; i < count && !code; i++) {
    const json_t *merge = json_array_get(merges, i);
    const char *sides[2];
    size_t lengths[2];
    uint32_t left, right, result;
    if (json_is_string(merge) && !strncmp(json_string_value(merge), "#version", 8)) continue;
    if (json_typeof(merge) != json_typeof(json_array_get(merges, 0)) || !merge_sides(merge, sides, lengths)) {
      code = kj_fail(error, KJ_INVALID, "merge %zu is not a pair of tokens", i);
      break;
    }
    buffer_clear(&joined);
    buffer_append(&joined, sides[0], lengths[0]);
    buffer_append(&joined, sides[1], lengths[1]);
    if (buffer_failed(&joined)) {
      code = kj_fail_memory(error, "a merge");
    } else if (!vocabulary_find(tokenizer->vocabulary, sides[0], lengths[0], &left) ||
               !vocabulary_find(tokenizer->vocabulary, sides[1], lengths[1], &right) ||
               !vocabulary_find(tokenizer->vocabulary, joined.data, joined.length, &result)) {
      code = kj_fail(error, KJ_INVALID, "merge %zu, \"%.*s\" with \"%.*s\", is not of three tokens of the vocabulary",
                     i, (int)(lengths[0] < 80 ? lengths[0] : 80), sides[0], (int)(lengths[1] < 80 ? lengths[1] : 80),
                     sides[1]);
    } else {
      merges_add(tokenizer->merges, left, right, result);
    }
  }
  buffer_free(&joined);
  return code;
}

static int read_model(struct tokenizer *tokenizer, const json_t *model, struct kj_error *error) {
  const json_t *type = json_object_get(model, "type"), *dropout = json_object_get(model, "dropout");
  static const char *const affixes[] = {"continuing_subword_prefix", "end_of_word_suffix"};
  if (!json_is_object(model)) return kj_fail(error, KJ_INVALID, "there is no model");
  if (!absent(type) && !equals(type, "BPE")) return unsupported(error, "model", type_of(model));
  if (!absent(dropout) && !(json_is_number(dropout) && json_number_value(dropout) == 0))
    return unsupported(error, "model BPE:", "dropout");
  for (size_t i = 0; i < sizeof affixes / sizeof *affixes; i++) {
    const json_t *affix = json_object_get(model, affixes[i]);
    if (!absent(affix) && !equals(affix, "")) return unsupported(error, "model BPE:", affixes[i]);
  }
  if (json_is_true(json_object_get(model, "byte_fallback"))) return unsupported(error, "model BPE:", "byte_fallback");
  /* unk_token and fuse_unk have no effect, because every byte has a token. */
  tokenizer->ignore_merges = json_is_true(json_object_get(model, "ignore_merges"));
  int code = read_vocabulary(tokenizer, json_object_get(model, "vocab"), error);
  return code ? code : read_merges(tokenizer, json_object_get(model, "merges"), error);
}

static int read_added_token(const json_t *entry, struct added_token *token, json_int_t *id, struct kj_error *error) {
  const json_t *content = json_object_get(entry, "content"), *number = json_object_get(entry, "id");
  const struct {
    const char *name;
    bool *value;
  } flags[] = {{"single_word", &token->single_word},
               {"lstrip", &token->lstrip},
               {"rstrip", &token->rstrip},
               {"normalized", &token->normalized},
               {"special", &token->special}};
  if (!json_is_string(content) || !json_is_integer(number))
    return kj_fail(error, KJ_INVALID, "it has no content or no id");
  token->content = (char *)json_string_value(content); /* added_tokens_add copies it */
  token->length = json_string_length(content);
  *id = json_integer_value(number);
  for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
    const json_t *flag = json_object_get(entry, flags[i].name);
    if (!json_is_boolean(flag))
      return kj_fail(error, KJ_INVALID, "\"%.80s\": %s is not a boolean", token->content, flags[i].name);
    *flags[i].value = json_is_true(flag);
  }
  return 0;
}

/* `tokenizers` takes a token's id from the model, or else counts on from the model's size, and does not look at the
 * id in the file. Where the two differ, one of them is wrong for the checkpoint's weights. */
static int add_token(struct tokenizer *tokenizer, struct added_token *token, json_int_t id, uint32_t *next,
                     struct kj_error *error) {
  struct vocabulary *vocabulary = tokenizer->vocabulary;
  uint32_t assigned = *next;
  bool in_model = vocabulary_find(vocabulary, token->content, token->length, &assigned);
  if (id != (json_int_t)assigned)
    return kj_fail(error, KJ_INVALID, "\"%.80s\" has id %lld in the file, but its place in the vocabulary is %u",
                   token->content, (long long)id, assigned);
  int code = 0;
  if (!in_model) {
    if ((code = vocabulary_add(vocabulary, assigned, token->content, token->length, error))) return code;
    ++*next;
  }
  token->id = assigned;
  if (token->normalized && tokenizer->normalize_nfc) {
    struct buffer normalized = {0};
    code = normalize_nfc(token->content, token->length, &normalized, error);
    if (!code && (normalized.length != token->length || memcmp(normalized.data, token->content, token->length) != 0))
      code = kj_fail(error, KJ_UNSUPPORTED, "\"%.80s\" is normalized, but not in form C", token->content);
    buffer_free(&normalized);
    if (code) return code;
  }
  return added_tokens_add(token->normalized ? &tokenizer->normalized : &tokenizer->raw, token, error);
}

/* New tokens have the ids new_first … new_end - 1. */
static int mark_tokens(struct tokenizer *tokenizer, uint32_t new_first, uint32_t new_end, struct kj_error *error) {
  const struct added_tokens *const sets[] = {&tokenizer->raw, &tokenizer->normalized};
  tokenizer->flags = calloc(vocabulary_size(tokenizer->vocabulary), sizeof *tokenizer->flags);
  if (!tokenizer->flags) return kj_fail_memory(error, "the added tokens");
  for (size_t set = 0; set < 2; set++) {
    for (size_t i = 0; i < sets[set]->count; i++) {
      const struct added_token *token = &sets[set]->tokens[i];
      unsigned char *flags = &tokenizer->flags[token->id];
      if (*flags & TOKEN_ADDED)
        return kj_fail(error, KJ_INVALID, "added_tokens: \"%.80s\" is there twice", token->content);
      *flags = TOKEN_ADDED;
      if (token->special) *flags |= TOKEN_SPECIAL;
      if (token->id >= new_first && token->id < new_end) *flags |= TOKEN_NEW;
    }
  }
  return 0;
}

static int read_added_tokens(struct tokenizer *tokenizer, const json_t *list, struct kj_error *error) {
  if (!absent(list) && !json_is_array(list)) return kj_fail(error, KJ_INVALID, "added_tokens is not an array");
  uint32_t model_count = vocabulary_count(tokenizer->vocabulary), next = model_count;
  size_t index;
  json_t *entry;
  json_array_foreach(list, index, entry) {
    struct added_token token = {0};
    json_int_t id = 0;
    int code = read_added_token(entry, &token, &id, error);
    if (!code && token.length) code = add_token(tokenizer, &token, id, &next, error);
    if (code) {
      if (error) kj_fail_context(error, "added token %zu", index);
      return code;
    }
  }
  added_tokens_sort(&tokenizer->raw);
  added_tokens_sort(&tokenizer->normalized);
  return mark_tokens(tokenizer, model_count, next, error);
}

int tokenizer_json_read(struct tokenizer *tokenizer, const json_t *root, struct kj_error *error) {
  const json_t *version = json_object_get(root, "version"), *decoder = json_object_get(root, "decoder");
  if (!json_is_object(root)) return kj_fail(error, KJ_INVALID, "it is not a JSON object");
  if (!absent(version) && !equals(version, "1.0"))
    return unsupported(error, "version", json_is_string(version) ? json_string_value(version) : "other than 1.0");
  int code = vocabulary_create(&tokenizer->vocabulary, error);
  if (!code) code = read_normalizer(tokenizer, json_object_get(root, "normalizer"), error);
  if (!code) code = read_pre_tokenizer(tokenizer, json_object_get(root, "pre_tokenizer"), error);
  if (!code) code = read_post_processor(json_object_get(root, "post_processor"), error);
  if (!code && strcmp(type_of(decoder), "ByteLevel") != 0) code = unsupported(error, "decoder", type_of(decoder));
  if (!code) code = read_model(tokenizer, json_object_get(root, "model"), error);
  if (!code) code = read_added_tokens(tokenizer, json_object_get(root, "added_tokens"), error);
  return code;
}
