#include "model/synth.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/file.h"
#include "model/synth_config.h"
#include "model/synth_layout.h"

enum { CHUNK_BYTES = 4 << 20, COPY_BYTES = 64 << 10 };

static const uint64_t default_shard_bytes = UINT64_C(5) << 30;

static const char *const tokenizer_files[] = {"tokenizer.json",      "tokenizer_config.json",   "vocab.json",
                                              "merges.txt",          "special_tokens_map.json", "added_tokens.json",
                                              "chat_template.jinja", "chat_template.json"};
enum { TOKENIZER_FILES = sizeof tokenizer_files / sizeof *tokenizer_files };

/* The directory that is written, and what of it was made here. */
struct output {
  const struct synth_request *request;
  const struct synth_layout *layout;
  bool made_directory;
  char **made; /* paths of files */
  size_t made_count, made_capacity;
  uint64_t done; /* bytes of tensors */
  unsigned char *chunk;
};

static char *join(const char *directory, const char *name) {
  char *path = NULL;
  return asprintf(&path, "%s/%s", directory, name) < 0 ? NULL : path;
}

static void shard_name(char *name, size_t size, uint32_t shard, uint32_t count) {
  if (count == 1)
    snprintf(name, size, "model.safetensors");
  else
    snprintf(name, size, "model-%05" PRIu32 "-of-%05" PRIu32 ".safetensors", shard + 1, count);
}

/* Opens a new file and remembers it. *path stays the output's. */
static int create_file(struct output *output, const char *name, int *descriptor, const char **path,
                       struct kj_error *error) {
  if (output->made_count == output->made_capacity) {
    size_t capacity = output->made_capacity ? output->made_capacity * 2 : 64;
    char **made = realloc(output->made, capacity * sizeof *made);
    if (!made) return kj_fail_memory(error, "the list of files");
    output->made = made;
    output->made_capacity = capacity;
  }
  char *full = join(output->request->directory, name);
  if (!full) return kj_fail_memory(error, "a path");
  *descriptor = open(full, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (*descriptor < 0) {
    int code = kj_fail_errno(error, "create", full);
    free(full);
    return code;
  }
  output->made[output->made_count++] = full;
  *path = full;
  return 0;
}

/* A write error may show only when the file is closed. */
static int finish_file(int descriptor, const char *path, int code, struct kj_error *error) {
  if (close(descriptor) && !code) return kj_fail_errno(error, "write", path);
  return code;
}

static int write_text(struct output *output, const char *name, const char *text, struct kj_error *error) {
  int descriptor = -1;
  const char *path = NULL;
  int code = create_file(output, name, &descriptor, &path, error);
  if (code) return code;
  if (!(code = file_write(descriptor, text, strlen(text), path, error)))
    code = file_write(descriptor, "\n", 1, path, error);
  return finish_file(descriptor, path, code, error);
}

static void remove_made(struct output *output) {
  for (size_t i = output->made_count; i-- > 0;) unlink(output->made[i]);
  if (output->made_directory) rmdir(output->request->directory);
}

static int copy_file(struct output *output, const char *name, struct kj_error *error) {
  int source = -1, target = -1;
  struct stat status;
  const char *path;
  char *from = join(output->request->tokenizer, name);
  if (!from) return kj_fail_memory(error, "a path");
  int code = file_open(&source, &status, from, error);
  if (code || (code = create_file(output, name, &target, &path, error))) goto done;
  for (;;) {
    ssize_t count = read(source, output->chunk, COPY_BYTES);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) code = kj_fail_errno(error, "read", from);
    if (count > 0) code = file_write(target, output->chunk, (size_t)count, path, error);
    if (count <= 0 || code) break;
  }

done:
  if (target >= 0) code = finish_file(target, path, code, error);
  if (source >= 0) close(source);
  free(from);
  return code;
}

/* tokenizer.json must be there, the others may. */
static int copy_tokenizer(struct output *output, struct kj_error *error) {
  for (size_t i = 0; i < TOKENIZER_FILES; i++) {
    int code = copy_file(output, tokenizer_files[i], error);
    if (code && (code != KJ_NOT_FOUND || i == 0)) return code;
  }
  return 0;
}

