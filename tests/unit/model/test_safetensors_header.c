/* F1: what a safetensors header may say. The file lies in memory, in a block of exactly its size. */
#include "model/safetensors.h"

#include <stdlib.h>

#include "unit/model/checkpoint_files.h"

/* Parses a file of this header and `data` bytes; the result and the message are returned. */
static int parse(const char *header, size_t data, struct kj_error *error) {
  struct buffer file = {0};
  struct safetensors *parsed = NULL;
  append_length(&file, strlen(header));
  buffer_append_text(&file, header);
  size_t length = file.length + data;
  uint8_t *exact = calloc(1, length);
  assert_non_null(exact);
  memcpy(exact, file.data, file.length);
  buffer_free(&file);
  *error = (struct kj_error){0};
  int result = safetensors_parse(&parsed, "bad.safetensors", exact, length, error);
  if (result) assert_null(parsed);
  safetensors_close(parsed);
  free(exact);
  return result;
}

static void refuse(const char *header, size_t data, const char *message) {
  struct kj_error error;
  assert_int_equal(parse(header, data, &error), KJ_INVALID);
  assert_message(error, "bad.safetensors: ");
  assert_message(error, message);
}

static void accept(const char *header, size_t data) {
  struct kj_error error;
  if (parse(header, data, &error)) fail_msg("%s: %s", header, error.message);
}

#define TENSOR(name, dtype, shape, begin, end) \
  "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" begin "," end "]}"

static void test_valid_headers_are_read(void **state) {
  (void)state;
  accept("{}", 0);
  accept("{\"__metadata__\":{\"format\":\"mlx\"}}", 0);
  accept("{" TENSOR("a", "BF16", "[2,3]", "0", "12") "}   ", 12);
  accept("{" TENSOR("b", "F32", "[]", "6", "10") "," TENSOR("a", "F16", "[3]", "0", "6") "}", 10);
  accept("{" TENSOR("empty", "F32", "[0,5]", "4", "4") "," TENSOR("a", "U32", "[1]", "0", "4") "}", 4);
  accept("{" TENSOR("a", "F8_E4M3", "[3]", "0", "3") "," TENSOR("b", "F4", "[2,3]", "3", "6") "}", 6);
}

static void test_fields_of_a_tensor(void **state) {
  (void)state;
  const char header[] = "{" TENSOR("b", "U32", "[2,3]", "6", "30") "," TENSOR("a", "F16", "[3]", "0", "6") "}";
  struct buffer file = {0};
  struct safetensors *parsed = NULL;
  append_length(&file, strlen(header));
  buffer_append_text(&file, header);
  size_t data = file.length;
  for (unsigned i = 0; i < 30; i++) buffer_append(&file, &(uint8_t){(uint8_t)i}, 1);
  assert_int_equal(safetensors_parse(&parsed, "good", file.data, file.length, NULL), 0);
  assert_int_equal(safetensors_count(parsed), 2);
  assert_int_equal(safetensors_file_bytes(parsed), file.length);
  assert_string_equal(safetensors_at(parsed, 0)->name, "a");
  const struct safetensors_tensor *tensor = safetensors_find(parsed, "b");
  assert_non_null(tensor);
  assert_string_equal(tensor->dtype, "U32");
  assert_int_equal(tensor->type, SAFETENSORS_U32);
  assert_int_equal(tensor->dimensions, 2);
  assert_int_equal(tensor->shape[0], 2);
  assert_int_equal(tensor->shape[1], 3);
  assert_int_equal(tensor->begin, data + 6);
  assert_int_equal(tensor->bytes, 24);
  assert_memory_equal(safetensors_data(parsed, tensor), file.data + data + 6, 24);
  assert_null(safetensors_find(parsed, "c"));
  safetensors_close(parsed);
  buffer_free(&file);
}

