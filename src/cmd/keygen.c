#include "cmd/cmd.h"
#include "cmd/command.h"
#include "link/link.h"

static const char manual[] =
    "Usage: kaiju keygen FILE\n"
    "\n"
    "Makes a new cluster key and writes it to FILE, readable by its owner only. Copy it to every machine of the\n"
    "cluster and give it to kaiju serve and kaiju node as --key-file.\n"
    "\n"
    "  --help                 this text\n";

static int take(void *flags, int option, const char *value, struct kj_error *error) {
  (void)flags, (void)option, (void)value;
  return command_unknown_option(error);
}

static int take_arguments(void *flags, int count, char **arguments, struct kj_error *error) {
  const char **path = flags;
  if (count != 1) return kj_fail(error, KJ_INVALID, "one FILE is needed");
  *path = arguments[0];
  return 0;
}

static int run(void *flags, struct kj_error *error) {
  const char **path = flags;
  return link_key_create(*path, error);
}

int cmd_keygen(int argc, char **argv) {
  static const struct option known[] = {{"help", no_argument, NULL, COMMAND_HELP}, {NULL, 0, NULL, 0}};
  static const struct command command = {"keygen", manual, "", known, take, take_arguments, run};
  const char *path = NULL;
  return command_main(&command, &path, argc, argv);
}
