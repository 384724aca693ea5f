#include "model/safetensors.h"

#include <math.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/file.h"
#include "model/json_read.h"

enum { LENGTH_FIELD = 8 };

struct safetensors {
  char *path;
  char *names; /* of all tensors, one after the other */
  struct safetensors_tensor *tensors;
  size_t count;
  uint64_t file_bytes, data_begin;
  uint8_t digest[SAFETENSORS_DIGEST];
  struct stat status;  /* of the file whose header was read */
  const uint8_t *data; /* the whole file, or NULL while not mapped */
  void *mapping;       /* `data` where it is ours to unmap */
};

static const struct dtype {
  const char *name;
  uint32_t bits;
  enum safetensors_type type;
} dtypes[] = {
    {"F32", 32, SAFETENSORS_F32},      {"F16", 16, SAFETENSORS_F16},      {"BF16", 16, SAFETENSORS_BF16},
    {"U32", 32, SAFETENSORS_U32},      {"BOOL", 8, SAFETENSORS_OTHER},    {"U8", 8, SAFETENSORS_OTHER},
    {"I8", 8, SAFETENSORS_OTHER},      {"I16", 16, SAFETENSORS_OTHER},    {"U16", 16, SAFETENSORS_OTHER},
    {"I32", 32, SAFETENSORS_OTHER},    {"I64", 64, SAFETENSORS_OTHER},    {"U64", 64, SAFETENSORS_OTHER},
    {"F64", 64, SAFETENSORS_OTHER},    {"C64", 64, SAFETENSORS_OTHER},    {"F8_E5M2", 8, SAFETENSORS_OTHER},
    {"F8_E4M3", 8, SAFETENSORS_OTHER}, {"F8_E8M0", 8, SAFETENSORS_OTHER}, {"F4", 4, SAFETENSORS_OTHER},
    {"F6_E2M3", 6, SAFETENSORS_OTHER}, {"F6_E3M2", 6, SAFETENSORS_OTHER},
};

static int fail_tensor(const struct safetensors *file, const char *tensor, const char *what, struct kj_error *error) {
  return kj_fail(error, KJ_INVALID, "%s: tensor %.200s: %s", file->path, tensor, what);
}

/* A dimension or an offset: whole, not negative. jansson's integers are 64-bit signed. */
static bool read_count(const json_t *value, uint64_t *count) {
  if (!json_is_integer(value) || json_integer_value(value) < 0) return false;
  *count = (uint64_t)json_integer_value(value);
  return true;
}

static int read_dtype(const struct safetensors *file, const json_t *value, struct safetensors_tensor *tensor,
                      uint32_t *bits, struct kj_error *error) {
  if (!json_is_string(value)) return fail_tensor(file, tensor->name, "has no dtype that is a string", error);
  for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
    if (strcmp(json_string_value(value), dtypes[i].name) != 0) continue;
    tensor->dtype = dtypes[i].name;
    tensor->type = dtypes[i].type;
    *bits = dtypes[i].bits;
    return 0;
  }
  return kj_fail(error, KJ_INVALID, "%s: tensor %.200s: dtype %.40s is unknown", file->path, tensor->name,
                 json_string_value(value));
}

/* Shape and, from it, the size in bytes. */
static int read_shape(const struct safetensors *file, const json_t *value, uint32_t bits,
                      struct safetensors_tensor *tensor, struct kj_error *error) {
  if (!json_is_array(value)) return fail_tensor(file, tensor->name, "has no shape that is a list", error);
  if (json_array_size(value) > SAFETENSORS_MAX_DIMENSIONS)
    return fail_tensor(file, tensor->name, "has more than 8 dimensions", error);
  tensor->dimensions = (uint32_t)json_array_size(value);
  uint64_t total_bits = bits;
  bool fits = true;
  for (uint32_t i = 0; i < tensor->dimensions; i++) {
    if (!read_count(json_array_get(value, i), &tensor->shape[i]))
      return fail_tensor(file, tensor->name, "shape must be whole numbers, not negative, below 2^63", error);
    fits = fits && checked_multiply(total_bits, tensor->shape[i], &total_bits);
  }
  /* A later 0 would hide an overflow in C but not in a reader that multiplies in another order: refused all the same.
   */
  if (!fits) return fail_tensor(file, tensor->name, "shape × dtype overflows 64 bits", error);
  if (total_bits % 8) return fail_tensor(file, tensor->name, "shape × dtype is not a whole number of bytes", error);
  tensor->bytes = total_bits / 8;
  return 0;
}

