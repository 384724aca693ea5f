#include "text/utf8.h"

#include "base/buffer.h"
#include "unit/unit.h"

static void reads_what_it_writes(void **state) {
  (void)state;
  for (uint32_t written = 0; written <= 0x10ffff; written++) {
    if (written == 0xd800) written = 0xe000;
    char bytes[4];
    uint32_t read = 0;
    size_t length = utf8_write(written, bytes);
    if (utf8_read(bytes, length, &read) != length || read != written) fail_msg("U+%04X", (unsigned)written);
    if (utf8_read(bytes, length - 1, &read)) fail_msg("U+%04X is read although it is cut", (unsigned)written);
    if (utf8_previous(bytes, length)) fail_msg("U+%04X does not begin where it does", (unsigned)written);
  }
}

static void finds_the_first_ill_formed_byte(void **state) {
  (void)state;
  static const struct {
    const char *text;
    size_t offset;
  } cases[] = {{"abc\xff", 3},          {"\x80", 0},
               {"\xc0\x80", 0},         {"\xe0\x9f\x80", 0},
               {"\xed\xa0\x80", 0},     {"\xf0\x8f\x80\x80", 0},
               {"\xf4\x90\x80\x80", 0}, {"\xf5\x80\x80\x80", 0},
               {"12345678\xe4\xbd", 8}, {"\xc3\xa9\xc3", 2}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    size_t offset = 99;
    assert_false(utf8_valid(cases[i].text, strlen(cases[i].text), &offset));
    assert_int_equal(offset, cases[i].offset);
  }
  assert_true(utf8_valid("a\0\xf0\x9f\x98\x80", 6, NULL));
  assert_true(utf8_valid("", 0, NULL));
}

/* Expectations from Python: bytes.decode(errors="replace"). */
static void replaces_each_maximal_ill_formed_part(void **state) {
  (void)state;
  static const struct {
    const char *bytes, *text;
  } cases[] = {{"\x80\x80", "\uFFFD\uFFFD"},
               {"\xe4\xbd", "\uFFFD"},
               {"\xe4\xbd\xe4\xbd\xa0", "\uFFFD\u4F60"},
               {"\xf0\x9f\x98g", "\uFFFDg"},
               {"\xf0\x9f\xf0\x9f\x98\x80", "\uFFFD\U0001F600"},
               {"\xed\xa0\x80", "\uFFFD\uFFFD\uFFFD"},
               {"\xe0\x80\x80", "\uFFFD\uFFFD\uFFFD"},
               {"\xf4\x90\x80\x80", "\uFFFD\uFFFD\uFFFD\uFFFD"},
               {"\xc3\xc3\xa9\xff", "\uFFFD\u00E9\uFFFD"},
               {"a\xf1\x80\x80\xe1\x80\xc2"
                "b",
                "a\uFFFD\uFFFD\uFFFDb"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct utf8_replacer replacer = {0};
    struct buffer text = {0};
    char out[8];
    for (const char *byte = cases[i].bytes; *byte; byte++)
      buffer_append(&text, out, utf8_replacer_push(&replacer, (unsigned char)*byte, out));
    buffer_append(&text, out, utf8_replacer_finish(&replacer, out));
    assert_string_equal(buffer_text(&text), cases[i].text);
    buffer_free(&text);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reads_what_it_writes),
      cmocka_unit_test(finds_the_first_ill_formed_byte),
      cmocka_unit_test(replaces_each_maximal_ill_formed_part),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
