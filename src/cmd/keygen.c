#include <stdio.h>
#include <string.h>

#include "cmd/cmd.h"
#include "link/link.h"

static const char manual[] =
    "Usage: kaiju keygen FILE\n"
    "\n"
    "Makes a new cluster key and writes it to FILE, readable by its owner only. Copy it to every machine of the\n"
    "cluster and give it to kaiju serve and kaiju node as --key-file.\n";

int cmd_keygen(int argc, char **argv) {
  if (argc == 2 && strcmp(argv[1], "--help") == 0) return fputs(manual, stdout) == EOF;
  if (argc != 2 || argv[1][0] == '-') {
    fputs(manual, stderr);
    return 2;
  }
  struct kj_error error;
  if (link_key_create(argv[1], &error)) {
    fprintf(stderr, "kaiju keygen: %s\n", error.message);
    return 1;
  }
  return 0;
}