static int read_offsets(const struct safetensors *file, const json_t *value, struct safetensors_tensor *tensor,
                        struct kj_error *error) {
  uint64_t begin = 0, end = 0, data_bytes = file->file_bytes - file->data_begin;
  if (!json_is_array(value) || json_array_size(value) != 2 || !read_count(json_array_get(value, 0), &begin) ||
      !read_count(json_array_get(value, 1), &end))
    return fail_tensor(file, tensor->name, "data_offsets must be two whole numbers, not negative, below 2^63", error);
  if (begin > end) return fail_tensor(file, tensor->name, "data_offsets end before they begin", error);
  if (end > data_bytes)
    return kj_fail(error, KJ_INVALID,
                   "%s: tensor %.200s: ends at byte %llu of the data, but the file has only %llu: is it cut short?",
                   file->path, tensor->name, (unsigned long long)end, (unsigned long long)data_bytes);
  if (end - begin != tensor->bytes)
    return kj_fail(error, KJ_INVALID, "%s: tensor %.200s: data_offsets span %llu bytes, but shape × dtype is %llu",
                   file->path, tensor->name, (unsigned long long)(end - begin), (unsigned long long)tensor->bytes);
  tensor->begin = file->data_begin + begin;
  return 0;
}

static int read_tensor(const struct safetensors *file, const char *name, const json_t *entry,
                       struct safetensors_tensor *tensor, struct kj_error *error) {
  *tensor = (struct safetensors_tensor){.name = name};
  if (!*name) return fail_tensor(file, "\"\"", "a tensor must have a name", error);
  if (!json_is_object(entry)) return fail_tensor(file, name, "must be described by an object", error);
  if (json_object_size(entry) != 3)
    return fail_tensor(file, name, "must have dtype, shape and data_offsets and nothing else", error);
  uint32_t bits = 0;
  int result = read_dtype(file, json_object_get(entry, "dtype"), tensor, &bits, error);
  if (!result) result = read_shape(file, json_object_get(entry, "shape"), bits, tensor, error);
  if (!result) result = read_offsets(file, json_object_get(entry, "data_offsets"), tensor, error);
  return result;
}

static int check_metadata(const struct safetensors *file, json_t *metadata, struct kj_error *error) {
  const char *key = NULL;
  json_t *value = NULL;
  if (!json_is_object(metadata)) return kj_fail(error, KJ_INVALID, "%s: __metadata__ must be an object", file->path);
  json_object_foreach(metadata, key, value) {
    if (!json_is_string(value))
      return kj_fail(error, KJ_INVALID, "%s: __metadata__: %.200s must be a string", file->path, key);
  }
  return 0;
}

static int by_position(const void *left, const void *right) {
  const struct safetensors_tensor *a = left, *b = right;
  if (a->begin != b->begin) return a->begin < b->begin ? -1 : 1;
  if (a->bytes != b->bytes) return a->bytes < b->bytes ? -1 : 1; /* an empty tensor before the one that begins there */
  return strcmp(a->name, b->name);
}

static int by_name(const void *left, const void *right) {
  return strcmp(((const struct safetensors_tensor *)left)->name, ((const struct safetensors_tensor *)right)->name);
}

