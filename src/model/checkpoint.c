#include "model/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/checkpoint_state.h"
#include "model/json_read.h"

enum { INDEX_LIMIT = 100000000 /* bytes; ten times what a 480B checkpoint with one quantized tensor an expert has */ };

static const char index_name[] = "model.safetensors.index.json", single_shard[] = "model.safetensors";

static int by_entry_name(const void *left, const void *right) {
  return strcmp(((const struct index_entry *)left)->name, ((const struct index_entry *)right)->name);
}

static int by_shard_name(const void *left, const void *right) {
  return strcmp(((const struct shard *)left)->name, ((const struct shard *)right)->name);
}

static int by_text(const void *left, const void *right) {
  return strcmp(*(const char *const *)left, *(const char *const *)right);
}

static char *join(const char *directory, const char *name) {
  char *path = NULL;
  return asprintf(&path, "%s/%s", directory, name) < 0 ? NULL : path;
}

static struct shard *find_shard(const struct checkpoint *checkpoint, const char *name) {
  struct shard key = {.name = (char *)name};
  return checkpoint->shard_count ? bsearch(&key, checkpoint->shards, checkpoint->shard_count, sizeof key, by_shard_name)
                                 : NULL;
}

struct index_entry *checkpoint_entry(const struct checkpoint *checkpoint, const char *name) {
  struct index_entry key = {.name = name};
  return checkpoint->entry_count
             ? bsearch(&key, checkpoint->entries, checkpoint->entry_count, sizeof key, by_entry_name)
             : NULL;
}

/* Room for `shards` shards and for entries whose names have `name_bytes` bytes in all. */
static int reserve(struct checkpoint *checkpoint, size_t shards, size_t entries, size_t name_bytes,
                   struct kj_error *error) {
  checkpoint->shards = calloc(shards + 1, sizeof *checkpoint->shards);
  checkpoint->entries = calloc(entries + 1, sizeof *checkpoint->entries);
  checkpoint->names = malloc(name_bytes + 1);
  if (checkpoint->shards && checkpoint->entries && checkpoint->names) return 0;
  return kj_fail_memory(error, "the index of a checkpoint");
}

/* `names` must be sorted; each different one becomes a shard. */
static int add_shards(struct checkpoint *checkpoint, const char *const *names, size_t count, struct kj_error *error) {
  for (size_t i = 0; i < count; i++) {
    if (i && !strcmp(names[i], names[i - 1])) continue;
    char *name = strdup(names[i]);
    if (!name) return kj_fail_memory(error, "the name of a shard");
    checkpoint->shards[checkpoint->shard_count++].name = name;
  }
  return 0;
}

/* Appends an entry; *place is where in `names` its name goes. `source` is the file that names the tensor. */
static int add_entry(struct checkpoint *checkpoint, const char *source, const char *name, struct shard *shard,
                     char **place, struct kj_error *error) {
  size_t length = strlen(name) + 1;
  struct index_entry *entry = &checkpoint->entries[checkpoint->entry_count++];
  memcpy(*place, name, length);
  *entry =
      (struct index_entry){.name = *place, .shard = (uint32_t)(shard - checkpoint->shards), .role = tensor_role(name)};
  *place += length;
  shard->tensor_count++;
  if (entry->role.part == TENSOR_UNKNOWN)
    return kj_fail(error, KJ_UNSUPPORTED, "%s: tensor %.200s has no place in a text model of type %s: not supported",
                   source, name, checkpoint->config->model_type);
  if (entry->role.part == TENSOR_LAYER && entry->role.layer >= checkpoint->config->layers)
    return kj_fail(error, KJ_INVALID, "%s: tensor %.200s: config.json says that there are %u layers", source, name,
                   checkpoint->config->layers);
  return 0;
}