static void test_F1_offsets_that_do_not_match_shape_and_dtype(void **state) {
  (void)state;
  refuse("{" TENSOR("a", "BF16", "[2,3]", "0", "11") "}", 11, "tensor a: data_offsets span 11 bytes");
  refuse("{" TENSOR("a", "BF16", "[2,3]", "0", "13") "}", 13, "tensor a: data_offsets span 13 bytes");
  refuse("{" TENSOR("a", "BF16", "[1]", "2", "0") "}", 2, "tensor a: data_offsets end before they begin");
  refuse("{" TENSOR("a", "BF16", "[1]", "-2", "0") "}", 2, "tensor a: data_offsets must be");
  refuse("{" TENSOR("a", "BF16", "[1]", "0", "2.0") "}", 2, "tensor a: data_offsets must be");
  refuse("{" TENSOR("a", "F4", "[3]", "0", "1") "}", 1, "tensor a: shape × dtype is not a whole number of bytes");
}

static void test_F1_overlap_and_holes(void **state) {
  (void)state;
  refuse("{" TENSOR("a", "U8", "[4]", "0", "4") "," TENSOR("b", "U8", "[4]", "3", "7") "}", 7,
         "tensor b: overlaps tensor a");
  refuse("{" TENSOR("a", "U8", "[4]", "0", "4") "," TENSOR("b", "U8", "[4]", "0", "4") "}", 4,
         "tensor b: overlaps tensor a");
  refuse("{" TENSOR("a", "U8", "[4]", "0", "4") "," TENSOR("b", "U8", "[4]", "5", "9") "}", 9,
         "tensor b: a hole of 1 bytes");
  refuse("{" TENSOR("a", "U8", "[4]", "1", "5") "}", 5, "tensor a: a hole of 1 bytes");
  refuse("{" TENSOR("a", "U8", "[4]", "0", "4") "}", 5, "1 bytes after the last tensor a");
  refuse("{" TENSOR("a", "U8", "[4]", "0", "4") "," TENSOR("empty", "U8", "[0]", "2", "2") "}", 4,
         "tensor empty: overlaps tensor a");
  refuse("{}", 1, "1 bytes after the last tensor belong to no tensor");
}

static void test_F1_offsets_past_the_file(void **state) {
  (void)state;
  refuse("{" TENSOR("a", "U8", "[4]", "0", "4") "}", 3,
         "tensor a: ends at byte 4 of the data, but the file has only 3");
  refuse("{" TENSOR("a", "U8", "[4]", "9223372036854775803", "9223372036854775807") "}", 4, "tensor a: ends at byte");
}

static void test_F1_numbers_that_overflow_64_bits(void **state) {
  (void)state;
  refuse("{" TENSOR("a", "F32", "[4611686018427387904]", "0", "0") "}", 0, "tensor a: shape × dtype overflows 64 bits");
  refuse("{" TENSOR("a", "U8", "[4294967296,4294967296]", "0", "0") "}", 0, "tensor a: shape × dtype overflows");
  refuse("{" TENSOR("a", "U8", "[4294967296,4294967296,0]", "0", "0") "}", 0, "tensor a: shape × dtype overflows");
  refuse("{" TENSOR("b", "U8", "[1]", "0", "1") "," TENSOR("a", "U8", "[18446744073709551617]", "1", "2") "}", 2,
         "tensor a: has a number that overflows 64 bits");
  refuse("{" TENSOR("a", "U8", "[1]", "0", "18446744073709551616") "}", 1, "tensor a: has a number that overflows");
  refuse("{" TENSOR("a", "U8", "[-1]", "0", "1") "}", 1, "tensor a: shape must be whole numbers");
}

static void test_F1_a_header_length_beyond_the_file_or_the_format(void **state) {
  (void)state;
  struct kj_error error;
  struct safetensors *parsed = NULL;
  const uint8_t two_gigabytes[16] = {0, 0, 0, 0x80};
  const uint8_t largest[16] = {255, 255, 255, 255, 255, 255, 255, 255};
  const uint8_t one_too_many[10] = {3, 0, 0, 0, 0, 0, 0, 0, '{', '}'};
  assert_int_equal(safetensors_parse(&parsed, "bad", two_gigabytes, 16, &error), KJ_INVALID);
  assert_message(error, "bad: says that its header has 2147483648 bytes; the format allows 100 MB");
  assert_int_equal(safetensors_parse(&parsed, "bad", largest, 16, &error), KJ_INVALID);
  assert_message(error, "the format allows 100 MB");
  assert_int_equal(safetensors_parse(&parsed, "bad", one_too_many, 10, &error), KJ_INVALID);
  assert_message(error, "bad: says that its header has 3 bytes, but the file has only 10");
  for (size_t length = 0; length < 8; length++) {
    assert_int_equal(safetensors_parse(&parsed, "bad", largest, length, &error), KJ_INVALID);
    assert_message(error, "too short for a safetensors file");
  }
}