/* The tensors must cover the data: each begins where the one before ends. Leaves them sorted by name. */
static int check_cover(struct safetensors *file, struct kj_error *error) {
  uint64_t position = file->data_begin;
  if (file->count) qsort(file->tensors, file->count, sizeof *file->tensors, by_position);
  for (size_t i = 0; i < file->count; i++) {
    const struct safetensors_tensor *tensor = &file->tensors[i];
    if (tensor->begin < position)
      return kj_fail(error, KJ_INVALID, "%s: tensor %.200s: overlaps tensor %.200s", file->path, tensor->name,
                     file->tensors[i - 1].name);
    if (tensor->begin > position)
      return kj_fail(error, KJ_INVALID, "%s: tensor %.200s: a hole of %llu bytes lies before it", file->path,
                     tensor->name, (unsigned long long)(tensor->begin - position));
    position += tensor->bytes;
  }
  if (position != file->file_bytes)
    return kj_fail(error, KJ_INVALID, "%s: %llu bytes after the last tensor%s%.200s belong to no tensor", file->path,
                   (unsigned long long)(file->file_bytes - position), file->count ? " " : "",
                   file->count ? file->tensors[file->count - 1].name : "");
  if (file->count) qsort(file->tensors, file->count, sizeof *file->tensors, by_name);
  return 0;
}

/* A number beyond 64 bits stops the parser before the tensor's name is known: finds the name for the message. */
static int fail_overflow(const struct safetensors *file, const char *text, size_t length, struct kj_error *error) {
  json_t *header = json_loadb(text, length, JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, NULL);
  const char *name = NULL, *key = NULL, *guilty = NULL;
  json_t *entry = NULL, *field = NULL, *number = NULL;
  size_t index = 0;
  json_object_foreach(header, name, entry) {
    json_object_foreach(entry, key, field) {
      json_array_foreach(field, index, number) {
        if (!guilty && fabs(json_real_value(number)) >= 0x1p63) guilty = name;
      }
    }
  }
  int result = guilty ? fail_tensor(file, guilty, "has a number that overflows 64 bits", error)
                      : kj_fail(error, KJ_INVALID, "%s: the header has a number that overflows 64 bits", file->path);
  json_decref(header);
  return result;
}

static int parse_json(const struct safetensors *file, json_t **header, const char *text, size_t length,
                      struct kj_error *error) {
  json_error_t problem;
  *header = NULL;
  if (!length || text[0] != '{') return kj_fail(error, KJ_INVALID, "%s: the header does not begin with {", file->path);
  *header = json_loadb(text, length, JSON_REJECT_DUPLICATES, &problem);
  if (*header) return 0;
  switch (json_error_code(&problem)) {
    case json_error_out_of_memory:
      return kj_fail_memory(error, "a safetensors header");
    case json_error_numeric_overflow:
      return fail_overflow(file, text, length, error);
    default:
      return kj_fail(error, KJ_INVALID, "%s: header: byte %d: %s", file->path, problem.position, problem.text);
  }
}

static int read_tensors(struct safetensors *file, json_t *header, struct kj_error *error) {
  const char *name = NULL;
  json_t *entry = NULL;
  size_t names_bytes = 1, capacity = json_object_size(header) + 1;
  json_object_foreach(header, name, entry) names_bytes += strlen(name) + 1;
  file->names = malloc(names_bytes);
  file->tensors = calloc(capacity, sizeof *file->tensors);
  if (!file->names || !file->tensors) return kj_fail_memory(error, "the tensors of a safetensors header");
  char *place = file->names;
  json_object_foreach(header, name, entry) {
    int result = 0;
    if (!strcmp(name, "__metadata__")) {
      result = check_metadata(file, entry, error);
    } else {
      size_t length = strlen(name) + 1;
      memcpy(place, name, length);
      result = read_tensor(file, place, entry, &file->tensors[file->count++], error);
      place += length;
    }
    if (result) return result;
  }
  return check_cover(file, error);
}