static bool is_plain_file_name(const char *name) {
  return name && *name && !strchr(name, '/') && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

static int read_weight_map(struct checkpoint *checkpoint, const char *path, const json_t *map, struct kj_error *error) {
  const char *tensor = NULL, **names = calloc(json_object_size(map) + 1, sizeof *names);
  json_t *value = NULL;
  size_t count = 0, name_bytes = 0;
  int result = 0;
  if (!names) return kj_fail_memory(error, "the names of shards");
  json_object_foreach((json_t *)map, tensor, value) {
    const char *name = json_string_value(value);
    if (!is_plain_file_name(name)) {
      result = kj_fail(error, KJ_INVALID,
                       "%s: tensor %.200s: its shard must be the name of a file in the same directory, not %.200s",
                       path, tensor, name ? name : "something else");
      goto done;
    }
    names[count++] = name;
    name_bytes += strlen(tensor) + 1;
  }
  qsort(names, count, sizeof *names, by_text);
  result = reserve(checkpoint, count, count, name_bytes, error);
  if (!result) result = add_shards(checkpoint, names, count, error);
  if (result) goto done;
  char *place = checkpoint->names;
  json_object_foreach((json_t *)map, tensor, value) {
    result = add_entry(checkpoint, path, tensor, find_shard(checkpoint, json_string_value(value)), &place, error);
    if (result) goto done;
  }
  qsort(checkpoint->entries, checkpoint->entry_count, sizeof *checkpoint->entries, by_entry_name);
done:
  free(names);
  return result;
}

/* *found is false, and the result 0, where there is no index. */
static int read_index(struct checkpoint *checkpoint, bool *found, struct kj_error *error) {
  char *path = join(checkpoint->directory, index_name);
  json_t *root = NULL;
  *found = true;
  if (!path) return kj_fail_memory(error, "a path");
  int result = json_read_file(&root, path, INDEX_LIMIT, error);
  if (result == KJ_NOT_FOUND) {
    *found = false;
    result = 0;
  } else if (!result) {
    const json_t *map = json_object_get(root, "weight_map");
    if (json_is_object(map))
      result = read_weight_map(checkpoint, path, map, error);
    else
      result = kj_fail(error, KJ_INVALID, "%s: has no weight_map that is an object", path);
  }
  json_decref(root);
  free(path);
  return result;
}

/* A checkpoint of one file needs no index: its header is one. */
static int index_single_shard(struct checkpoint *checkpoint, struct kj_error *error) {
  char *path = join(checkpoint->directory, single_shard);
  struct safetensors *file = NULL;
  if (!path) return kj_fail_memory(error, "a path");
  int result = safetensors_open(&file, path, error);
  if (result == KJ_NOT_FOUND)
    result = kj_fail(error, KJ_NOT_FOUND, "%s: has neither %s nor %s", checkpoint->directory, index_name, single_shard);
  if (result) goto done;
  size_t count = safetensors_count(file), name_bytes = 0;
  for (size_t i = 0; i < count; i++) name_bytes += strlen(safetensors_at(file, i)->name) + 1;
  result = reserve(checkpoint, 1, count, name_bytes, error);
  const char *name = single_shard;
  if (!result) result = add_shards(checkpoint, &name, 1, error);
  if (result) goto done;
  char *place = checkpoint->names;
  for (size_t i = 0; !result && i < count; i++)
    result = add_entry(checkpoint, path, safetensors_at(file, i)->name, checkpoint->shards, &place, error);
  checkpoint->shards[0].file = file;
  file = NULL;
done:
  safetensors_close(file);
  free(path);
  return result;
}

int checkpoint_open(struct checkpoint **checkpoint, const char *directory, struct kj_error *error) {
  struct checkpoint *made = calloc(1, sizeof *made);
  bool found = false;
  *checkpoint = NULL;
  if (!made) return kj_fail_memory(error, "a checkpoint");
  made->directory = strdup(directory);
  int result = made->directory ? 0 : kj_fail_memory(error, "a path");
  if (!result) result = config_load(&made->config, directory, error);
  if (!result) result = read_index(made, &found, error);
  if (!result && !found) result = index_single_shard(made, error);
  if (result)
    checkpoint_close(made);
  else
    *checkpoint = made;
  return result;
}

void checkpoint_close(struct checkpoint *checkpoint) {
  if (!checkpoint) return;
  for (size_t i = 0; i < checkpoint->shard_count; i++) {
    safetensors_close(checkpoint->shards[i].file);
    free(checkpoint->shards[i].name);
  }
  config_free(checkpoint->config);
  free(checkpoint->shards);
  free(checkpoint->entries);
  free(checkpoint->names);
  free(checkpoint->directory);
  free(checkpoint);
}

int checkpoint_map_again(struct checkpoint *checkpoint, void *begin, size_t bytes, struct kj_error *error) {
  for (size_t i = 0; i < checkpoint->shard_count; i++) {
    struct safetensors *file = checkpoint->shards[i].file;
    if (file && safetensors_maps(file, begin, bytes)) return safetensors_map_again(file, begin, bytes, error);
  }
  return kj_fail(error, KJ_INTERNAL, "%s: weights to be mapped again are of none of its shards", checkpoint->directory);
}

const struct config *checkpoint_config(const struct checkpoint *checkpoint) { return checkpoint->config; }
const char *checkpoint_directory(const struct checkpoint *checkpoint) { return checkpoint->directory; }

/* Header and index must name the same tensors: a stale file of another conversion shows here, not in the output. */
static int compare_with_index(const struct checkpoint *checkpoint, uint32_t shard, const struct safetensors *file,
                              struct kj_error *error) {
  for (size_t i = 0; i < safetensors_count(file); i++) {
    const char *name = safetensors_at(file, i)->name;
    const struct index_entry *entry = checkpoint_entry(checkpoint, name);
    if (!entry || entry->shard != shard)
      return kj_fail(error, KJ_INVALID, "%s: tensor %.200s is not in this file according to %s", safetensors_path(file),
                     name, index_name);
  }
  if (safetensors_count(file) == checkpoint->shards[shard].tensor_count) return 0;
  for (size_t i = 0; i < checkpoint->entry_count; i++) {
    const struct index_entry *entry = &checkpoint->entries[i];
    if (entry->shard == shard && !safetensors_find(file, entry->name))
      return kj_fail(error, KJ_INVALID, "%s: has no tensor %.200s, which %s places there", safetensors_path(file),
                     entry->name, index_name);
  }
  return 0;
}

int checkpoint_open_shard(struct checkpoint *checkpoint, uint32_t shard, const char *why, struct kj_error *error) {
  struct shard *wanted = &checkpoint->shards[shard];
  struct safetensors *file = NULL;
  if (wanted->file) return 0;
  char *path = join(checkpoint->directory, wanted->name);
  if (!path) return kj_fail_memory(error, "a path");
  int result = safetensors_open(&file, path, error);
  if (result == KJ_NOT_FOUND)
    result = kj_fail(error, KJ_NOT_FOUND,
                     "%s: this shard is missing; it holds tensor %.200s, which is needed here: copy it to this machine",
                     path, why);
  if (!result) result = compare_with_index(checkpoint, shard, file, error);
  if (result)
    safetensors_close(file);
  else
    wanted->file = file;
  free(path);
  return result;
}
