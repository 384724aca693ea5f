#include <stdio.h>
#include <string.h>

#include "cmd/cmd.h"

static const struct {
  const char *name;
  int (*run)(int argc, char **argv);
  const char *summary;
} commands[] = {
    {"serve", cmd_serve, "serve a model over HTTP, alone or as the lead of a pipeline"},
    {"node", cmd_node, "compute some layers for a lead"},
    {"run", cmd_run, "answer a prompt, or chat, in the terminal"},
    {"top", cmd_top, "watch what a running cluster is doing"},
    {"plan", cmd_plan, "show how a model's layers and memory spread over nodes"},
    {"bench", cmd_bench, "measure prefill and decode speed"},
    {"synth", cmd_synth, "write a synthetic checkpoint of a published model's shape"},
    {"keygen", cmd_keygen, "make a cluster key"},
};
enum { COMMANDS = sizeof commands / sizeof *commands };

static int print_usage(FILE *file) {
  fputs("Kaiju serves language models that are too big for one machine.\n\nUsage: kaiju COMMAND [options]\n\n", file);
  for (size_t i = 0; i < COMMANDS; i++) fprintf(file, "  %-8s %s\n", commands[i].name, commands[i].summary);
  fputs("\nkaiju COMMAND --help says more; kaiju --version prints the version.\n", file);
  return file == stdout ? 0 : 2;
}

int main(int argc, char **argv) {
  if (argc < 2) return print_usage(stderr);
  if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0) return print_usage(stdout);
  if (strcmp(argv[1], "--version") == 0) return printf("kaiju %s\n", KAIJU_VERSION) < 0;
  for (size_t i = 0; i < COMMANDS; i++)
    if (strcmp(argv[1], commands[i].name) == 0) return commands[i].run(argc - 1, argv + 1);
  fprintf(stderr, "kaiju: there is no command \"%s\"\n\n", argv[1]);
  return print_usage(stderr);
}
