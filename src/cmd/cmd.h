/* The commands of the program. Each gets its own arguments, argv[0] being the command's name, and returns the process's
 * exit code: 0, 1 for a failure that it has described on standard error, 2 for wrong usage.
 */
#ifndef KAIJU_CMD_CMD_H
#define KAIJU_CMD_CMD_H

int cmd_bench(int argc, char **argv);
int cmd_keygen(int argc, char **argv);
int cmd_node(int argc, char **argv);
int cmd_plan(int argc, char **argv);
int cmd_run(int argc, char **argv);
int cmd_serve(int argc, char **argv);
int cmd_synth(int argc, char **argv);
int cmd_top(int argc, char **argv);

#endif