static int parse_header(struct safetensors *file, const char *text, size_t length, struct kj_error *error) {
  json_t *header = NULL;
  int result = parse_json(file, &header, text, length, error);
  if (!result) result = read_tensors(file, header, error);
  json_decref(header);
  return result;
}

/* `start` is the length field and what follows it of the header, `available` bytes of it. */
static int parse_start(struct safetensors *file, const uint8_t *start, size_t available, struct kj_error *error) {
  uint64_t length = file->data_begin - LENGTH_FIELD;
  if (available < file->data_begin) return kj_fail(error, KJ_INVALID, "%s: the header is cut short", file->path);
  uint8_t digest[crypto_generichash_BYTES], size[8];
  for (unsigned i = 0; i < 8; i++) size[i] = (uint8_t)(file->file_bytes >> 8 * i);
  crypto_generichash_state state;
  if (sodium_init() < 0) return kj_fail(error, KJ_INTERNAL, "libsodium cannot be initialised");
  crypto_generichash_init(&state, NULL, 0, sizeof digest);
  crypto_generichash_update(&state, start, file->data_begin);
  crypto_generichash_update(&state, size, sizeof size);
  crypto_generichash_final(&state, digest, sizeof digest);
  memcpy(file->digest, digest, sizeof file->digest);
  return parse_header(file, (const char *)start + LENGTH_FIELD, (size_t)length, error);
}

/* Sets where the data begins, from the first 8 bytes and the size of the file. */
static int read_length(struct safetensors *file, const uint8_t *field, struct kj_error *error) {
  uint64_t length = 0;
  for (unsigned i = 0; i < LENGTH_FIELD; i++) length |= (uint64_t)field[i] << 8 * i;
  if (length > SAFETENSORS_MAX_HEADER)
    return kj_fail(error, KJ_INVALID, "%s: says that its header has %llu bytes; the format allows 100 MB", file->path,
                   (unsigned long long)length);
  if (length > file->file_bytes - LENGTH_FIELD)
    return kj_fail(error, KJ_INVALID, "%s: says that its header has %llu bytes, but the file has only %llu", file->path,
                   (unsigned long long)length, (unsigned long long)file->file_bytes);
  file->data_begin = LENGTH_FIELD + length;
  return 0;
}

static int fail_short(const struct safetensors *file, struct kj_error *error) {
  return kj_fail(error, KJ_INVALID, "%s: has %llu bytes: too short for a safetensors file", file->path,
                 (unsigned long long)file->file_bytes);
}

static int create(struct safetensors **file, const char *path, struct kj_error *error) {
  *file = calloc(1, sizeof **file);
  if (!*file) return kj_fail_memory(error, "a safetensors file");
  (*file)->path = strdup(path);
  return (*file)->path ? 0 : kj_fail_memory(error, "a safetensors path");
}

int safetensors_parse(struct safetensors **file, const char *name, const void *bytes, size_t length,
                      struct kj_error *error) {
  struct safetensors *made = NULL;
  int result = create(&made, name, error);
  if (!result) {
    made->file_bytes = length;
    made->data = bytes;
    if (length < LENGTH_FIELD) result = fail_short(made, error);
  }
  if (!result) result = read_length(made, bytes, error);
  if (!result) result = parse_start(made, bytes, length, error);
  if (result) safetensors_close(made);
  *file = result ? NULL : made;
  return result;
}