static void test_F1_deep_and_duplicate_keys(void **state) {
  (void)state;
  struct buffer deep = {0};
  buffer_append_text(&deep, "{\"a\":");
  for (unsigned i = 0; i < 100000; i++) buffer_append_text(&deep, "[");
  refuse(deep.data, 0, "maximum parsing depth");
  buffer_clear(&deep);
  for (unsigned i = 0; i < 100000; i++) buffer_append_text(&deep, "{\"a\":");
  refuse(deep.data, 0, "maximum parsing depth");
  buffer_free(&deep);
  refuse("{" TENSOR("twin", "U8", "[1]", "0", "1") "," TENSOR("twin", "U8", "[1]", "1", "2") "}", 2,
         "duplicate object key near '\"twin\"");
  refuse("{\"a\":{\"dtype\":\"U8\",\"dtype\":\"I8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1,
         "duplicate object key near '\"dtype\"");
}

static void test_F1_unknown_dtype_and_fields(void **state) {
  (void)state;
  refuse("{" TENSOR("a", "F33", "[1]", "0", "4") "}", 4, "tensor a: dtype F33 is unknown");
  refuse("{\"a\":{\"dtype\":7,\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "tensor a: has no dtype");
  refuse("{\"a\":{\"dtype\":\"U8\",\"shape\":1,\"data_offsets\":[0,1]}}", 1, "tensor a: has no shape");
  refuse("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0]}}", 1, "tensor a: data_offsets must be");
  refuse("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"offsets\":[0,1]}}", 1, "tensor a: data_offsets must be");
  refuse("{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}", 1, "tensor a: must have dtype, shape and data_offsets");
  refuse("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],\"strides\":[1]}}", 1, "tensor a: must have");
  refuse("{\"a\":null}", 0, "tensor a: must be described by an object");
  refuse("{\"\":{}}", 0, "a tensor must have a name");
  refuse("{" TENSOR("a", "U8", "[1,1,1,1,1,1,1,1,1]", "0", "1") "}", 1, "tensor a: has more than 8 dimensions");
}

static void test_F1_a_header_that_is_not_an_object(void **state) {
  (void)state;
  refuse("", 0, "does not begin with {");
  refuse("[]", 0, "does not begin with {");
  refuse(" {}", 0, "does not begin with {");
  refuse("{", 0, "header: byte");
  refuse("{}x", 0, "header: byte");
  refuse("{\"a\\u0000\":1}", 0, "header: byte");
  refuse("{\"\xff\":1}", 0, "header: byte");
  refuse("{\"__metadata__\":[]}", 0, "__metadata__ must be an object");
  refuse("{\"__metadata__\":{\"k\":1}}", 0, "__metadata__: k must be a string");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_valid_headers_are_read),
      cmocka_unit_test(test_fields_of_a_tensor),
      cmocka_unit_test(test_F1_offsets_that_do_not_match_shape_and_dtype),
      cmocka_unit_test(test_F1_overlap_and_holes),
      cmocka_unit_test(test_F1_offsets_past_the_file),
      cmocka_unit_test(test_F1_numbers_that_overflow_64_bits),
      cmocka_unit_test(test_F1_a_header_length_beyond_the_file_or_the_format),
      cmocka_unit_test(test_F1_deep_and_duplicate_keys),
      cmocka_unit_test(test_F1_unknown_dtype_and_fields),
      cmocka_unit_test(test_F1_a_header_that_is_not_an_object),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
