/* The frame that all commands share: options, --help, messages, exit codes.
 *
 * A command describes its options and gives three functions; command_main parses, prints the manual for --help, runs,
 * and returns the exit code: 0, 1 for a failure, 2 for wrong usage, each with one line on standard error.
 */
#ifndef KAIJU_CMD_COMMAND_H
#define KAIJU_CMD_COMMAND_H

#include <getopt.h>

#include "base/error.h"

enum { COMMAND_HELP = 'h' }; /* the value of --help in a command's list of options */

struct command {
  const char *name; /* "serve" */
  const char *manual;
  const char *short_options;    /* as getopt has them; "" for none */
  const struct option *options; /* ends with zeros */
  /* Takes one option with its value (NULL for one without). An option that is not the command's own is KJ_INVALID. */
  int (*take)(void *flags, int option, const char *value, struct kj_error *error);
  /* Takes the arguments that are no options; NULL if there may be none. */
  int (*take_arguments)(void *flags, int count, char **arguments, struct kj_error *error);
  int (*run)(void *flags, struct kj_error *error);
};

int command_main(const struct command *command, void *flags, int argc, char **argv);

/* For `take`: what it returns for an option that nobody knows. */
int command_unknown_option(struct kj_error *error);
/* For `take_arguments`: at most one MODEL; *model stays as it is without one. */
int command_take_model(const char **model, int count, char **arguments, struct kj_error *error);

#endif
