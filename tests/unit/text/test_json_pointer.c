/* References within a JSON document. */
#include "text/json_pointer.h"

#include "unit/unit.h"

static const char DOCUMENT[] =
    "{\"$defs\": {\"a\": 1, \"a/b\": 2, \"m~n\": 3, \"\": 4, \"a b\": 5, \"~1\": 6}, \"list\": [10, {\"x\": 11}]}";

static void check(const char *reference, int expected) {
  json_t *document = json_loads(DOCUMENT, 0, NULL);
  assert_non_null(document);
  const json_t *found = json_pointer_resolve(document, reference);
  if (expected)
    assert_int_equal(json_integer_value(found), expected);
  else
    assert_null(found);
  json_decref(document);
}

static void names_are_unescaped(void **state) {
  (void)state;
  check("#/$defs/a", 1);
  check("#/$defs/a~1b", 2);
  check("#/$defs/m~0n", 3);
  check("#/$defs/", 4);
  check("#/$defs/a%20b", 5);
  check("#/%24defs/a%20b", 5);
  check("#/$defs/~01", 6);
}

static void arrays_have_indexes(void **state) {
  (void)state;
  check("#/list/0", 10);
  check("#/list/1/x", 11);
  check("#/list/2", 0);
  check("#/list/00", 0);
  check("#/list/", 0);
  check("#/list/-", 0);
  check("#/list/99999999999999999999", 0);
}

static void what_leads_nowhere_is_null(void **state) {
  (void)state;
  check("", 0);
  check("other.json#/$defs/a", 0);
  check("#anchor", 0);
  check("#/$defs/absent", 0);
  check("#/$defs/a/deeper", 0);
  check("#/$defs/a%2", 0);
}

static void the_document_itself(void **state) {
  (void)state;
  json_t *document = json_loads(DOCUMENT, 0, NULL);
  assert_ptr_equal(json_pointer_resolve(document, "#"), document);
  json_decref(document);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(names_are_unescaped),
      cmocka_unit_test(arrays_have_indexes),
      cmocka_unit_test(what_leads_nowhere_is_null),
      cmocka_unit_test(the_document_itself),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