int safetensors_open(struct safetensors **file, const char *path, struct kj_error *error) {
  struct safetensors *made = NULL;
  uint8_t field[LENGTH_FIELD], *start = NULL;
  int descriptor = -1;
  *file = NULL;
  int result = create(&made, path, error);
  if (!result) result = file_open(&descriptor, &made->status, made->path, error);
  if (result) goto done;
  made->file_bytes = (uint64_t)made->status.st_size;
  result = made->file_bytes < LENGTH_FIELD ? fail_short(made, error) : 0;
  if (!result) result = file_read(descriptor, field, LENGTH_FIELD, made->path, error);
  if (!result) result = read_length(made, field, error);
  if (result) goto done;
  start = malloc(made->data_begin);
  if (!start) {
    result = kj_fail_memory(error, "a safetensors header");
    goto done;
  }
  result = file_read(descriptor, start, made->data_begin, made->path, error);
  if (!result && memcmp(start, field, LENGTH_FIELD) != 0)
    result = kj_fail(error, KJ_IO, "%s: changed while it was read", path);
  if (!result) result = parse_start(made, start, made->data_begin, error);
done:
  free(start);
  if (descriptor >= 0) close(descriptor);
  if (result)
    safetensors_close(made);
  else
    *file = made;
  return result;
}

void safetensors_close(struct safetensors *file) {
  if (!file) return;
  if (file->mapping) munmap(file->mapping, file->file_bytes);
  free(file->names);
  free(file->tensors);
  free(file->path);
  free(file);
}

size_t safetensors_count(const struct safetensors *file) { return file->count; }
const struct safetensors_tensor *safetensors_at(const struct safetensors *file, size_t index) {
  return &file->tensors[index];
}
const char *safetensors_path(const struct safetensors *file) { return file->path; }
uint64_t safetensors_file_bytes(const struct safetensors *file) { return file->file_bytes; }
const uint8_t *safetensors_digest(const struct safetensors *file) { return file->digest; }

const struct safetensors_tensor *safetensors_find(const struct safetensors *file, const char *name) {
  struct safetensors_tensor key = {.name = name};
  return file->count ? bsearch(&key, file->tensors, file->count, sizeof key, by_name) : NULL;
}

static bool same_file(const struct stat *a, const struct stat *b) {
  return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
         a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* Maps `bytes` of the file from `offset` on, at `place` if that is not NULL. */
static int map(const struct safetensors *file, void *place, size_t offset, size_t bytes, void **mapping,
               struct kj_error *error) {
  struct stat status = {0};
  int descriptor;
  int result = file_open(&descriptor, &status, file->path, error);
  if (result) return result;
  if (!same_file(&status, &file->status)) {
    result = kj_fail(error, KJ_IO, "%s: changed since its header was read", file->path);
    goto done;
  }
  void *mapped =
      mmap(place, bytes, PROT_READ, place ? MAP_PRIVATE | MAP_FIXED : MAP_PRIVATE, descriptor, (off_t)offset);
  if (mapped == MAP_FAILED) {
    result = kj_fail_errno(error, "map", file->path);
    goto done;
  }
  /* What is read from the disk from here on then lies in huge pages of the page cache, where the file system has them:
   * fewer page table walks in every step. A refusal costs nothing else. */
  (void)madvise(mapped, bytes, MADV_HUGEPAGE);
  *mapping = mapped;
done:
  close(descriptor);
  return result;
}

int safetensors_map(struct safetensors *file, struct kj_error *error) {
  if (file->data) return 0;
  int result = map(file, NULL, 0, file->file_bytes, &file->mapping, error);
  if (!result) file->data = file->mapping;
  return result;
}

bool safetensors_maps(const struct safetensors *file, const void *begin, size_t bytes) {
  const uintptr_t first = (uintptr_t)file->mapping, at = (uintptr_t)begin;
  return first && at >= first && at - first <= file->file_bytes && bytes <= file->file_bytes - (at - first);
}

int safetensors_map_again(struct safetensors *file, void *begin, size_t bytes, struct kj_error *error) {
  void *mapping;
  return map(file, begin, (size_t)((const uint8_t *)begin - file->data), bytes, &mapping, error);
}

const void *safetensors_data(const struct safetensors *file, const struct safetensors_tensor *tensor) {
  return file->data + tensor->begin;
}