/* The header of the shard that holds tensors first…end-1, padded with spaces so that the data begins at a multiple
 * of 8. */
static int shard_header(const struct synth_layout *layout, size_t first, size_t end, struct buffer *header,
                        struct kj_error *error) {
  buffer_append(header, "\0\0\0\0\0\0\0\0", 8);
  buffer_append_text(header, "{\"__metadata__\":{\"format\":\"mlx\"}");
  for (size_t i = first; i < end; i++) {
    const struct synth_tensor *tensor = &layout->tensors[i];
    buffer_append_format(header, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[", tensor->name,
                         tensor->content == SYNTH_PACKED ? "U32" : "BF16");
    for (uint32_t d = 0; d < tensor->rank; d++)
      buffer_append_format(header, "%s%" PRIu32, d ? "," : "", tensor->shape[d]);
    buffer_append_format(header, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", tensor->offset,
                         tensor->offset + tensor->bytes);
  }
  buffer_append_text(header, "}");
  while (header->length % 8 && !buffer_failed(header)) buffer_append_text(header, " ");
  if (buffer_failed(header)) return kj_fail_memory(error, "a shard's header");
  uint64_t length = header->length - 8;
  for (int i = 0; i < 8; i++) header->data[i] = (char)(length >> (8 * i));
  return 0;
}

static void report(struct output *output, uint64_t bytes) {
  output->done += bytes;
  if (output->request->progress)
    output->request->progress(output->request->context, output->done, output->layout->total_bytes);
}

static int write_tensor(struct output *output, int descriptor, const char *path, const struct synth_tensor *tensor,
                        struct kj_error *error) {
  for (uint64_t offset = 0; offset < tensor->bytes;) {
    uint64_t left = tensor->bytes - offset;
    size_t length = left < CHUNK_BYTES ? (size_t)left : CHUNK_BYTES;
    synth_fill(tensor, output->request->seed, offset, output->chunk, length);
    int code = file_write(descriptor, output->chunk, length, path, error);
    if (code) return code;
    offset += length;
    report(output, length);
  }
  return 0;
}

/* The shard that begins with tensor *first, which becomes the next shard's first. */
static int write_shard(struct output *output, size_t *first, struct kj_error *error) {
  const struct synth_layout *layout = output->layout;
  uint32_t shard = layout->tensors[*first].shard;
  size_t end = *first;
  struct buffer header = {0};
  char name[64];
  const char *path;
  int descriptor;
  while (end < layout->tensor_count && layout->tensors[end].shard == shard) end++;
  int code = shard_header(layout, *first, end, &header, error);
  if (code) goto done;
  shard_name(name, sizeof name, shard, layout->shard_count);
  if ((code = create_file(output, name, &descriptor, &path, error))) goto done;
  code = file_write(descriptor, header.data, header.length, path, error);
  if (!code && output->request->sparse) {
    if (ftruncate(descriptor, (off_t)(header.length + layout->shard_bytes[shard])))
      code = kj_fail_errno(error, "set the size of", path);
    else
      report(output, layout->shard_bytes[shard]);
  }
  for (size_t i = *first; i < end && !code && !output->request->sparse; i++)
    code = write_tensor(output, descriptor, path, &layout->tensors[i], error);
  *first = end;
  code = finish_file(descriptor, path, code, error);

done:
  buffer_free(&header);
  return code;
}

static int write_index(struct output *output, struct kj_error *error) {
  const struct synth_layout *layout = output->layout;
  json_t *map = json_object();
  int failed = !map;
  for (size_t i = 0; i < layout->tensor_count; i++) {
    char name[64];
    shard_name(name, sizeof name, layout->tensors[i].shard, layout->shard_count);
    failed |= json_object_set_new(map, layout->tensors[i].name, json_string(name));
  }
  json_t *root = json_pack("{s:{s:I, s:I}, s:o}", "metadata", "total_size", (json_int_t)layout->total_bytes,
                           "total_parameters", (json_int_t)layout->total_parameters, "weight_map", map);
  char *text = failed ? NULL : json_dumps(root, JSON_INDENT(4) | JSON_SORT_KEYS);
  int code = text ? write_text(output, "model.safetensors.index.json", text, error)
                  : kj_fail_memory(error, "the index of tensors");
  free(text);
  json_decref(root);
  return code;
}

static int check_absent(const char *directory, const char *name, struct kj_error *error) {
  struct stat status;
  char *path = join(directory, name);
  if (!path) return kj_fail_memory(error, "a path");
  int code = 0;
  if (!lstat(path, &status))
    code = kj_fail(error, KJ_INVALID, "%s exists: choose another directory or remove what is in it", path);
  else if (errno != ENOENT)
    code = kj_fail_errno(error, "look at", path);
  free(path);
  return code;
}

/* Notices before hours of writing what would end in an error after them. */
static int check_directory(const struct synth_request *request, const struct synth_layout *layout,
                           struct kj_error *error) {
  static const char *const names[] = {"config.json", "generation_config.json", "model.safetensors.index.json"};
  int code = 0;
  for (size_t i = 0; i < sizeof names / sizeof *names && !code; i++)
    code = check_absent(request->directory, names[i], error);
  for (uint32_t shard = 0; shard < layout->shard_count && !code; shard++) {
    char name[64];
    shard_name(name, sizeof name, shard, layout->shard_count);
    code = check_absent(request->directory, name, error);
  }
  for (size_t i = 0; i < TOKENIZER_FILES && !code && request->tokenizer; i++)
    code = check_absent(request->directory, tokenizer_files[i], error);
  struct statvfs space;
  if (code || request->sparse || statvfs(request->directory, &space)) return code;
  uint64_t available = (uint64_t)space.f_bavail * space.f_frsize;
  if (layout->total_bytes <= available) return 0;
  return kj_fail(error, KJ_IO, "%s: %.1f GB are to be written, but %.1f GB are free", request->directory,
                 (double)layout->total_bytes * 1e-9, (double)available * 1e-9);
}

static int make_directory(struct output *output, struct kj_error *error) {
  const char *directory = output->request->directory;
  struct stat status;
  if (!mkdir(directory, 0777)) {
    output->made_directory = true;
    return 0;
  }
  if (errno != EEXIST) return kj_fail_errno(error, "create", directory);
  if (stat(directory, &status)) return kj_fail_errno(error, "look at", directory);
  if (!S_ISDIR(status.st_mode)) return kj_fail(error, KJ_INVALID, "%s exists and is no directory", directory);
  return 0;
}

int synth_write(const struct synth_request *request, struct kj_error *error) {
  struct synth_config config = {0};
  struct synth_layout layout = {0};
  struct output output = {.request = request, .layout = &layout};
  int code = synth_config_make(&config, request, error);
  if (code) goto done;
  if ((code = synth_layout_make(&layout, config.config,
                                request->shard_bytes ? request->shard_bytes : default_shard_bytes, error)))
    goto done;
  if (!(output.chunk = malloc(CHUNK_BYTES))) {
    code = kj_fail_memory(error, "a chunk of weights");
    goto done;
  }
  if ((code = make_directory(&output, error)) || (code = check_directory(request, &layout, error)) ||
      (request->tokenizer && (code = copy_tokenizer(&output, error))))
    goto done;
  for (size_t tensor = 0; tensor < layout.tensor_count;)
    if ((code = write_shard(&output, &tensor, error))) goto done;
  if ((code = write_index(&output, error)) ||
      (code = write_text(&output, "generation_config.json", config.generation_json, error)))
    goto done;
  code = write_text(&output, "config.json", config.config_json, error);

done:
  if (code) remove_made(&output);
  for (size_t i = 0; i < output.made_count; i++) free(output.made[i]);
  free(output.made);
  free(output.chunk);
  synth_layout_free(&layout);
  synth_config_free(&config);
  return code;
}
