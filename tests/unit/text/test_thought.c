/* A model's thought apart from its answer, wherever the text is cut. */
#include <string.h>

#include "text/thought.h"
#include "unit/unit.h"

struct thought_case {
  bool begun;
  const char *text, *inner, *answer;
};

static const struct thought_case CASES[] = {
    {false, "<think>\nLet me see.\n</think>\n\nThe answer.", "Let me see.", "The answer."},
    {true, "Let me see.\n\n</think>\n\nThe answer.", "Let me see.", "The answer."},
    {true, "\n  two\n\n lines  \n</think>x", "two\n\n lines", "x"},
    {false, " \n<think>a</think>b<think>c</think>", "a", "b<think>c</think>"},
    {false, "<think>\n\n</think>\n\nNo thought.", "", "No thought."},
    {false, "No thought at all.", "", "No thought at all."},
    {false, "\n\n  indented", "", "\n\n  indented"},
    {false, "<thin", "", "<thin"},
    {false, "<thinking>", "", "<thinking>"},
    {false, "  ", "", "  "},
    {false, "", "", ""},
    {true, "never ends </think", "never ends </think", ""},
    {true, "never ends  \n", "never ends", ""},
    {true, "a </thin </think>b", "a </thin", "b"},
    {true, "a<</think>b", "a<", "b"},
    {true, "é\n</think>\n\nü ", "é", "ü "},
    {false, "<think>only a thought</think>\n\n", "only a thought", ""},
    {false, "</think>", "", "</think>"},
};

/* The text in two pieces, or byte by byte for `cut` beyond its end. */
static void split_at(const struct thought_case *wanted, size_t cut) {
  struct thought thought = thought_start(wanted->begun);
  struct buffer inner = {0}, answer = {0};
  size_t length = strlen(wanted->text);
  if (cut <= length) {
    thought_push(&thought, wanted->text, cut, &inner, &answer);
    thought_push(&thought, wanted->text + cut, length - cut, &inner, &answer);
  } else {
    for (size_t i = 0; i < length; i++) thought_push(&thought, wanted->text + i, 1, &inner, &answer);
  }
  thought_finish(&thought, &inner, &answer);
  assert_string_equal(buffer_text(&inner), wanted->inner);
  assert_string_equal(buffer_text(&answer), wanted->answer);
  thought_free(&thought);
  buffer_free(&inner);
  buffer_free(&answer);
}

static void the_same_wherever_it_is_cut(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++)
    for (size_t cut = 0; cut <= strlen(CASES[i].text) + 1; cut++) split_at(&CASES[i], cut);
}

static void no_more_is_held_back_than_may_be_a_tag(void **state) {
  (void)state;
  struct thought thought = thought_start(true);
  struct buffer inner = {0}, answer = {0};
  thought_push(&thought, "see <b", 6, &inner, &answer);
  assert_string_equal(buffer_text(&inner), "see <b");
  thought_push(&thought, " </thi", 6, &inner, &answer);
  assert_string_equal(buffer_text(&inner), "see <b");
  thought_push(&thought, "s", 1, &inner, &answer);
  assert_string_equal(buffer_text(&inner), "see <b </this");
  thought_push(&thought, "</think>a", 9, &inner, &answer);
  assert_string_equal(buffer_text(&answer), "a");
  thought_push(&thought, " </", 3, &inner, &answer);
  assert_string_equal(buffer_text(&answer), "a </");
  assert_true(thought_over(&thought));
  thought_free(&thought);
  buffer_free(&inner);
  buffer_free(&answer);
}

static void a_prompt_may_open_the_thought(void **state) {
  (void)state;
  static const struct {
    const char *prompt;
    bool opened;
  } cases[] = {{"<|im_start|>assistant\n<think>\n", true}, {"<think>", true}, {"<think>\n\n</think>\n\n", false},
               {"<|im_start|>assistant\n", false},         {"think>", false}, {"", false}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
    assert_int_equal(thought_opened(cases[i].prompt, strlen(cases[i].prompt)), cases[i].opened);
  assert_true(thought_closed("<think>\n\n</think>\n\n", 19));
  assert_false(thought_closed("<think>\n", 8));
  assert_false(thought_closed("", 0));
}

static void the_template_says_whether_there_are_thoughts(void **state) {
  (void)state;
  static const char *const sources[] = {"{{ messages[0].content }}",
                                        "{% if enable_thinking %}<think>{% else %}<think>\n</think>{% endif %}"};
  for (size_t i = 0; i < 2; i++) {
    struct chat_template *chat = NULL;
    struct kj_error error;
    assert_int_equal(chat_template_parse(&chat, "template", sources[i], strlen(sources[i]), &error), 0);
    assert_int_equal(thought_known(chat), i == 1);
    chat_template_free(chat);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_same_wherever_it_is_cut),
      cmocka_unit_test(no_more_is_held_back_than_may_be_a_tag),
      cmocka_unit_test(a_prompt_may_open_the_thought),
      cmocka_unit_test(the_template_says_whether_there_are_thoughts),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
