#include "cmd/command.h"

#include <stdbool.h>
#include <stdio.h>

int command_unknown_option(struct kj_error *error) {
  return kj_fail(error, KJ_INVALID, "unknown option or missing value");
}

int command_take_model(const char **model, int count, char **arguments, struct kj_error *error) {
  if (count > 1) return kj_fail(error, KJ_INVALID, "unexpected argument \"%s\"", arguments[1]);
  if (count == 1) *model = arguments[0];
  return 0;
}

static int parse(const struct command *command, void *flags, int argc, char **argv, bool *help,
                 struct kj_error *error) {
  int option, code;
  opterr = 0;
  optind = 0; /* starts getopt afresh */
  while ((option = getopt_long(argc, argv, command->short_options, command->options, NULL)) != -1) {
    *help = option == COMMAND_HELP;
    if (*help) return 0;
    if (option == '?') {
      command_unknown_option(error);
      return kj_fail_context(error, "%s", argv[optind - 1]);
    }
    if ((code = command->take(flags, option, optarg, error))) return code;
  }
  int count = argc - optind;
  if (command->take_arguments) return command->take_arguments(flags, count, argv + optind, error);
  return count ? kj_fail(error, KJ_INVALID, "unexpected argument \"%s\"", argv[optind]) : 0;
}

int command_main(const struct command *command, void *flags, int argc, char **argv) {
  struct kj_error error = {0};
  bool help = false;
  if (parse(command, flags, argc, argv, &help, &error)) {
    fprintf(stderr, "kaiju %s: %s\nTry: kaiju %s --help\n", command->name, error.message, command->name);
    return 2;
  }
  if (help) {
    fputs(command->manual, stdout);
  } else if (command->run(flags, &error)) {
    fprintf(stderr, "kaiju %s: %s\n", command->name, error.message);
    return 1;
  }
  if (fflush(stdout) == 0 && !ferror(stdout)) return 0;
  fprintf(stderr, "kaiju %s: cannot write to standard output\n", command->name);
  return 1;
}
